"""Write the first files of a project: a test case and the judge's definitions, or a loop and its prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from youbencha.errors import YouBenchaError
from youbencha.evaluators.judge import judge_definition
from youbencha.files import replace_atomically
from youbencha.loop.presets import preset_text
from youbencha.process import find_executable
from youbencha.workspace.git import ReadOnlyGit

__all__ = [
    "AGENT_FILES",
    "TEST_CASE_FILE",
    "FileResult",
    "begin_loop",
    "begin_project",
    "install_agent_files",
]
TEST_CASE_FILE = Path("testcase.yaml")
AGENT_FILES = (Path(".github/agents/agentic-judge.md"), Path(".claude/agents/agentic-judge.md"))
"""Copilot and Claude Code read the same header: a name and a description."""

LOOP_FILE, PROMPT_FILE = Path("ralph.yml"), Path("PROMPT.md")
EXAMPLE_REPOSITORY = "https://github.com/octocat/Hello-World.git  # replace it with yours"
Action = Literal["created", "skipped", "overwritten", "error"]


@dataclass(frozen=True, slots=True)
class FileResult:
    path: Path
    """Relative to the project's directory."""
    action: Action
    reason: str = ""


def write_file(root: Path, path: Path, text: str, *, force: bool) -> FileResult:
    """Write a file atomically. One that exists is kept, unless `force` is set."""
    target = root / path
    exists = os.path.lexists(target)
    if exists and not force:
        return FileResult(path, "skipped", "already exists; use --force to overwrite")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(target, text.encode())
    except OSError as error:
        return FileResult(path, "error", error.strerror or str(error))
    return FileResult(path, "overwritten" if exists else "created")


def install_agent_files(root: Path, *, force: bool = False) -> list[FileResult]:
    """Write the judge's definition for each agent. If one cannot be written, the other still is."""
    text = judge_definition()
    return [write_file(root, path, text, force=force) for path in AGENT_FILES]


async def begin_project(root: Path, *, force: bool = False) -> list[FileResult]:
    """Write a test case for the repository that contains `root`, and the judge's definitions.

    Raises `TESTCASE_EXISTS`, unless `force` is set.
    """
    if os.path.lexists(root / TEST_CASE_FILE) and not force:
        raise YouBenchaError(
            "TESTCASE_EXISTS",
            f"{root / TEST_CASE_FILE} already exists; nothing was written.",
            hint="`yb init --force` overwrites it and the agent files.",
        )
    repo = await _repository_around(root) or EXAMPLE_REPOSITORY
    text = (files("youbencha.scaffold") / "testcase.yaml").read_text(encoding="utf-8").replace("@REPO@", repo)
    return [write_file(root, TEST_CASE_FILE, text, force=force), *install_agent_files(root, force=force)]


def begin_loop(root: Path, preset: str, backend: str, *, force: bool = False) -> list[FileResult]:
    """Write a ralph.yml, and a PROMPT.md unless there is one.

    Raises `LOOP_EXISTS`, unless `force` is set. A prompt is never overwritten: a person wrote it.
    """
    if os.path.lexists(root / LOOP_FILE) and not force:
        hint = "`ralph init --force` overwrites it."
        raise YouBenchaError("LOOP_EXISTS", f"{root / LOOP_FILE} already exists; nothing was written.", hint=hint)
    text = preset_text(preset, backend)
    prompt = (files("youbencha.scaffold") / "loops/PROMPT.md").read_text(encoding="utf-8")
    kept = FileResult(PROMPT_FILE, "skipped", "it is yours")
    written = kept if os.path.lexists(root / PROMPT_FILE) else write_file(root, PROMPT_FILE, prompt, force=False)
    return [write_file(root, LOOP_FILE, text, force=force), written]


async def _repository_around(root: Path) -> str | None:
    """Return the relative path to the root of the repository; None if there is none, or if it has no commit."""
    if find_executable("git", os.environ) is None or not root.is_dir():
        return None
    answer = await (await ReadOnlyGit.open(root)).ask("rev-parse", "--show-cdup", "HEAD")
    return None if answer is None else answer.split("\n", 1)[0].strip().rstrip("/") or "."
