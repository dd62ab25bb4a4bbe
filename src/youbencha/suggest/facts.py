"""What can be known of an agent's work without asking a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.suggest.git import Git
from youbencha.suggest.runners import find_tests
from youbencha.workspace import FileChange
from youbencha.workspace.changes import ChangeKind
from youbencha.workspace.source import public_url

_MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_PATCH_BYTES = 20_000
_LARGEST_COUNTED = 1_000_000
_HOW = ("--no-ext-diff", "--no-textconv", "--no-renames", "-z")
_ADDRESS = re.compile(r"[\w.+@-]{2,}:")  # https://…, git@host:…, but no C:\\…
_KINDS: Mapping[str, ChangeKind] = {"A": "added", "D": "deleted", "T": "type_changed"}


@dataclass(frozen=True, slots=True)
class Home:
    """The repository that the folder is in."""

    top: Path
    head: str
    branch: str | None
    remote: str | None
    """Without credentials. None for a path, too: it would start somewhere else in the test case."""
    is_clean: bool
    likely_baseline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    directory: Path
    home: Home | None
    baseline: str | None
    """The commit that the agent started from."""
    baseline_is_published: bool
    """Whether a branch of the remote holds it."""
    changes: tuple[FileChange, ...]
    patch: str
    """Its beginning."""
    tests: str | None
    """The command that runs the project's own tests."""

    @property
    def top(self) -> Path:
        return self.home.top if self.home else self.directory


async def find_home(directory: Path) -> Home | None:
    """None where there is no repository, or one without a commit."""
    git = await Git.of(directory)
    said = await git.ask("rev-parse", "--show-toplevel", "HEAD")
    if said is None:
        return None
    top, head = said.rsplit("\n", 1)
    branch = (await git.ask("symbolic-ref", "--short", "HEAD") or "").strip() or None
    remote = (await git.ask("config", "--get", "remote.origin.url") or "").strip()
    is_clean = not (await git.ask("status", "--porcelain", "--untracked-files=normal") or "").strip()
    return Home(
        top=Path(top),
        head=head,
        branch=branch,
        remote=public_url(remote) if _ADDRESS.match(remote) else None,
        is_clean=is_clean,
        likely_baseline=await _likely_baseline(git, head, branch) if is_clean else "HEAD",
    )


async def _likely_baseline(git: Git, head: str, branch: str | None) -> str:
    """All is committed, so the agent began earlier: where its branch left the main one, else one commit ago."""
    for candidate in _MAIN_BRANCHES:
        base = (await git.ask("merge-base", candidate, "HEAD") or "").strip()
        if candidate != branch and base and base != head:
            return base[:12]
    return "HEAD~1" if await git.ask("rev-parse", "--verify", "--quiet", "HEAD~1") else "HEAD"


async def gather(directory: Path, home: Home | None, baseline: str | None) -> Facts:
    """All of it. In a repository, `baseline` is the branch, tag or commit that the agent started from."""
    if home is None or baseline is None:
        return Facts(
            directory=directory,
            home=None,
            baseline=None,
            baseline_is_published=False,
            changes=(),
            patch="",
            tests=find_tests(directory),
        )
    git = await Git.of(home.top)
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{baseline}^{{commit}}")
    commit = (await git.ask(*asked) or "").strip()
    if not commit:
        raise YouBenchaError(
            "BASELINE_UNKNOWN",
            f"{home.top} has no branch, tag or commit {baseline!r}.",
            hint="`git log --oneline` there shows the commits; give the one that the agent started from.",
        )
    published = await git.ask("branch", "--remotes", "--contains", commit) or ""
    return Facts(
        directory=directory,
        home=home,
        baseline=commit,
        baseline_is_published=bool(published.strip()),
        changes=await _changes(git, home.top, commit),
        patch=await git.ask("diff", "--no-ext-diff", "--no-textconv", commit, most_bytes=_PATCH_BYTES) or "",
        tests=find_tests(home.top),
    )


async def _changes(git: Git, top: Path, commit: str) -> tuple[FileChange, ...]:
    """Committed since, changed, and new; not what the repository itself ignores."""
    counted = (await git.ask("diff", *_HOW, "--numstat", commit) or "").split("\0")
    listed = (await git.ask("diff", *_HOW, "--name-status", commit) or "").split("\0")
    kinds = dict(zip(listed[1::2], listed[0::2], strict=False))
    changes = []
    for entry in filter(None, counted):
        added, removed, path = entry.split("\t", 2)
        kind = _KINDS.get(kinds.get(path, ""), "modified")
        changes.append(FileChange(path, kind, _number(added), _number(removed)))
    untracked = (await git.ask("ls-files", "--others", "--exclude-standard", "-z") or "").split("\0")
    changes += [FileChange(path, "added", _lines(top / path), 0) for path in filter(None, untracked)]
    return tuple(sorted(changes, key=lambda change: change.path))


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _lines(path: Path) -> int | None:
    """None for what is no text, or too large to be looked at."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_COUNTED:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in content else len(content.splitlines())
