"""The toolbox: pinned versions of agent CLIs, side by side on this host. Start at `toolbox.py`.

Each version is in `<root>/<agent>/<version>/` with a `manifest.json` that has its source and digest. The registries are
those of the user's pip and npm configuration.
"""
