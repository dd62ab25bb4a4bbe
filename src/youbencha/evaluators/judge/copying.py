"""A copy of the judged tree that a judge may do with as it likes.

What is in the tree was written by the agent under test, so nothing in it may speak to the judge as if it were the
person. Files that coding agents take instructions or settings from (CLAUDE.md, AGENTS.md, `.claude/` …) are evidence
too, so they are not left out: in the copy their names end in `.judged`, and no agent looks for those.

Of `.git` the copy has what tells the history (references, index, the objects by reference), and nothing that makes git
run a command: no hooks, no configuration of the agent's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.file_copies import CANNOT_BE_HERE, FileCopies
from youbencha.evaluators.leaving_out import LeavingOut
from youbencha.evaluators.result import printable
from youbencha.evaluators.threads import StillWanted

SUFFIX = ".judged"

_INSTRUCTIONS = frozenset({
    "claude.md", "claude.local.md", ".claude", ".mcp.json",
    "agents.md", "agents.override.md", ".agents", ".codex",
    "gemini.md", ".gemini", "opencode.json", "opencode.jsonc", ".opencode",
    ".cursor", ".cursorrules", ".windsurf", ".windsurfrules", ".clinerules", ".aider.conf.yml", ".copilot",
})  # fmt: skip
"""Wherever they lie: agents read them in every directory that they come to. Case does not matter on every system."""
_IN_GITHUB = frozenset(
    {"agents", "chatmodes", "copilot", "copilot-instructions.md", "hooks", "instructions", "prompts"}
)
"""The same, in `.github`."""
_HISTORY = ("HEAD", "ORIG_HEAD", "index", "packed-refs", "refs", "logs", "shallow")
_GIT_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"


def copy_tree(
    source: Path, target: Path, still_wanted: StillWanted = lambda: None, ours: Sequence[Path] = ()
) -> list[str]:
    """Copy `source` to `target`, which must not exist. Returns the paths that have other names in the copy.

    What is `ours` in the tree is left out, and so is what lies too deep to be named. Holes stay holes.
    """
    source, target = source.absolute(), target.absolute()
    try:
        target.mkdir(parents=True)
        files = FileCopies(target, still_wanted)
        renamed = _copy_files(source, target, still_wanted, LeavingOut(ours, target=target), files)
        _copy_history(source / ".git", target / ".git", files)
    except OSError as error:
        raise YouBenchaError(
            "JUDGE_COPY_FAILED",
            f"Cannot copy the tree for the judge: {error.filename or source}: {error.strerror or error}",
            hint="The agent may have left something that cannot be read, or the disk is full.",
        ) from error
    return sorted(renamed)


def _copy_files(
    source: Path, target: Path, still_wanted: StillWanted, left_out: LeavingOut, files: FileCopies
) -> list[str]:
    """Files, links and directories; what is neither (a pipe, a socket) has nothing to be judged by."""
    renamed: list[str] = []
    waiting = [(source, target)]  # not by recursion: an agent may nest directories deeper than Python does calls
    while waiting:
        still_wanted()
        here, there = waiting.pop()
        for entry in _entries(here):
            if entry.name.lower() == ".git" or entry in left_out:
                continue
            path = Path(entry.path)
            copy = there / entry.name
            if _speaks_to_agents(entry.name, here.name):
                renamed.append(printable(path.relative_to(source).as_posix()))
                copy = there / (entry.name + SUFFIX)
            with _if_it_can_be_here():
                if entry.is_symlink():
                    _copy_link(path, copy, source, target, files)
                elif entry.is_dir():
                    copy.mkdir()
                    waiting.append((path, copy))
                elif entry.is_file():
                    _copy_file(path, copy, files)
                    shutil.copystat(path, copy)
    return renamed


@contextmanager
def _if_it_can_be_here() -> Iterator[None]:
    """Nobody escapes judgement by what is too deep or too large to be copied: it is not there."""
    try:
        yield
    except OSError as error:
        if error.errno not in CANNOT_BE_HERE:
            raise


def _copy_file(file: Path, copy: Path, files: FileCopies) -> None:
    files.copy(os.fspath(file), os.fspath(copy), file.lstat())


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return list(entries)


def _speaks_to_agents(name: str, parent: str) -> bool:
    folded = name.lower()
    return folded in _INSTRUCTIONS or (parent.lower() == ".github" and folded in _IN_GITHUB)


def _copy_link(link: Path, copy: Path, source: Path, target: Path, files: FileCopies) -> None:
    """A link into the tree leads into the copy: through it, a judge would write to what is judged."""
    leads_to = link.readlink()
    if copy.name.endswith(SUFFIX) and (file := _file_inside(link, source)):
        _copy_file(file, copy, files)  # AGENTS.md is often a link to CLAUDE.md, which has another name now
        return
    for root in (source, source.resolve()):
        if leads_to.is_relative_to(root):
            leads_to = target / leads_to.relative_to(root)
            break
    copy.symlink_to(leads_to)


def _file_inside(link: Path, source: Path) -> Path | None:
    try:
        file = link.resolve(strict=True)
    except (OSError, RuntimeError):  # it leads nowhere, or round in a circle
        return None
    return file if file.is_file() and file.is_relative_to(source.resolve()) else None


def _copy_history(git: Path, copy: Path, files: FileCopies) -> None:
    objects = git / "objects"
    if any(not path.is_dir() or path.is_symlink() for path in (git, objects)) or not _is_plain(git / "HEAD"):
        return  # a worktree, or nothing that git could read
    for directory in (copy / "objects" / "info", copy / "refs"):
        directory.mkdir(parents=True)
    (copy / "config").write_text(_GIT_CONFIG)
    (copy / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
    for file in _history(git):
        place = copy / file.relative_to(git)
        with _if_it_can_be_here():
            place.parent.mkdir(parents=True, exist_ok=True)
            _copy_file(file, place, files)


def _history(git: Path) -> Iterator[Path]:
    for name in _HISTORY:
        if _is_plain(git / name):
            yield git / name
        for place, _, files in os.walk(git / name):  # follows no links
            yield from (file for each in files if _is_plain(file := Path(place, each)))


def _is_plain(path: Path) -> bool:
    try:
        return path.is_file() and not path.is_symlink()
    except OSError:  # its path is too long
        return False
