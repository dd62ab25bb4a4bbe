"""A custom agent's definition: `.claude/agents/NAME.md`, a YAML header and a prompt.

The CLI gets it both ways, as `--agents` with the definition and `--agent` with the name: a name alone is silently
ignored by some versions when the file is not where they look, and then the wrong agent is measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from youbencha.adapters.claude_code.config_dir import config_dir
from youbencha.adapters.claude_code.errors import one_problem
from youbencha.adapters.cli_agent.config import fits_argument
from youbencha.adapters.cli_agent.definition_file import read_definition

_AGENTS = Path(".claude", "agents")
_FENCE = "---"
_LISTS = {"tools", "disallowedTools", "skills"}
"""Written as `A, B` in a header; `--agents` takes lists only."""


def agent_definition(
    name: str,
    *,
    workspace: Path,
    env: Mapping[str, str],
    harness: Mapping[str, str] | None = None,
    project: Path | None = None,
) -> str:
    """The value of `--agents` for one agent, or an error that says where it was looked for.

    `project` is where the test case lies; `harness` is the person's own environment, as the agent's home may be fresh.
    """
    places = _places(workspace, project, (env, harness or {}))
    for path in (path for place in places for path in sorted(place.glob("*.md"))):
        # What a link leads to out of the repository is not for a model to see.
        text = read_definition(path, below=workspace if path.is_relative_to(workspace) else None)
        if text is None:
            continue
        header, prompt = _split(text.decode("utf-8", errors="replace").replace("\r\n", "\n"))
        fields = _read_header(header)
        if str(fields.get("name") or path.stem) == name:  # the CLI goes by the header, not by the file's name
            return _argument(json.dumps({name: _definition(fields, prompt, name)}, default=str), path)
    looked = ", ".join([f"{_AGENTS.as_posix()} of the repository", *map(str, _lasting(places[1:], env, harness))])
    raise one_problem(
        "agent_name", f"no definition of agent {name!r} was found", f"put {name}.md into one of: {looked}"
    )


def _places(workspace: Path, project: Path | None, environments: Sequence[Mapping[str, str]]) -> list[Path]:
    """The task's own, the test case's, the person's. Each once."""
    from youbencha.workspace.project import project_directories

    homes = [place / "agents" for place in map(config_dir, environments) if place]
    above = project_directories(project) if project else []
    return list(dict.fromkeys([workspace / _AGENTS, *(place / _AGENTS for place in above), *homes]))


def _lasting(places: Sequence[Path], env: Mapping[str, str], harness: Mapping[str, str] | None) -> list[Path]:
    """Without a home that is made for one run: nothing can be put there."""
    own, persons = config_dir(env), config_dir(harness or env)
    return [place for place in places if own == persons or own is None or place != own / "agents"]


def _argument(text: str, path: Path) -> str:
    if not fits_argument(text):
        raise one_problem("agent_name", f"{path} is too long for a command line", "shorten the agent's prompt")
    return text


def _definition(fields: Mapping[str, Any], prompt: str, name: str) -> dict[str, Any]:
    """Every field of the header goes along: what is left out here would not hold for the agent."""
    definition = {key: value for key, value in fields.items() if key != "name" and value not in (None, "", [])}
    for key in _LISTS & set(definition):
        value = definition.pop(key)
        names = value.split(",") if isinstance(value, str) else value
        if isinstance(names, list):
            definition[key] = [str(each).strip() for each in names]
    described = definition.get("description")
    description = described if isinstance(described, str) else name
    return {**definition, "description": description, "prompt": prompt}


def _split(text: str) -> tuple[str, str]:
    """The header between two fences, if the file starts with one, and the rest."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if lines and lines[0].strip() == _FENCE:
        for number, line in enumerate(lines[1:], start=1):
            if line.strip() == _FENCE:
                return "".join(lines[1:number]), "".join(lines[number + 1 :]).strip()
    return "", text.strip()


def _read_header(header: str) -> Mapping[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        fields = YAML(typ="safe").load(header)
    except YAMLError:
        # `description: Use when: asked` is no YAML, but such files are common, and the CLI takes them.
        pairs = (line.partition(":") for line in header.splitlines() if not line.startswith((" ", "\t", "#")))
        return {key.strip(): value.strip() for key, colon, value in pairs if colon}
    return fields if isinstance(fields, Mapping) else {}
