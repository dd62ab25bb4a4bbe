"""Checkpoints of a user's working tree, as commits on private refs of its repository.

The user's branch, index, stash and reflogs are never touched, and their files only by `restore`. Objects and refs are
written by `objects`; git only reads, with a git directory of our own whose configuration is ours and whose refs are
links to the repository's. So no program that the repository names is run.

A commit has the files as they are on disk, without conversion of line ends or filters. Left out are ignored files that
were not tracked at the start, `.ralph`, anything called `.git`, and files that are unreadable or larger than 64 MB.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from errno import ENOENT
from pathlib import Path
from typing import Literal, NamedTuple, Self
from weakref import finalize

from youbencha.errors import YouBenchaError
from youbencha.files import open_untrusted, read_regular, read_untrusted
from youbencha.text import shown
from youbencha.workspace.diff import LARGE, Entry
from youbencha.workspace.git import GitFailed, git, users_settings
from youbencha.workspace.git_dir import is_ref_name, make_git_dir
from youbencha.workspace.objects import FILE, LINK, PROGRAM, ObjectStore, TreeObjects, directory_below, write_at
from youbencha.workspace.put_back import put_back
from youbencha.workspace.run_dir import make_private
from youbencha.workspace.scan import Scanner, Stamp
from youbencha.workspace.snapshot import entries_at
from youbencha.workspace.store import common_dir
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.walk import TreeFiles, ignored_among, keep_rules_of
from youbencha.workspace.working_tree import Location, locate

REFS = "refs/youbencha/loops"
_LEFT_OUT = (b".ralph",)
_KEPT = "before-restore-"
_WHO = "youBencha <youbencha@localhost>"
_SMALL, _LARGEST_CONFIG = 4096, 1 << 20
_MOST_SHOWN = 2_000_000
_PACKED_REFS = 64 << 20

_TICK_NS = 50_000_000
"""Two changes of a file within the clock's resolution have the same time: a file that was changed just before it was
read is read again the next time."""

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

    def __init__(self, tree: Path, loop_id: str, location: Location, private: Path) -> None:
        self.tree = tree
        self.loop_id = loop_id
        self._prefix = os.fsencode(location.prefix)
        self._git_dir_of_tree = location.git_dir
        self._common = Path(os.path.realpath(common_dir(location.git_dir)))
        self._git_dir = private / "checkpoints.git"
        self._remove_private = finalize(self, remove_tree, private)
        hash_name = _hash_name(self._common)
        self._store = ObjectStore(self._common / "objects", hash_name)
        self._trees = TreeObjects(self._store)
        self._no_id = "0" * (64 if hash_name == "sha256" else 40)
        self._scanner: Scanner
        self._head: str | None = None
        self._commits: dict[str, str] = {}
        """By the last part of the ref's name."""
        self._last: int | None = None
        self._last_tree: str | None = None
        self._entries: dict[bytes, Entry] = {}
        self._stamps: dict[bytes, Stamp | None] = {}
        """None: it must be read again."""
        self._before: dict[bytes, Entry | None] = {}
        """The entries at the last checkpoint, of files that have changed since."""
        self._left_out: set[bytes] = set()
        self._reported: set[bytes] = set()
        self._busy = asyncio.Lock()

    @classmethod
    async def open(cls, tree: Path, loop_id: str, *, cache_dir: Path | None = None) -> Self:
        """Open those of a loop. Raises YouBenchaError if the directory is not in a git repository.

        `close` removes the private directory, which is made below `cache_dir`, by default the user's.
        """
        tree = Path(os.path.realpath(tree))
        location = locate(tree)
        if location is None:
            raise YouBenchaError(
                "REPO_NOT_FOUND",
                f"{tree} is not in a git repository, so that checkpoints cannot be taken.",
                hint="Make it one (`git init`), or do without checkpoints: `checkpoint_interval: 0`.",
            )
        assert is_ref_name(loop_id), loop_id
        checkpoints = cls(tree, loop_id, location, make_private(loop_id, cache_dir))
        try:
            checkpoints._make_git_dir()
            await checkpoints._load(location)
        except BaseException:
            checkpoints.close()
            raise
        return checkpoints

    def close(self) -> None:
        """Remove what is outside the repository."""
        self._remove_private()

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
        answer = self._git_dir / f"answer-{os.urandom(4).hex()}"  # not in memory: it may be large
        try:
            await self._read(*_DIFF, *_STYLES[style], f"--output={answer}", before, after)
            with answer.open("rb") as file:
                return file.read(most_bytes)
        finally:
            answer.unlink(missing_ok=True)

    async def uncommitted(self) -> int:
        """How many files the tree before the loop had that differ from the user's last commit."""
        before = f"{self._head}:{os.fsdecode(self._prefix)}" if self._head else self._no_tree()
        return (await self._read("diff-tree", "-r", "-z", "--name-only", before, self._commit("0"))).count(b"\0")

    def _no_tree(self) -> str:
        return self._store.write(b"tree", b"")

    async def changes(self, name: str) -> tuple[str, ...]:
        """The paths that `restore` would write or remove."""
        async with self._busy:
            target = await self._target(name)
            await self._record()
            return _shown(await self._differing(name, target))

    async def restore(self, name: str) -> Restored:
        """Make the files as they were at a checkpoint (its number, or another name); first keep how they are.

        Files that did not exist then are removed, unless they are ignored now, or were ignored then.
        """
        async with self._busy:
            target = await self._target(name)
            kept_as = f"{_KEPT}{1 + sum(each.startswith(_KEPT) for each in self._commits)}"
            await self._take(kept_as, f"before {name} was restored")
            if lost := sorted(self._left_out & target.keys()):
                raise YouBenchaError(
                    "RESTORE_WOULD_LOSE",
                    f"{shown(lost[0])} would be replaced, but is too large or not readable, so that it cannot be kept.",
                    hint="Move it away, then try again. Nothing was changed.",
                )
            differing = await self._differing(name, target)
            await put_back(self.tree, differing, self._git_dir, self._store.objects)
            return Restored(_shown(differing), kept_as)

    async def list(self) -> list[Checkpoint]:
        """All numbered checkpoints, and how many files each changed."""
        numbers = sorted(int(name) for name in self._commits if name.isdecimal())
        commits = [self._commits[str(number)] for number in numbers]
        wanted = "".join(f"{commit}\n" for commit in dict.fromkeys(commits)).encode()
        output = await self._read("diff-tree", "--stdin", "--root", "-r", "-z", "--name-only", stdin=wanted)
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
        await git(
            self._git_dir, "update-ref", "--no-deref", "--stdin", stdin=names.encode(), objects=self._store.objects
        )
        self._commits.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all checkpoints: numbers, and those that `restore` made."""
        return tuple(self._commits)

    # Opening

    def _make_git_dir(self) -> None:
        make_git_dir(self._git_dir, self._no_id)
        (self._git_dir / "refs").rmdir()
        for name in ("refs", "packed-refs"):
            (self._git_dir / name).symlink_to(self._common / name)
        with suppress(OSError):
            rules = read_regular(self._common / "info" / "exclude", _LARGEST_CONFIG)
            (self._git_dir / "info" / "exclude").write_bytes(rules)

    async def _load(self, location: Location) -> None:
        if (self._common / "reftable").is_dir():
            raise YouBenchaError(
                "REPO_UNSUPPORTED",
                f"The repository {location.top} keeps its refs in reftables, which checkpoints do not support yet.",
                hint="`git refs migrate --ref-format=files`, or do without checkpoints: `checkpoint_interval: 0`.",
            )
        settings = await _excludes(self._git_dir)
        self._scanner = Scanner(location.top, self._prefix, self._git_dir, settings, _LEFT_OUT)
        self._head = await self._find_head()
        self._commits = await self._listed()
        numbers = [int(name) for name in self._commits if name.isdecimal()]
        self._last = max(numbers, default=None)
        if self._last is not None:
            self._entries = await self._entries_at(self._commits[str(self._last)])
            self._store.present |= await self._ids_in(self._commits[str(self._last)])
            self._put_all()
            self._last_tree = self._trees.write()
        elif self._head:
            self._store.present |= await self._ids_in(self._head)
        self._scanner.keep(
            await self._entries_at(self._commits["0"]) if "0" in self._commits else await self._tracked()
        )

    def _put_all(self) -> None:
        self._trees = TreeObjects(self._store)
        for path, entry in self._entries.items():
            self._trees.put(path, entry)

    async def _find_head(self) -> str | None:
        try:
            head = read_untrusted(self._git_dir_of_tree, "HEAD", _SMALL).decode().strip().removeprefix("ref: ")
            if head.startswith("-") or not is_ref_name(head):
                return None
            return (await self._read("rev-parse", "--verify", "--quiet", f"{head}^{{commit}}")).decode().strip()
        except (OSError, ValueError, GitFailed):  # no commit yet
            return None

    async def _listed(self) -> dict[str, str]:
        under = f"{REFS}/{self.loop_id}"
        output = await self._read("for-each-ref", "--format=%(objectname) %(refname)", under)
        lines = (line.split(" ", 1) for line in output.decode().splitlines())
        return {name.removeprefix(f"{under}/"): commit for commit, name in lines}

    async def _tracked(self) -> set[bytes]:
        """The files in the user's index, and in HEAD."""
        paths: set[bytes] = set(await self._entries_at(self._head)) if self._head else set()
        with suppress(GitFailed):  # an index of a kind that needs the repository's configuration
            index = self._git_dir_of_tree / "index"
            paths |= set(
                (await git(self._git_dir, "ls-files", "-z", index=index, objects=self._store.objects)).split(b"\0")
            )
        below = len(self._prefix)
        return {path[below:] for path in paths if path.startswith(self._prefix)} - {b""}

    # Recording

    async def _take(self, name: str, message: str) -> Checkpoint:
        warning = await self._check_refs()
        try:
            root = await self._record()
            commit = self._commits.get(str(self._last))
            if commit is None or root != self._last_tree:
                commit = self._write_commit(root, commit or self._head, message)
            self._write_ref(name, commit)
        except OSError as error:
            raise _not_written(self._common, error) from error
        changed = sum(self._entries.get(path) != entry for path, entry in self._before.items())
        if name.isdecimal():
            self._last, self._last_tree = int(name), root
            self._before.clear()
        if name == "0":
            self._scanner.keep(self._entries)
            changed = 0
        return Checkpoint(self._last or 0, commit, changed, _joined(warning, self._left_out_warning()))

    def _write_commit(self, root: str, parent: str | None, message: str) -> str:
        signed = f"{_WHO} {int(time.time())} +0000"
        lines = [f"tree {root}", *([f"parent {parent}"] if parent else []), f"author {signed}", f"committer {signed}"]
        text = "\n".join([*lines, "", f"ralph {self.loop_id}: {message}", ""])
        return self._store.write(b"commit", text.encode("utf-8", "replace"))

    async def _record(self) -> str:
        """Store the present state of the tree, and return the id of its tree object."""
        started = time.time_ns()
        found = await self._scanner.scan()
        if found == self._stamps:
            return self._trees.write()
        return await asyncio.to_thread(self._update, found, started)

    def _update(self, found: Mapping[bytes, Stamp], started: int) -> str:
        for path in self._entries.keys() - found.keys():
            self._set(path, None)
        self._left_out &= found.keys()
        stamps = self._stamps
        self._stamps = {}
        for path, stamp in found.items():
            if stamps.get(path) != stamp:
                self._set(path, self._entry(path, stamp))
            self._stamps[path] = stamp if max(stamp.mtime_ns, stamp.ctime_ns) < started - _TICK_NS else None
        return self._trees.write()

    def _entry(self, path: bytes, stamp: Stamp) -> Entry | None:
        self._left_out.discard(path)
        try:
            content = self._content(path, stamp)
        except FileNotFoundError:
            return None
        except OSError:
            content = None
        if content is None:
            self._left_out.add(path)
            return None
        mode = LINK if stat.S_ISLNK(stamp.mode) else PROGRAM if stamp.mode & stat.S_IXUSR else FILE
        return Entry(mode, self._store.write(b"blob", content))

    def _content(self, path: bytes, stamp: Stamp) -> bytes | None:
        """What git stores for it; None if it is too large."""
        if stat.S_ISLNK(stamp.mode):
            return os.readlink(os.fsencode(self.tree) + b"/" + path)  # noqa: PTH115 - bytes
        if stamp.size > LARGE:
            return None
        with open_untrusted(self.tree, os.fsdecode(path)) as file:
            content = file.read(LARGE + 1)
        return content if len(content) <= LARGE else None

    def _set(self, path: bytes, entry: Entry | None) -> None:
        old = self._entries.get(path)
        if old == entry:
            return
        self._before.setdefault(path, old)
        self._trees.put(path, entry)
        if entry is None:
            del self._entries[path]
        else:
            self._entries[path] = entry

    def _write_ref(self, name: str, commit: str) -> None:
        parts = [part.encode() for part in f"{REFS}/{self.loop_id}".split("/")]
        with directory_below(self._common, parts, make=True) as directory:
            write_at(directory, name.encode(), f"{commit}\n".encode(), 0o666)
        self._commits[name] = commit

    # What an agent may have done to the refs

    async def _check_refs(self) -> str | None:
        """Write refs again that were removed or moved. Returns a description of what was found."""
        if self._last is None or self._ref_is_right(str(self._last)):
            return None
        if not (self._common / "objects").is_dir():
            raise _not_written(self._common, FileNotFoundError(ENOENT, "the repository was removed"))
        listed = await self._listed()
        wrong = {name: commit for name, commit in self._commits.items() if listed.get(name) != commit}
        if not wrong:  # they were packed
            return None
        asked = "".join(f"{commit}\n" for commit in wrong.values()).encode()
        about = (await self._read("cat-file", "--batch-check", stdin=asked)).decode().splitlines()
        lost = {name for name, line in zip(wrong, about, strict=True) if " commit " not in line}
        try:
            for name in wrong.keys() - lost:
                self._write_ref(name, wrong[name])
        except OSError as error:
            raise _not_written(self._common, error) from error
        if not lost:
            return "the refs of checkpoints were removed or moved, and were written again"
        self._forget(lost)
        return f"the commits of earlier checkpoints were removed from the repository: {', '.join(sorted(lost))}"

    def _ref_is_right(self, name: str) -> bool:
        try:
            found = read_untrusted(self._common, f"{REFS}/{self.loop_id}/{name}", _SMALL)
        except OSError:
            return False
        return found.decode("ascii", "replace").strip() == self._commits[name]

    def _forget(self, lost: Collection[str]) -> None:
        """All objects may be gone: those of the next checkpoint are written again."""
        for name in lost:
            del self._commits[name]
        self._last = max((int(name) for name in self._commits if name.isdecimal()), default=None)
        self._head = None
        self._store.present.clear()
        self._stamps.clear()
        self._last_tree = None
        self._put_all()

    def _left_out_warning(self) -> str | None:
        new, self._reported = self._left_out - self._reported, set(self._left_out)
        if not new:
            return None
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        return f"not in the checkpoint, because too large or not readable: {shown(min(new))}{more}"

    # Restoring

    async def _target(self, name: str) -> dict[bytes, Entry]:
        await self._check_refs()
        target = await self._entries_at(self._commit(name))
        if wrong := next((path for path, entry in target.items() if not _is_ours(path, entry)), None):
            raise YouBenchaError(
                "CHECKPOINT_DAMAGED",
                f"The checkpoint {name} was replaced: it has {shown(wrong)}, which youBencha does not record.",
                hint="Nothing was changed. Restore another checkpoint.",
            )
        self._scanner.keep(target)  # so that what is replaced is kept, even if it is ignored now
        return target

    async def _differing(self, name: str, target: Mapping[bytes, Entry]) -> dict[bytes, Entry | None]:
        """What each path that differs should become; None: it should not exist."""
        differing: dict[bytes, Entry | None] = {
            path: entry for path, entry in target.items() if self._entries.get(path) != entry
        }
        new = TreeFiles(sorted(self._entries.keys() - target.keys()))
        if new.files:
            await keep_rules_of(self._commit(name), self._git_dir, self._store.objects)
            ignored_then = await ignored_among(new, self._git_dir)
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

    async def _entries_at(self, commit: str) -> dict[bytes, Entry]:
        return await entries_at(self._git_dir, commit, objects=self._store.objects)

    async def _ids_in(self, commit: str) -> set[str]:
        output = await self._read("ls-tree", "-r", "-t", "-z", "--full-tree", commit)
        return {line.split(b"\t", 1)[0].rsplit(b" ", 1)[1].decode() for line in output.split(b"\0") if line}

    async def _read(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        return await git(self._git_dir, *arguments, stdin=stdin, objects=self._store.objects)


def loops_with_checkpoints(tree: Path) -> list[str]:
    """The loops that have checkpoints in the repository of a directory, the oldest first."""
    location = locate(Path(os.path.realpath(tree)))
    if location is None:
        return []
    common, names = common_dir(location.git_dir), set()
    with suppress(OSError):
        names.update(os.listdir(common / REFS))  # noqa: PTH208 - only the names are wanted
    with suppress(OSError):
        packed = read_untrusted(common, "packed-refs", _PACKED_REFS).decode("utf-8", "replace")
        names.update(re.findall(rf"^[0-9a-f]+ {REFS}/([^/\n]+)/", packed, re.MULTILINE))
    return sorted(name for name in names if is_ref_name(name))


def _hash_name(common: Path) -> str:
    try:
        config = read_untrusted(common, "config", _LARGEST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return "sha1"
    return "sha256" if re.search(r"^\s*objectformat\s*=\s*sha256\b", config, re.IGNORECASE | re.MULTILINE) else "sha1"


async def _excludes(git_dir: Path) -> dict[str, str]:
    """The user's own ignore file, which is not that of the repository."""
    written = (await users_settings(git_dir, r"^core\.excludesfile$")).get("core.excludesfile")
    default = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "git" / "ignore"
    return {"core.excludesFile": os.path.expanduser(written or default)}  # noqa: PTH111 - it need not have a home


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


def _joined(*warnings: str | None) -> str | None:
    return "; ".join(warning for warning in warnings if warning) or None


def _shown(paths: Collection[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in sorted(paths))
