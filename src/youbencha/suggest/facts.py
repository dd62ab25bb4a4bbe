"""Collect what is known about an agent's work without asking a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.files import PathNotAllowed, read_nofollow, read_within
from youbencha.workspace import FileChange
from youbencha.workspace.changes import ChangeKind
from youbencha.workspace.git import ReadOnlyGit
from youbencha.workspace.source import public_url

_MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
MAX_PATCH_BYTES = 20_000
_DIFF_FLAGS = ("--no-ext-diff", "--no-textconv", "--no-renames", "-z")
_ADDRESS = re.compile(r"[\w.+@-]{2,}:")  # https://…, git@host:…, but no C:\\…
_KINDS: Mapping[str, ChangeKind] = {"A": "added", "D": "deleted", "T": "type_changed"}
MAX_FILE_BYTES = 1_000_000

_NO_TESTS = "no test specified"
"""Part of the script that `npm init` writes."""


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """The repository that the folder is in."""

    top: Path
    head: str
    branch: str | None
    remote: str | None
    """Without credentials. None for a path, which would be relative to something else in the test case."""
    is_clean: bool
    likely_baseline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    directory: Path
    tests: str | None
    """The command that runs the project's own tests."""
    home: RepositoryInfo | None = None
    baseline: str | None = None
    """The commit that the agent started from."""
    baseline_is_published: bool = False
    """Whether a branch of the remote contains it."""
    changes: tuple[FileChange, ...] = ()
    patch: str = ""
    """Truncated."""

    @property
    def top(self) -> Path:
        return self.home.top if self.home else self.directory


async def find_repository(directory: Path) -> RepositoryInfo | None:
    """Describe the repository that the folder is in; None if there is none, or none with a commit."""
    git = await ReadOnlyGit.open(directory)
    answer = await git.ask("rev-parse", "--show-toplevel", "HEAD")
    if answer is None:
        return None
    top, head = answer.rsplit("\n", 1)
    branch = (await git.ask("symbolic-ref", "--short", "HEAD") or "").strip() or None
    remote = (await git.ask("config", "--get", "remote.origin.url") or "").strip()
    is_clean = not (await git.ask("status", "--porcelain", "--untracked-files=normal") or "").strip()
    return RepositoryInfo(
        top=Path(top),
        head=head,
        branch=branch,
        remote=public_url(remote) if _ADDRESS.match(remote) else None,
        is_clean=is_clean,
        likely_baseline=await _likely_baseline(git, head, branch) if is_clean else "HEAD",
    )


async def _likely_baseline(git: ReadOnlyGit, head: str, branch: str | None) -> str:
    """Return the commit at which a clean branch left the main one, otherwise the one before HEAD."""
    for candidate in _MAIN_BRANCHES:
        base = (await git.ask("merge-base", candidate, "HEAD") or "").strip()
        if candidate != branch and base and base != head:
            return base[:12]
    return "HEAD~1" if await git.ask("rev-parse", "--verify", "--quiet", "HEAD~1") else "HEAD"


async def collect_facts(directory: Path, home: RepositoryInfo | None, baseline: str | None) -> Facts:
    """Collect all facts. `baseline` is the branch, tag or commit that the agent started from."""
    if home is None or baseline is None:
        return Facts(directory=directory, tests=find_tests(directory))
    git = await ReadOnlyGit.open(home.top)
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{baseline}^{{commit}}")
    commit = (await git.ask(*arguments) or "").strip()
    if not commit:
        raise YouBenchaError(
            "BASELINE_UNKNOWN",
            f"{home.top} has no branch, tag or commit {baseline!r}.",
            hint="Give the commit that the agent started from; `git log --oneline` there lists the commits.",
        )
    published = await git.ask("branch", "--remotes", "--contains", commit) or ""
    return Facts(
        directory=directory,
        home=home,
        baseline=commit,
        baseline_is_published=bool(published.strip()),
        changes=await _changes(git, home.top, commit),
        patch=await git.ask("diff", "--no-ext-diff", "--no-textconv", commit, max_bytes=MAX_PATCH_BYTES) or "",
        tests=find_tests(home.top),
    )


async def _changes(git: ReadOnlyGit, top: Path, commit: str) -> tuple[FileChange, ...]:
    """List the changes since a commit: committed, uncommitted and untracked, but not ignored."""
    counted = (await git.ask("diff", *_DIFF_FLAGS, "--numstat", commit) or "").split("\0")
    listed = (await git.ask("diff", *_DIFF_FLAGS, "--name-status", commit) or "").split("\0")
    kinds = dict(zip(listed[1::2], listed[0::2], strict=False))
    changes = []
    for entry in filter(None, counted):
        added, removed, path = entry.split("\t", 2)
        kind = _KINDS.get(kinds.get(path, ""), "modified")
        changes.append(FileChange(path, kind, _number(added), _number(removed)))
    untracked = (await git.ask("ls-files", "--others", "--exclude-standard", "-z") or "").split("\0")
    changes += [FileChange(path, "added", _lines(top, path), 0) for path in filter(None, untracked)]
    return tuple(sorted(changes, key=lambda change: change.path))


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _lines(top: Path, path: str) -> int | None:
    """Count the lines; None for a file that is binary, a link or too large."""
    try:
        content = read_nofollow(top, path, MAX_FILE_BYTES)
    except OSError:
        return None
    return None if b"\0" in content else len(content.splitlines())


def find_tests(directory: Path) -> str | None:
    """Return the command that runs the project's tests, as far as its files show; None if unknown."""
    return next((command for fits, command in _KNOWN if fits(directory)), None)


def _text(directory: Path, name: str) -> str:
    try:
        return read_within(directory, name, MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, PathNotAllowed):
        return ""


def _uses_pytest(directory: Path) -> bool:
    if any((directory / name).is_file() for name in ("pytest.ini", "conftest.py", "tests/conftest.py")):
        return True
    files = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt")
    return any("pytest" in _text(directory, name) for name in files)


def _uses_unittest(directory: Path) -> bool:
    folders = (directory / name for name in (".", "tests", "test"))
    paths = (path for folder in folders for path in sorted(folder.glob("test_*.py"))[:20])
    return any("unittest" in _text(directory, str(path.relative_to(directory))) for path in paths)


def _npm_has_tests(directory: Path) -> bool:
    try:
        package = json.loads(_text(directory, "package.json") or "{}")
        script = package["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(script, str) and _NO_TESTS not in script


def _make_has_tests(directory: Path) -> bool:
    names = ("Makefile", "makefile", "GNUmakefile")
    return any(re.search(r"^test\s*:", _text(directory, name), re.MULTILINE) for name in names)


def _has_file(name: str) -> Callable[[Path], bool]:
    return lambda directory: (directory / name).is_file()


# A `test` target in a Makefile comes first, because it may do more than the language's own command.
_KNOWN: tuple[tuple[Callable[[Path], bool], str], ...] = (
    (_make_has_tests, "make test"),
    (_npm_has_tests, "npm test"),
    (_has_file("Cargo.toml"), "cargo test"),
    (_has_file("go.mod"), "go test ./..."),
    (_has_file("pom.xml"), "mvn -q test"),
    (_has_file("gradlew"), "./gradlew test"),
    (_uses_pytest, "python3 -m pytest -q"),
    (_uses_unittest, "python3 -m unittest -q"),
)
