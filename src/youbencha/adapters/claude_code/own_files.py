"""Find and read Claude Code's own files: configuration, custom agents, MCP servers, session files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.claude_code.options import ClaudeCode, ClaudeCodeConfig
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.cli_agent.config import fits_argument
from youbencha.adapters.cli_agent.session_files import directory_from, matching_records, read_definition
from youbencha.adapters.cli_agent.transcript import Conversation
from youbencha.errors import Problem
from youbencha.events import ToolCalled, ToolReturned
from youbencha.files import read_file
from youbencha.log.session import SessionRecord, SessionRecorder
from youbencha.sandbox.base import Sandbox
from youbencha.usage import SessionUsage, larger
from youbencha.user_dirs import project_directories

_DIRECTORY_VARIABLES = ("CLAUDE_CONFIG_DIR", "HOME", "USERPROFILE", "XDG_STATE_HOME")


def config_dir(env: Mapping[str, str]) -> Path | None:
    """Return the CLI's configuration directory; None if the environment names no home."""
    return directory_from(env, "CLAUDE_CONFIG_DIR", ".claude")


def host_environment(sandbox: Sandbox, env: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment with the host's paths; without directories that exist only in the sandbox."""
    paths = {name: sandbox.outside(env[name]) for name in _DIRECTORY_VARIABLES if env.get(name)}
    others = {name: value for name, value in env.items() if name not in paths}
    return {**others, **{name: str(path) for name, path in paths.items() if path is not None}}


# Custom agents: `.claude/agents/NAME.md`, a YAML header and a prompt.
#
# The CLI gets both `--agents` with the definition and `--agent` with the name: some versions silently ignore a name
# whose file they do not find, and then the wrong agent would be measured.

AGENTS = Path(".claude", "agents")
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
    """Return the value of `--agents` for one agent. If it is not found, the error lists the directories searched.

    `project` is the directory of the test case; `harness` is the user's environment: the agent's home may be fresh.
    """
    directories = _agent_directories(workspace, project, (env, harness or {}))
    for path in (path for directory in directories for path in sorted(directory.glob("*.md"))):
        # A link out of the repository must not be shown to the model.
        text = read_definition(path, below=workspace if path.is_relative_to(workspace) else None)
        if text is None:
            continue
        header, prompt = _split(text.decode("utf-8", errors="replace").replace("\r\n", "\n"))
        fields = _read_header(header)
        if str(fields.get("name") or path.stem) == name:  # the CLI uses the header, not the file's name
            if not prompt:
                raise ClaudeCode.one_problem("agent_name", f"{path} has no instructions", "write them below its header")
            return _argument(json.dumps({name: _definition(fields, prompt, name)}, default=str), path)
    usable = _without_fresh_home(directories[1:], env, harness)
    searched = ", ".join([f"{AGENTS.as_posix()} of the repository", *map(str, usable)])
    raise ClaudeCode.one_problem(
        "agent_name", f"no definition of agent {name!r} was found", f"put {name}.md into one of: {searched}"
    )


def _agent_directories(workspace: Path, project: Path | None, environments: Sequence[Mapping[str, str]]) -> list[Path]:
    """Return the repository's, the test case's and the user's, without duplicates."""
    homes = [directory / "agents" for directory in map(config_dir, environments) if directory]
    above = project_directories(project) if project else []
    return list(dict.fromkeys([workspace / AGENTS, *(directory / AGENTS for directory in above), *homes]))


def _without_fresh_home(
    directories: Sequence[Path], env: Mapping[str, str], harness: Mapping[str, str] | None
) -> list[Path]:
    """Leave out a home that is created for one run: the user cannot put a file there."""
    agents, users = config_dir(env), config_dir(harness or env)
    return [path for path in directories if agents == users or agents is None or path != agents / "agents"]


def _argument(text: str, path: Path) -> str:
    if not fits_argument(text):
        raise ClaudeCode.one_problem(
            "agent_name", f"{path} is too long for a command line", "shorten the agent's prompt"
        )
    return text


def _definition(fields: Mapping[str, Any], prompt: str, name: str) -> dict[str, Any]:
    """Convert the header. Every field is passed on: one that is left out would not apply to the agent."""
    definition = {key: value for key, value in fields.items() if key != "name" and value not in (None, "", [])}
    for key in _LISTS & set(definition):
        value = definition.pop(key)
        names = value.split(",") if isinstance(value, str) else value
        if isinstance(names, list):
            definition[key] = [str(name).strip() for name in names]
    described = definition.get("description")
    description = described if isinstance(described, str) else name
    return {**definition, "description": description, "prompt": prompt}


def _split(text: str) -> tuple[str, str]:
    """Return the header between two fences, if the file starts with one, and the rest."""
    text = text.removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    if lines and lines[0].strip() == _FENCE:
        for number, line in enumerate(lines[1:], start=1):
            if line.strip() == _FENCE:
                return "".join(lines[1:number]), "".join(lines[number + 1 :]).strip()
    return "", text.strip()


def _read_header(header: str) -> Mapping[str, Any]:
    try:
        fields = YAML(typ="safe", pure=True).load(header)
    except YAMLError:
        # `description: Use when: asked` is not valid YAML, but such files are common, and the CLI accepts them.
        pairs = (line.partition(":") for line in header.splitlines() if not line.startswith((" ", "\t", "#")))
        return {key.strip(): value.strip() for key, colon, value in pairs if colon}
    return fields if isinstance(fields, Mapping) else {}


# MCP servers: `mcp_config` is the content of a file, or its name, next to the configuration or in the repository.

_MAX_MCP_CONFIG_BYTES = 1_000_000


def mcp_problems(given: object, directory: Path | None) -> Iterator[Problem]:
    """Yield what is wrong with `mcp_config`. A file that is not in `directory` may be in the repository."""
    if not isinstance(given, str):
        return  # the model reports this
    path = None if directory is None else _mcp_file(given, directory)
    if path is None and not _is_json(given):
        return
    name = "" if path is None else f"{given} "
    try:
        data = json.loads(given if path is None else read_file(path, _MAX_MCP_CONFIG_BYTES))
    except OSError as error:
        yield Problem("mcp_config", f"{name}{error.strerror}")
    except (ValueError, RecursionError) as error:
        yield Problem("mcp_config", f"{name}is not JSON: {error}")
    else:
        if not isinstance(data, dict) or not isinstance(data.get("mcpServers"), dict):
            example = '{"mcpServers": {"docs": {"command": "docs-server"}}}'
            yield Problem("mcp_config", f"{name}has no `mcpServers`", f"write {example}")


def with_shared_files(config: ClaudeCodeConfig, context: AgentExecutionContext) -> ClaudeCodeConfig:
    """Share the file that `mcp_config` names with the sandbox, and use its path in there."""
    named = config.mcp_config
    if named is None or _is_json(named):
        return config
    directory = context.config_dir or context.workspace_dir
    if path := _mcp_file(named, directory):
        context.sandbox.share(path)
        return config.model_copy(update={"mcp_config": context.sandbox.inside(path)})
    in_image = context.sandbox.kind != "local" and Path(named).is_absolute()
    if not in_image and not os.path.lexists(context.workspace_dir / named):
        hint = f"searched: {directory}, then the repository"
        raise ClaudeCode.one_problem("mcp_config", f"{named} does not exist", hint)
    return config


def _mcp_file(given: str, directory: Path) -> Path | None:
    path = (directory / os.path.expanduser(given)).absolute()  # noqa: PTH111 - of an unknown user, it stays as it is
    return path if os.path.isfile(path) and not _is_json(given) else None  # noqa: PTH113 - of any text


def _is_json(given: str) -> bool:
    return given.lstrip().startswith("{")


# The CLI's own session file has the model, the turns, the tokens, the tools and a failed call if the output does not.
#
# Text mode prints only the answer. And if a session was ended before its totals, the stream of 2.1.x has one output
# token for each call. In the session file of 2.1.326 they are final. 1.0.128 and 2.0.62 write a block 0.1 s after its
# end, with a final number only if the call has ended by then; 2.1.30 never has one. Otherwise they stay unknown.
# Side models are not in it, so it is a lower bound.

_ID = re.compile(r"[0-9a-f-]{8,64}")
_SUBAGENT = "(unknown)"
"""The tool call that started a subagent. Up to 2.0.24 they are in the same file, also those that are only warmed up."""
_WANTED = {"assistant": b'"assistant"', "user": b'"tool_result"'}


def with_session_file(session: SessionRecord, session_id: str | None, config: Path | None) -> SessionRecord:
    """Add what the session file has. `config` is the CLI's configuration directory."""
    facts = session.facts
    if facts.usage is not None and not facts.usage.partial:
        return session
    path = _session_file(config, session_id or facts.session_id)
    if path is None or config is None:
        return session
    recorder, transcript, handlers = SessionRecorder(), Conversation(), ClaudeStreamReader().handlers()
    for record in matching_records(path, config, tuple(_WANTED.values())):
        if record.get("isSidechain") is True:
            record = {**record, "parent_tool_use_id": _SUBAGENT}
        for event in handlers[record["type"]](record) if record.get("type") in _WANTED else ():
            recorder.record(event)
            if isinstance(event, ToolCalled | ToolReturned):
                transcript.add(event)
    recorded = recorder.facts()
    if not facts.stream_seen:
        session = session._replace(tool_calls=transcript.tool_calls(), left_out=transcript.left_out())
    return session.with_facts(
        model=facts.model or recorded.model,
        turns=recorded.turns if facts.turns is None else facts.turns,
        denied_tools=facts.denied_tools or recorded.denied_tools,
        usage=_at_least(facts.usage, recorded.usage),
        failure=facts.failure if facts.stream_seen else recorded.failure,
    )


def _session_file(config: Path | None, session_id: str | None) -> Path | None:
    if config is None or session_id is None or not _ID.fullmatch(session_id):
        return None
    return next(config.glob(f"projects/*/{session_id}.jsonl"), None)


def _at_least(seen: SessionUsage | None, recorded: SessionUsage | None) -> SessionUsage | None:
    """Return the larger numbers: the stream may be ahead of the session file, and its total has side models."""
    if seen is None or recorded is None:
        return recorded or seen
    return seen._replace(tokens=larger(seen.tokens, recorded.tokens))
