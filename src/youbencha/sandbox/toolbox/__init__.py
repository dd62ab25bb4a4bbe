"""The toolbox: pinned versions of agent CLIs, side by side on this computer.

    toolbox = Toolbox()
    claude = toolbox.find("claude-code", "2.0.62") or await toolbox.install("claude-code", "2.0.62", progress=print)
    toolbox.verify(claude)

Each version lives in `<root>/<agent>/<version>/` with a `manifest.json` that says where it came from and what its
digest is. Which registries packages come from is the user's own pip and npm configuration, never ours.
"""

from youbencha.sandbox.toolbox.catalogue import parse_request
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.location import default_root
from youbencha.sandbox.toolbox.on_path import AgentOnPath, on_path
from youbencha.sandbox.toolbox.probe import ask_version
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.sandbox.toolbox.watched import Progress

__all__ = [
    "AgentOnPath",
    "InstalledAgent",
    "Progress",
    "Toolbox",
    "ask_version",
    "default_root",
    "on_path",
    "parse_request",
]
