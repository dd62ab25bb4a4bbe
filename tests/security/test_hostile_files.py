"""Files that an agent could have written: no reader waits for one, leaves its directory, or reads without end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from systems import posix_only
from youbencha.adapters import codex
from youbencha.adapters.claude_code import output, own_files
from youbencha.adapters.claude_code.command import given_settings
from youbencha.adapters.cli_agent import session_files
from youbencha.adapters.cli_agent.session_files import keep_logs, read_definition
from youbencha.adapters.copilot_cli import usage_in
from youbencha.errors import YouBenchaError
from youbencha.evaluators.expected_diff import file_similarity
from youbencha.evaluators.judge.session import copy_for_judge
from youbencha.evaluators.judge.setup import read_guidance
from youbencha.evaluators.junit import UnusableReport, count_tests
from youbencha.files import PathNotAllowed, read_file, read_nofollow, read_within
from youbencha.gateway.ledger import read_ledger
from youbencha.hooks.webhook import read_artifacts
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.process import Redactor
from youbencha.store.bundle import ArtifactManifest
from youbencha.store.read import load_results
from youbencha.suggest.facts import find_tests
from youbencha.trial.agent import cached_sha256
from youbencha.user_dirs import Cache
from youbencha.workspace.changes import hash_files
from youbencha.workspace.listing import save_gitignores
from youbencha.workspace.mirror import git_dir_of_tree
from youbencha.workspace.repository import uses_large_files
from youbencha.workspace.trees import TreeFile, copy_tree

pytestmark = posix_only("links, pipes and devices")

PATIENCE_S = 20
MORE_THAN_MEMORY = 1 << 42
SESSION = "0123abcd-0000"
REJECTED = "[ERROR] Error streaming, falling back to non-streaming mode: 401 {\n"
ASSISTANT = {"type": "assistant", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 1}}}
TURN = {"type": "turn_context", "payload": {"model": "m"}}
COPILOT = {"type": "session.usage_record", "data": {"usage": {"inputTokens": 1}}}
EMPTY = SessionFacts()


class Reader(NamedTuple):
    """How a part of the harness reads one file of an agent."""

    file: str
    content: str
    was_read: Callable[[Path], object]
    """Whether what it returns comes from the content. It gets the directory that the file is below."""
    users: bool = False
    """Only the user names this file, and it may be a link."""


def debug_log(home: Path) -> bool:
    seen: list[int | None] = []

    async def watch() -> None:
        looked_twice, looks = asyncio.Event(), count(1)

        def session() -> str:
            if next(looks) > 2:
                looked_twice.set()
            return SESSION

        env = {"HOME": str(home)}
        async with output.debug_log_read(session, lambda: None, seen.append, env=env, cwd=home):
            await looked_twice.wait()

    asyncio.run(watch())
    return bool(seen)


def guidance(top: Path) -> str | None:
    found = read_guidance({"prompt_file": "a/file"}, top)
    return found if isinstance(found, str) else None


def judged(top: Path) -> bool:
    copy_for_judge(top / "tree", top / "copy")
    return bool(read_nofollow(top / "copy", "a/file", 9))


def copied(top: Path) -> bool:
    copy_tree(top / "tree", top / "copy")
    return bool(read_nofollow(top / "copy", "a/file", 9))


def compared(top: Path) -> bool:
    """Replaced between the listing of the tree and the comparison."""
    (top / "expected").write_text("text")
    return file_similarity(TreeFile(top, "a/file", False), TreeFile(top, "expected", False)).similarity == 1


def hashed(top: Path) -> bool:
    found = asyncio.run(hash_files(top, [b"a/file"], (), None))
    return found[b"a/file"].id == hashlib.sha1(b"blob 4\0text").hexdigest()


def ignore_rules(top: Path) -> bool:
    save_gitignores(top / "tree", [b"a/.gitignore"], top / "git")
    return any((top / "git").rglob(".gitignore"))


def kept_log(top: Path) -> bool:
    keep_logs(top, [top / "a/file"], top / "kept", Redactor(()))
    return (top / "kept").exists()


def results(top: Path) -> bool:
    with pytest.raises(YouBenchaError) as raised:
        load_results(top / "a/file")
    return "invalid JSON" in raised.value.message


READERS = {
    "below a directory": Reader("a/file", "text", lambda top: read_nofollow(top, "a/file", 9)),
    "confined": Reader("a/file", "text", lambda top: read_within(top, "a/file", 9)),
    "debug log": Reader(f".claude/debug/{SESSION}.txt", REJECTED, debug_log),
    "session file of Claude Code": Reader(
        f".claude/projects/p/{SESSION}.jsonl",
        json.dumps(ASSISTANT),
        lambda top: own_files.with_session_file(SessionRecord(), SESSION, top / ".claude").facts.usage,
    ),
    "session file of Codex": Reader(
        f"sessions/1/2/3/rollout-1-{SESSION}.jsonl",
        json.dumps(TURN),
        lambda top: codex.with_session_file(SessionRecord(EMPTY._replace(session_id=SESSION)), top).facts.model,
    ),
    "session file of Copilot": Reader(
        f"session-state/{SESSION}/events.jsonl", json.dumps(COPILOT), lambda top: usage_in(top, SESSION)
    ),
    "an agent's own log": Reader("a/file", "text", kept_log),
    "a repository's custom agent": Reader("a/file", "text", lambda top: read_definition(top / "a/file", below=top)),
    "guidance of a judge": Reader("a/file", "text", guidance),
    "a repository's settings": Reader("a/file", '{"a": 1}', lambda top: given_settings(["--settings", "a/file"], top)),
    "a copy for a judge": Reader("tree/a/file", "text", judged),
    "a copy for a command": Reader("tree/a/file", "text", copied),
    "the expected tree": Reader("a/file", "text", compared),
    "a large file's hash": Reader("a/file", "text", hashed),
    "ignore rules": Reader("tree/a/.gitignore", "text", ignore_rules),
    "attributes": Reader(".gitattributes", "* filter=lfs", uses_large_files),
    "a JUnit report": Reader(
        "a/file", "<testsuite><testcase/></testsuite>", lambda top: count_tests(top, ["a/file"], {}).tests
    ),
    "an artifact for a webhook": Reader(
        "a/file", "text", lambda top: read_artifacts(ArtifactManifest(reports=("a/file",)), top).contents
    ),
    "a project's tests": Reader("tests/test_it.py", "import unittest", find_tests),
    "the program that ran": Reader(
        "a/file", "text", lambda top: cached_sha256(top / "a/file", Cache(top / "cache")), users=True
    ),
    "a ledger": Reader("a/file", "{}\n", lambda top: [*read_ledger(top / "a/file")], users=True),
    "results": Reader("a/file", "{", results, users=True),
    "a pointer to a git directory": Reader(
        "tree/.git", "gitdir: ../real\n", lambda top: git_dir_of_tree(top / "tree") == top / "tree/../real", users=True
    ),
    "a user's file": Reader("a/file", "text", lambda top: read_file(top / "a/file", 9), users=True),
}


def pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def link_to_a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(outside / "pipe")
    path.symlink_to(outside / "pipe")


def link_to_the_kernel_log(path: Path, outside: Path) -> None:
    path.symlink_to("/proc/kmsg")


def link_to_a_terminal(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/ptmx")


def link_to_a_secret(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "secret")


def directory_behind_a_link(path: Path, outside: Path) -> None:
    path.parent.rename(outside / "moved")
    (outside / "secret").rename(outside / "moved" / path.name)
    path.parent.symlink_to(outside / "moved")


def loop(path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def directory(path: Path, outside: Path) -> None:
    path.mkdir()


def socket_file(path: Path, outside: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


PLANTS = (
    *(pipe, link_to_a_pipe, link_to_the_kernel_log, link_to_a_terminal, loop, directory, socket_file),
    *(link_to_a_secret, directory_behind_a_link),
)
FOLLOWED = (link_to_the_kernel_log, link_to_a_secret, directory_behind_a_link)
"""A user's own file may be such a link, and is read as far as that is possible without waiting."""


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_POLL_S", 0.01)


def new_top(directory: Path) -> Path:
    top = directory / "top"
    (top / "real" / "objects").mkdir(parents=True)
    (top / "real" / "HEAD").touch()
    return top


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return new_top(tmp_path)


def at_most(patience_s: float, read: Callable[[Path], object], top: Path) -> object:
    """What a reader found; None if it refused. A reader that waits would do so for ever, in a thread."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(read(top))
        except (OSError, YouBenchaError, PathNotAllowed, UnusableReport):
            found.append(None)

    reading = threading.Thread(target=work, daemon=True)
    reading.start()
    reading.join(patience_s)
    assert not reading.is_alive(), f"the reader waits in {top}"
    return found[0]


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_an_ordinary_file_is_read(reader: Reader, top: Path) -> None:
    (top / reader.file).parent.mkdir(parents=True, exist_ok=True)
    (top / reader.file).write_text(reader.content)
    assert at_most(PATIENCE_S, reader.was_read, top)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_hostile_file_is_not_read(reader: Reader, tmp_path: Path) -> None:
    for plant in PLANTS:
        if plant is directory_behind_a_link and "/" not in reader.file:
            continue
        top, outside = new_top(tmp_path / plant.__name__), tmp_path / plant.__name__ / "outside"
        outside.mkdir()
        (outside / "secret").write_text(reader.content)
        (top / reader.file).parent.mkdir(parents=True, exist_ok=True)
        plant(top / reader.file, outside)
        found = at_most(PATIENCE_S, reader.was_read, top)
        assert not found or (reader.users and plant in FOLLOWED), plant.__name__


AGENTS = {name: reader for name, reader in READERS.items() if not reader.users}


@pytest.mark.parametrize("reader", AGENTS.values(), ids=AGENTS)
def test_an_endless_file_is_read_up_to_a_bound(reader: Reader, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_files, "_MAX_FILE_BYTES", 32 << 20)
    (top / reader.file).parent.mkdir(parents=True, exist_ok=True)
    with (top / reader.file).open("wb") as file:
        file.truncate(MORE_THAN_MEMORY)
    at_most(PATIENCE_S, reader.was_read, top)
