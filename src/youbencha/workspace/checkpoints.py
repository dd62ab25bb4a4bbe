"""Checkpoints of a user's working tree, as commits on private refs of its repository.

The user's branch, index, stash and reflogs are never touched, and their files only by `restore`. Objects and refs are
written by `objects`; git only reads, as in `users_repository`.

A commit has the files as they are on disk, without conversion of line ends or filters. Left out are ignored files that
were not tracked at the start, `.ralph`, anything called `.git`, and files that are unreadable or larger than 64 MB.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Self

from youbencha.errors import YouBenchaError
from youbencha.files import open_file, read_nofollow
from youbencha.text import shown
from youbencha.workspace.checkpoint_message import (
    describe_left_out,
    describe_permissions,
    read_left_out,
    read_permissions,
)
from youbencha.workspace.diff import FILE, LINK, PROGRAM, Entry
from youbencha.workspace.git import GitFailed
from youbencha.workspace.git_dir import is_ref_name
from youbencha.workspace.objects import ObjectStore, directory_below, write_at
from youbencha.workspace.put_back import put_back
from youbencha.workspace.recorded_tree import RecordedTree
from youbencha.workspace.scan import Scanner
from youbencha.workspace.store import common_dir
from youbencha.workspace.users_repository import UsersRepository
from youbencha.workspace.walk import TreeFiles, ignored_among, keep_rules_of
from youbencha.workspace.working_tree import locate

REFS = "refs/youbencha/loops"
_LEFT_OUT = (b".ralph",)
_KEPT = "before-restore-"
_WHO = "youBencha <youbencha@localhost>"
_SMALL = 4096
_MOST_SHOWN = 2_000_000
_PACKED_REFS = 64 << 20

PatchStyle = Literal["shown", "stat", "exact"]
_DIFF = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative")
_STYLES: Mapping[PatchStyle, tuple[str, ...]] = {
    "shown": ("--stat", "-p", "--find-renames"),
    "stat": ("--stat", "--find-renames"),
    "exact": ("-p", "--binary", "--full-index", "--no-renames"),
}


class Checkpoint(NamedTuple):
    number: int
    commit: str
    files_changed: int
    """Compared with the checkpoint before it."""
    warning: str | None = None
    """What an agent did to earlier checkpoints, or which files are left out."""


class Restored(NamedTuple):
    paths: tuple[str, ...]
    """What was written or removed."""
    kept_as: str
    """The name of the checkpoint of how the files were before."""


class Checkpoints:
    """The checkpoints of one loop: `refs/youbencha/loops/<loop>/<number>`. Number 0 is the tree before the loop.

    What is in memory is the truth: if an agent removes or moves the refs, the next checkpoint writes them again.
    """

    def __init__(self, tree: Path, loop_id: str, repository: UsersRepository, scanner: Scanner) -> None:
        self.tree = tree
        self.loop_id = loop_id
        self._repository, self._scanner = repository, scanner
        self._store = ObjectStore(repository.objects, repository.hash_name)
        self._recorded = RecordedTree(tree, scanner, self._store)
        self._head: str | None = None
        self._commits: dict[str, str] = {}
        """By the last part of the ref's name."""
        self._refs_written_at: int | None = None
        self._last: int | None = None
        self._last_tree: str | None = None
        self._last_permissions: Mapping[bytes, int] = {}
        self._busy = asyncio.Lock()

    @classmethod
    async def open(cls, tree: Path, loop_id: str, *, cache_dir: Path | None = None) -> Self:
        """Open those of a loop. Raises YouBenchaError if the directory is not in a git repository."""
        assert is_ref_name(loop_id), loop_id
        tree = Path(os.path.realpath(tree))
        repository = UsersRepository.open(tree, loop_id, cache_dir)
        try:
            settings = await repository.ignore_settings()
            scanner = Scanner(repository.top, repository.prefix, repository.git_dir, settings, _LEFT_OUT)
            checkpoints = cls(tree, loop_id, repository, scanner)
            await checkpoints._load()
        except BaseException:
            repository.close()
            raise
        return checkpoints

    def close(self) -> None:
        """Remove what is outside the repository."""
        self._repository.close()

    @property
    def start(self) -> str | None:
        """The commit of the tree before the loop."""
        return self._commits.get("0")

    async def take(self, number: int, message: str) -> Checkpoint:
        """Record the tree, ignored files excluded. If nothing has changed, it is the commit before.

        git is not run, unless there are new names.
        """
        async with self._busy:
            return await self._take(str(number), message)

    async def diff(self, since: int, until: int | None = None) -> str:
        """The patch between two checkpoints, to be shown: after a list of the files, and not all of it if it is long.

        `until` None: the tree as it is now.
        """
        patch = await self.patch(str(since), None if until is None else str(until), most_bytes=_MOST_SHOWN + 1)
        text = patch[:_MOST_SHOWN].decode("utf-8", "replace")
        return text if len(patch) <= _MOST_SHOWN else f"{text}\n… the rest is not shown\n"

    async def patch(self, since: str, until: str | None, *, style: PatchStyle = "shown", most_bytes: int = -1) -> bytes:
        """As `diff`; `exact` is for `git apply`, including binary files."""
        async with self._busy:
            await self._check_refs()
            before = self._commit(since)
            after = await self._record() if until is None else self._commit(until)
        answer = self._repository.git_dir / f"answer-{os.urandom(4).hex()}"  # not in memory: it may be large
        try:
            await self._repository.git(*_DIFF, *_STYLES[style], f"--output={answer}", before, after)
            with open_file(answer) as file:
                return file.read(most_bytes)
        finally:
            answer.unlink(missing_ok=True)

    async def uncommitted(self) -> int:
        """How many files the tree before the loop had that differ from the user's last commit."""
        nothing = self._store.write(b"tree", b"")
        before = f"{self._head}:{os.fsdecode(self._repository.prefix)}" if self._head else nothing
        ask = partial(self._repository.git, "diff-tree", "-r", "-z", "--name-only")
        try:
            return (await ask(before, self._commit("0"))).count(b"\0")
        except GitFailed:  # the directory is not in the last commit
            return (await ask(nothing, self._commit("0"))).count(b"\0")

    async def changes(self, name: str) -> tuple[str, ...]:
        """The paths that `restore` would write or remove."""
        async with self._busy:
            target = await self._target(name)
            await self._record()
            return _shown(await self._differing(name, target, await self._message(name)))

    async def restore(self, name: str) -> Restored:
        """Make the files as they were at a checkpoint (its number, or another name); first keep how they are.

        Files that did not exist then are removed, unless they are ignored now, or were ignored then. Files that existed
        and were not recorded stay as they are.
        """
        async with self._busy:
            target, message = await self._target(name), await self._message(name)
            earlier = [int(each[len(_KEPT) :]) for each in self._commits if re.fullmatch(rf"{_KEPT}[0-9]+", each)]
            kept_as = f"{_KEPT}{max(earlier, default=0) + 1}"
            await self._take(kept_as, f"before {name} was restored")
            if lost := sorted(self._recorded.left_out & target.keys()):
                raise YouBenchaError(
                    "RESTORE_WOULD_LOSE",
                    f"{shown(lost[0])} would be replaced, but is too large or not readable, so that it cannot be kept.",
                    hint="Move it away, then try again. Nothing was changed.",
                )
            differing = await self._differing(name, target, message)
            permissions = read_permissions(message, target)
            await put_back(self.tree, differing, self._repository.git_dir, self._repository.objects, permissions)
            return Restored(_shown(differing), kept_as)

    async def missing(self, name: str) -> tuple[str, ...]:
        """Return files that were not recorded in a checkpoint and no longer exist: `restore` cannot recreate them."""
        left_out = read_left_out(await self._message(name))
        return _shown([path for path in left_out if not os.path.lexists(os.fsencode(self.tree) + b"/" + path)])

    async def list(self) -> list[Checkpoint]:
        """All numbered checkpoints, and how many files each changed."""
        numbers = sorted(int(name) for name in self._commits if name.isdecimal())
        commits = [self._commits[str(number)] for number in numbers]
        wanted = "".join(f"{commit}\n" for commit in dict.fromkeys(commits)).encode()
        output = await self._repository.git("diff-tree", "--stdin", "--root", "-r", "-z", "--name-only", stdin=wanted)
        changed: dict[str, int] = {}
        commit = ""
        for field in output.split(b"\0"):
            first, _, name = field.partition(b"\n")
            if first.decode("ascii", "replace") in commits:
                commit, field = first.decode(), name
            changed[commit] = changed.get(commit, 0) + bool(field)
        return [
            Checkpoint(number, commit, 0 if not at or commit == commits[at - 1] else changed.get(commit, 0))
            for at, (number, commit) in enumerate(zip(numbers, commits, strict=True))
        ]

    async def remove(self) -> None:
        """Remove all refs of the loop; git removes the objects later."""
        names = "".join(f"delete {REFS}/{self.loop_id}/{name}\n" for name in self._commits)
        await self._repository.git("update-ref", "--no-deref", "--stdin", stdin=names.encode())
        self._commits.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all checkpoints: numbers, and those that `restore` made."""
        return tuple(self._commits)

    async def _load(self) -> None:
        repository = self._repository
        self._head = await repository.head()
        listed = await self._listed()
        existing = await repository.commits_among(list(listed.values())) if listed else ()
        self._commits = {name: commit for name, commit in listed.items() if commit in existing}
        self._last = self._highest()
        if self._last is not None:
            last = self._commits[str(self._last)]
            self._store.present |= await repository.ids_in(last)
            entries = await repository.entries_at(last)
            self._last_tree = self._recorded.start_from(entries)
            self._last_permissions = read_permissions(await repository.message(last), entries)
        elif self._head:
            self._store.present |= await repository.ids_in(self._head)
        first = self._commits.get("0")
        self._scanner.keep(await (repository.entries_at(first) if first else repository.tracked(self._head)))

    def _highest(self) -> int | None:
        return max((int(name) for name in self._commits if name.isdecimal()), default=None)

    async def _listed(self) -> dict[str, str]:
        under = f"{REFS}/{self.loop_id}"
        output = await self._repository.git("for-each-ref", "--format=%(objectname) %(refname)", under)
        lines = (line.split(" ", 1) for line in output.decode().splitlines())
        return {name.removeprefix(f"{under}/"): commit for commit, name in lines}

    async def _take(self, name: str, message: str) -> Checkpoint:
        warning = await self._check_refs()
        root = await self._record()
        try:
            commit = self._commits.get(str(self._last))
            permissions = self._recorded.permissions
            if commit is None or root != self._last_tree or permissions != self._last_permissions:
                commit = self._write_commit(root, commit or self._head, message)
            self._write_ref(name, commit)
        except OSError as error:
            raise _not_written(self._repository.common, error) from error
        changed = self._recorded.changed()
        if name.isdecimal():
            self._last, self._last_tree, self._last_permissions = int(name), root, permissions
            self._recorded.mark()
        if name == "0":
            self._scanner.keep(self._recorded.entries)
            changed = 0
        warning = "; ".join(filter(None, (warning, self._recorded.newly_left_out()))) or None
        return Checkpoint(self._last or 0, commit, changed, warning)

    async def _record(self) -> str:
        try:
            return await self._recorded.record()
        except OSError as error:
            raise _not_written(self._repository.common, error) from error

    def _write_commit(self, root: str, parent: str | None, message: str) -> str:
        signed = f"{_WHO} {int(time.time())} +0000"
        lines = [f"tree {root}", *([f"parent {parent}"] if parent else []), f"author {signed}", f"committer {signed}"]
        permissions = describe_permissions(self._recorded.entries, self._recorded.permissions)
        left_out = describe_left_out(self._recorded.left_out)
        text = "\n".join([*lines, "", f"ralph {self.loop_id}: {message}", "", permissions, left_out, ""])
        return self._store.write(b"commit", text.encode("utf-8", "replace"))

    def _write_ref(self, name: str, commit: str) -> None:
        parts = [part.encode() for part in f"{REFS}/{self.loop_id}".split("/")]
        with directory_below(self._repository.common, parts, make=True) as directory:
            write_at(directory, name.encode(), f"{commit}\n".encode(), 0o666)
        self._commits[name] = commit
        self._refs_written_at = self._refs_changed_at()

    # What an agent may have done to the refs

    async def _check_refs(self) -> str | None:
        """Write refs again that were removed or moved. Returns a description of what was found."""
        if self._last is None or self._refs_are_right():
            return None
        if not (self._repository.common / "objects").is_dir():
            raise _not_written(self._repository.common, FileNotFoundError(ENOENT, "the repository was removed"))
        listed = await self._listed()
        wrong = {name: commit for name, commit in self._commits.items() if listed.get(name) != commit}
        if not wrong:  # they were packed
            with suppress(OSError):
                self._refs_written_at = self._refs_changed_at()
            return None
        existing = await self._repository.commits_among(list(wrong.values()))
        lost = {name for name, commit in wrong.items() if commit not in existing}
        try:
            for name in wrong.keys() - lost:
                self._write_ref(name, wrong[name])
        except OSError as error:
            raise _not_written(self._repository.common, error) from error
        if not lost:
            return "the refs of checkpoints were removed or moved, and were written again"
        self._forget(lost)
        return f"the commits of earlier checkpoints were removed from the repository: {', '.join(sorted(lost))}"

    def _refs_are_right(self) -> bool:
        """Whether nothing was renamed to or removed from their directory, and the last one is as it was written."""
        try:
            found = read_nofollow(self._repository.common, f"{REFS}/{self.loop_id}/{self._last}", _SMALL)
            return found.decode("ascii", "replace").strip() == self._commits[str(self._last)] and (
                self._refs_changed_at() == self._refs_written_at
            )
        except OSError:
            return False

    def _refs_changed_at(self) -> int:
        return (self._repository.common / REFS / self.loop_id).lstat().st_mtime_ns

    def _forget(self, lost: Collection[str]) -> None:
        """All objects may be gone: those of the next checkpoint are written again."""
        for name in lost:
            del self._commits[name]
        self._last, self._last_tree, self._head = self._highest(), None, None
        self._recorded.forget_objects()

    # Restoring

    async def _target(self, name: str) -> dict[bytes, Entry]:
        await self._check_refs()
        target = await self._repository.entries_at(self._commit(name))
        if wrong := next((path for path, entry in target.items() if not _is_ours(path, entry)), None):
            raise YouBenchaError(
                "CHECKPOINT_DAMAGED",
                f"The checkpoint {name} was replaced: it has {shown(wrong)}, which youBencha does not record.",
                hint="Nothing was changed. Restore another checkpoint.",
            )
        self._scanner.keep(target)  # so that what is replaced is kept, even if it is ignored now
        return target

    async def _message(self, name: str) -> str:
        return await self._repository.message(self._commit(name))

    async def _differing(self, name: str, target: Mapping[bytes, Entry], message: str) -> dict[bytes, Entry | None]:
        """What each path that differs should become; None: it should not exist."""
        entries, now = self._recorded.entries, self._recorded.permissions
        permissions = read_permissions(message, target)
        differing: dict[bytes, Entry | None] = {
            path: entry
            for path, entry in target.items()
            if entries.get(path) != entry or permissions.get(path) not in (None, now.get(path))
        }
        new = TreeFiles(sorted(entries.keys() - target.keys() - set(read_left_out(message))))
        if new.files:
            await keep_rules_of(self._commit(name), self._repository.git_dir, self._repository.objects)
            ignored_then = await ignored_among(new, self._repository.git_dir)
            differing |= dict.fromkeys(path for path in new.files if path not in ignored_then)
        return differing

    def _commit(self, name: str) -> str:
        try:
            return self._commits[name]
        except KeyError:
            known = ", ".join(sorted(self._commits, key=lambda each: (len(each), each))) or "none"
            raise YouBenchaError(
                "CHECKPOINT_UNKNOWN", f"The loop {self.loop_id} has no checkpoint {name}.", hint=f"There are: {known}."
            ) from None


def loops_with_checkpoints(tree: Path) -> list[str]:
    """The loops that have checkpoints in the repository of a directory, the oldest first."""
    location = locate(Path(os.path.realpath(tree)))
    if location is None:
        return []
    common, names = common_dir(location.git_dir), set()
    with suppress(OSError):
        names.update(os.listdir(common / REFS))  # noqa: PTH208 - only the names are wanted
    with suppress(OSError):
        packed = read_nofollow(common, "packed-refs", _PACKED_REFS).decode("utf-8", "replace")
        names.update(re.findall(rf"^[0-9a-f]+ {REFS}/([^/\n]+)/", packed, re.MULTILINE))
    return sorted(name for name in names if is_ref_name(name))


def _is_ours(path: bytes, entry: Entry) -> bool:
    parts = path.split(b"/")
    names_ok = all(part not in (b"", b".", b"..") and part.lower() != b".git" for part in parts)
    return names_ok and parts[0] not in _LEFT_OUT and entry.mode in (LINK, FILE, PROGRAM)


def _not_written(repository: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "CHECKPOINT_FAILED",
        f"A checkpoint could not be written to {repository}: {error.strerror or error}",
        hint="Free some space there, or correct its permissions; or do without checkpoints: `checkpoint_interval: 0`.",
    )


def _shown(paths: Collection[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in sorted(paths))
