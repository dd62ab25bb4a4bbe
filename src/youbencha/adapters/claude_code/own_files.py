"""Find and read Claude Code's own files: configuration, agents, debug log, session record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from youbencha.adapters.claude_code.config import CLAUDE
from youbencha.adapters.cli_agent.agent_files import matching_records, read_definition
from youbencha.adapters.cli_agent.config import fits_argument
from youbencha.control.stream_json import SYNTHETIC, read_usage
from youbencha.json_lines import mapping, text
from youbencha.log.session import SessionFacts
from youbencha.sandbox.base import Sandbox
from youbencha.usage import SessionUsage, UsageCounter

_PLACES = ("CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE", "XDG_STATE_HOME")


def config_dir(env: Mapping[str, str]) -> Path | None:
    """None where the environment names no home at all."""
    if given := env.get("CLAUDE_CONFIG_DIR"):
        return Path(given)
    home = env.get("HOME") or env.get("USERPROFILE")
    return Path(home) / ".claude" if home else None


def on_the_host(sandbox: Sandbox, env: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment with its places as the host knows them; without those that are only in there."""
    seen = {name: sandbox.outside(env[name]) for name in _PLACES if env.get(name)}
    others = {name: value for name, value in env.items() if name not in seen}
    return {**others, **{name: str(path) for name, path in seen.items() if path is not None}}


# -- custom agents: `.claude/agents/NAME.md`, a YAML header and a prompt -----------------------------------------
#
# The CLI gets both `--agents` with the definition and `--agent` with the name: a name alone is silently ignored by some
# versions when the file is not where they look, and then the wrong agent is measured.

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
    raise CLAUDE.one_problem(
        "agent_name", f"no definition of agent {name!r} was found", f"put {name}.md into one of: {looked}"
    )


def _places(workspace: Path, project: Path | None, environments: Sequence[Mapping[str, str]]) -> list[Path]:
    """The task's own, the test case's, the person's. Each once."""
    from youbencha.user_dirs import project_directories

    homes = [place / "agents" for place in map(config_dir, environments) if place]
    above = project_directories(project) if project else []
    return list(dict.fromkeys([workspace / _AGENTS, *(place / _AGENTS for place in above), *homes]))


def _lasting(places: Sequence[Path], env: Mapping[str, str], harness: Mapping[str, str] | None) -> list[Path]:
    """Without a home that is made for one run: nothing can be put there."""
    own, persons = config_dir(env), config_dir(harness or env)
    return [place for place in places if own == persons or own is None or place != own / "agents"]


def _argument(text: str, path: Path) -> str:
    if not fits_argument(text):
        raise CLAUDE.one_problem("agent_name", f"{path} is too long for a command line", "shorten the agent's prompt")
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


# -- the CLI's own record of a session: the model, the turns and the tokens where its output does not tell them --
#
# Text mode prints the answer alone. And a session that was ended before its totals has one output token for each call
# in the stream of 2.1.x; in its record they are final (seen in 1.0.128, 2.0.62 and 2.1.325). Side models are not in it,
# so what it tells is the least that was used.

_ID = re.compile(r"[0-9a-f-]{8,64}")

_WANTED = (b'"assistant"',)


def with_session_file(facts: SessionFacts, session_id: str | None, config: Path | None) -> SessionFacts:
    """`config` is where the CLI keeps what is its user's."""
    if facts.usage is not None and not facts.usage.partial:
        return facts
    path = _session_file(config, session_id or facts.session_id)
    if path is None or config is None:
        return facts
    counter, model, ids = UsageCounter(), None, set()
    for record in matching_records(path, config, _WANTED):
        message = mapping(record.get("message")) if record.get("type") == "assistant" else {}
        name, key = text(message.get("model")), text(message.get("id"))
        if name == SYNTHETIC or key is None:
            continue
        model = name or model
        ids.add(key)
        counter.add_call(read_usage(message.get("usage")), message_id=key)
    return replace(
        facts,
        model=facts.model or model,
        turns=len(ids) or None if facts.turns is None else facts.turns,
        usage=_at_least(facts.usage, counter.usage()),
    )


def _session_file(config: Path | None, session_id: str | None) -> Path | None:
    if config is None or session_id is None or not _ID.fullmatch(session_id):
        return None
    return next(config.glob(f"projects/*/{session_id}.jsonl"), None)


def _at_least(seen: SessionUsage | None, recorded: SessionUsage | None) -> SessionUsage | None:
    """Neither knows all of it: the stream may have got further than what was written down."""
    if seen is None or recorded is None:
        return recorded or seen
    more = (recorded.tokens.output or 0) >= (seen.tokens.output or 0)
    return recorded._replace(cost_usd=seen.cost_usd) if more else seen
