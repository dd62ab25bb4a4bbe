"""The toolbox: pinned versions of agent CLIs, side by side on this host. Start at `toolbox.py`.

Each version is in `<root>/<agent>/<version>/` with a `manifest.json` that says where it came from and what its digest
is. Which registries packages come from is the user's own pip and npm configuration, never ours.
"""
