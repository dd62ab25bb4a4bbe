"""`yb init`: a test case that runs as it is, for the repository that one stands in."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, find_executable, run
from youbencha.scaffold.agent_files import install_agent_files
from youbencha.scaffold.files import FileResult, write_file

TEST_CASE_FILE = Path("testcase.yaml")
_SOME_REPOSITORY = "https://github.com/octocat/Hello-World.git  # put yours here"
_GIT_TIMEOUT_S = 10.0


async def begin_project(root: Path, *, force: bool = False) -> list[FileResult]:
    """Write the test case and the judge's definitions. Nothing is touched where a test case is already."""
    if os.path.lexists(root / TEST_CASE_FILE) and not force:
        raise YouBenchaError(
            "TESTCASE_EXISTS",
            f"{root / TEST_CASE_FILE} is there already; nothing was written.",
            hint="`yb init --force` overwrites it, and the agent files too.",
        )
    repo = await _repository_around(root) or _SOME_REPOSITORY
    text = (files("youbencha.scaffold") / "testcase.yaml").read_text(encoding="utf-8").replace("@REPO@", repo)
    return [write_file(root, TEST_CASE_FILE, text, force=force), *install_agent_files(root, force=force)]


async def _repository_around(root: Path) -> str | None:
    """The way from here to the top of a repository that has a commit; None if there is none to start from."""
    git = find_executable("git", os.environ)
    if git is None or not root.is_dir():
        return None
    env = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    command = Command(argv=(str(git), "rev-parse", "--show-cdup", "HEAD"), cwd=root, env=env)
    lines: list[bytes] = []
    done = await run(command, limits=Limits(timeout_s=_GIT_TIMEOUT_S), on_line=lines.append)
    if done.exit.code != 0 or not lines:
        return None
    return lines[0].decode(errors="replace").strip().rstrip("/") or "."
