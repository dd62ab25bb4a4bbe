"""A custom agent's definition: `.claude/agents/NAME.md`, a YAML header and a prompt.

The CLI gets it both ways, as `--agents` with the definition and `--agent` with the name: a name alone is silently
ignored by some versions when the file is not where they look, and then the wrong agent is measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from youbencha.adapters.claude_code.errors import one_problem

_FENCE = "---"


def agent_definition(name: str, *, workspace: Path, env: Mapping[str, str]) -> str:
    """The value of `--agents` for one agent, or an error that says where it was looked for."""
    places = [workspace / ".claude" / "agents", *_user_places(env)]
    for place in places:
        for path in sorted(place.glob("*.md")):
            if not path.is_file():  # a pipe would be waited on for ever
                continue
            header, prompt = _split(path.read_text(encoding="utf-8", errors="replace"))
            fields = _read_header(header, path, is_wanted=path.stem == name)
            if str(fields.get("name") or path.stem) == name:  # the CLI goes by the header, not by the file's name
                return json.dumps({name: _definition(fields, prompt, name)})
    looked = ", ".join(str(place) for place in places)
    raise one_problem(
        "agent_name", f"no definition of agent {name!r} was found", f"put {name}.md into one of: {looked}"
    )


def _user_places(env: Mapping[str, str]) -> list[Path]:
    if config_dir := env.get("CLAUDE_CONFIG_DIR"):
        return [Path(config_dir) / "agents"]
    home = env.get("HOME") or env.get("USERPROFILE")
    return [Path(home) / ".claude" / "agents"] if home else []


def _definition(fields: Mapping[str, Any], prompt: str, name: str) -> dict[str, Any]:
    described = fields.get("description")
    description = described if isinstance(described, str) and described else name
    definition: dict[str, Any] = {"description": description, "prompt": prompt}
    tools = fields.get("tools")
    names = tools.split(",") if isinstance(tools, str) else tools
    if isinstance(names, list) and names:
        definition["tools"] = [str(tool).strip() for tool in names]
    model = fields.get("model")
    if isinstance(model, str) and model:
        definition["model"] = model
    return definition


def _split(text: str) -> tuple[str, str]:
    """The header between two fences, if the file starts with one, and the rest."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if lines and lines[0].strip() == _FENCE:
        for number, line in enumerate(lines[1:], start=1):
            if line.strip() == _FENCE:
                return "".join(lines[1:number]), "".join(lines[number + 1 :]).strip()
    return "", text.strip()


def _read_header(header: str, path: Path, *, is_wanted: bool) -> Mapping[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        fields = YAML(typ="safe").load(header)
    except YAMLError as error:
        if not is_wanted:  # somebody else's mistake
            return {}
        raise one_problem("agent_name", f"the header of {path} is not valid YAML: {error}") from None
    return fields if isinstance(fields, Mapping) else {}
