"""The toolbox: pinned versions of agent CLIs, side by side on this computer.

    toolbox = Toolbox()
    claude = toolbox.find("claude-code", "2.0.62") or await toolbox.install("claude-code", "2.0.62", progress=print)
    toolbox.verify(claude)

Each version lives in `<root>/<agent>/<version>/` with a `manifest.json` that says where it came from and what its
digest is. Which registries packages come from is the user's own pip and npm configuration, never ours.

What is not used is not loaded: most trials only ask where the toolbox is.
"""

from __future__ import annotations
