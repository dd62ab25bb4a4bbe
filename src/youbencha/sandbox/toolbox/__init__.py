"""The toolbox: pinned versions of agent CLIs, side by side on this computer.

    toolbox = Toolbox()
    claude = toolbox.find("claude-code", "2.0.62") or await toolbox.install("claude-code", "2.0.62", progress=print)
    toolbox.verify(claude)

Each version lives in `<root>/<agent>/<version>/` with a `manifest.json` that says where it came from and what its
digest is. Which registries packages come from is the user's own pip and npm configuration, never ours.

What is not used is not loaded: most trials only ask where the toolbox is.
"""

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.sandbox.toolbox.carried import Carried, carry, carry_file
    from youbencha.sandbox.toolbox.catalogue import parse_request
    from youbencha.sandbox.toolbox.installed import InstalledAgent
    from youbencha.sandbox.toolbox.location import default_root
    from youbencha.sandbox.toolbox.path_agents import AgentOnPath, on_path
    from youbencha.sandbox.toolbox.probe import ask_version
    from youbencha.sandbox.toolbox.toolbox import Toolbox
    from youbencha.sandbox.toolbox.watched import Progress

__all__ = [
    "AgentOnPath",
    "Carried",
    "InstalledAgent",
    "Progress",
    "Toolbox",
    "ask_version",
    "carry",
    "carry_file",
    "default_root",
    "on_path",
    "parse_request",
]

_HOMES = {
    "AgentOnPath": "path_agents",
    "Carried": "carried",
    "InstalledAgent": "installed",
    "Progress": "watched",
    "Toolbox": "toolbox",
    "ask_version": "probe",
    "carry": "carried",
    "carry_file": "carried",
    "default_root": "location",
    "on_path": "path_agents",
    "parse_request": "catalogue",
}

__getattr__ = imported_when_asked(__name__, _HOMES)
