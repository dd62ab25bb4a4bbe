"""Keep what was tested: a copy, with secrets masked, of everything that an agent is given besides its task.

Results are looked at months later, when a CLAUDE.md or a skill has changed: the copy says which one it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import open_file, write_atomically
from youbencha.log.model import Count, Record, as_json
from youbencha.process import Redactor
from youbencha.spec.testcase import AgentSpec
from youbencha.trial.agent_files import entries, named_files
from youbencha.workspace.overlay import GivenFile, given_file

MANIFEST = "agent.json"
_MAX_FILE_BYTES = 1024**2
_MAX_BYTES = 32 * 1024**2
"""The limit for all files of an agent. A home may contain programs, for which the hash is enough."""

_SETTINGS = frozenset({"", ".json", ".jsonc", ".toml", ".yaml", ".yml", ".env", ".ini", ".cfg", ".conf"})
"""Endings of files with names and values, such as `mcp.json` or `.npmrc`."""
_QUOTED = re.compile(r"""([A-Za-z_][\w.-]*)\\*["']?\s*[:=]\s*\\*["']([^"'\\\n]+)""")
"""`"NAME": "VALUE"`, also in a text in JSON."""
_OPTION = re.compile(r"""--?([A-Za-z][\w-]*)(?:\\*["'],\s*\\*["']|[= ])([^\s"'\\]+)""")
"""`"--name", "VALUE"` and `--name=VALUE`."""
_UNQUOTED = re.compile(r"""([A-Za-z_][\w.-]*)[ \t]*[:=][ \t]*([^\s"'#]+)""")
"""`NAME=VALUE` and `name: VALUE`. Not in JSON, where a text has quotes."""
_CONFIG_DIR = "{config_dir}/"


class KeptFile(Record):
    """A file that an agent was given."""

    path: str
    """The path in this directory."""
    source: str
    """Where it was."""
    size: Count
    sha256: str
    kept: bool
    """False: only its hash is here, because it is large or not text."""


class KeptAgent(Record):
    """What an agent was: its configuration as it was written, and its files."""

    agent: dict[str, object]
    files: tuple[KeptFile, ...] = ()


class _Given(NamedTuple):
    place: PurePosixPath
    file: GivenFile


def keep_agent_files(agent: AgentSpec, config_dir: Path, target: Path, redactor: Redactor) -> None:
    """Write the agent's files, and at last `agent.json`, to the directory `target`, which is created if needed."""
    try:
        files = _keep_files(agent, config_dir, target, redactor)
    except OSError as error:
        message = f"Cannot copy the agent's files to {target}: {error.filename or ''} {error.strerror or error}"
        raise YouBenchaError("ARTIFACTS_NOT_WRITABLE", message, hint="Check the free disk space.") from error
    written = agent.model_dump(mode="json", exclude_none=True)
    written["config"] = {name: value for name, value in agent.config.items() if name != "prompt"}
    about = as_json(KeptAgent(agent=written, files=tuple(files)))
    write_atomically(target / MANIFEST, _without_secrets(about, ".json", redactor).encode())


def _keep_files(agent: AgentSpec, config_dir: Path, target: Path, redactor: Redactor) -> list[KeptFile]:
    target.mkdir(parents=True, exist_ok=True)
    room = _MAX_BYTES
    kept: list[KeptFile] = []
    for place, file in _given(agent, config_dir):
        with open_file(file.source) as source:
            content = source.read(_MAX_FILE_BYTES) if file.size <= min(room, _MAX_FILE_BYTES) else None
            source.seek(0)
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        text = None if content is None else _masked_text(content, place, redactor)
        if text is not None:
            room -= file.size
            copy = target / place
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(copy, text.encode("utf-8"))
        kept.append(
            KeptFile(path=str(place), source=str(file.source), size=file.size, sha256=digest, kept=text is not None)
        )
    return kept


def _given(agent: AgentSpec, config_dir: Path) -> Iterator[_Given]:
    """Each file that the agent is given, with its place in the copy."""
    for entry in entries(agent, config_dir):
        if entry.kind == "instructions":
            yield _Given(PurePosixPath(entry.kind, entry.source.name), given_file(entry.source, entry.source.name))
            continue
        for file in entry.files():
            yield _Given(PurePosixPath(entry.kind, entry.name, file.path), file)
    named = [*named_files(agent), *(("command", word) for word in _scripts(agent))]
    for option, name in named:
        source = config_dir / Path(name).expanduser()
        if source.is_file():
            yield _Given(PurePosixPath(option, source.name), given_file(source, source.name))


def _scripts(agent: AgentSpec) -> Iterator[str]:
    """Programs of the user that a `command` names, such as an adapter script."""
    command = agent.config.get("command")
    for word in command if isinstance(command, list | tuple) else ():
        if isinstance(word, str) and word.startswith(_CONFIG_DIR):
            yield word.removeprefix(_CONFIG_DIR)


def _masked_text(content: bytes, place: PurePosixPath, redactor: Redactor) -> str | None:
    """The text without secrets; None if it is not text."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return _without_secrets(text, place.suffix.lower(), redactor)


def _without_secrets(text: str, ending: str, redactor: Redactor) -> str:
    """Mask what a redactor knows, and in settings the values whose names suggest a secret. References stay."""
    if ending in _SETTINGS:
        pairs = [*_QUOTED.findall(text), *_OPTION.findall(text)]
        if not ending.startswith(".json"):
            pairs += _UNQUOTED.findall(text)
        # Numbered, because two servers may have different values of the same name.
        named = {f"{number}_{name}": value for number, (name, value) in enumerate(pairs) if "${" not in value}
        redactor = redactor.with_env(named)
    return redactor.text(text)
