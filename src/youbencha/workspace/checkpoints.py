"""Checkpoints of a user's working tree, as commits on private refs of its repository.

The user's branch, index, stash and reflogs are never touched, and their files only by `restore`. git runs with a git
directory of our own, in which no agent has written: its configuration is ours, its refs and objects are links to those
of the repository. So no hook, filter or other program that the repository names is run, and a broken configuration
does no harm.

A commit has the files as they are on disk, without conversion of line ends or filters. Left out are ignored files that
were not tracked at the start, `.ralph`, anything called `.git`, and files that are unreadable or larger than 64 MB.

git itself records only the executable bit. The commit's message has the permissions of most files and of most programs,
then the exceptions, and then the files that were too large or not readable. Paths are quoted as in a URL:

    Permissions: 644 755
    600 config/key.pem
    Not recorded: data/model.bin
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from errno import ELOOP, ENOENT
from pathlib import Path
from typing import Literal, NamedTuple, Self
from urllib.parse import quote_from_bytes, unquote_to_bytes
from weakref import finalize

from youbencha.errors import YouBenchaError
from youbencha.files import open_file, read_file, read_nofollow
from youbencha.text import format_path
from youbencha.workspace.changes import FILE, LINK, PROGRAM, Entry, entries_at
from youbencha.workspace.git import ANY_NAME, GitDir, GitFailed, git, is_ref_name, make_git_dir, users_settings
from youbencha.workspace.listing import TreeFiles, ignored_at_start, save_gitignores_at
from youbencha.workspace.mirror import common_dir
from youbencha.workspace.recording import TreeRecorder, restore_files
from youbencha.workspace.run_dir import make_private
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.working_tree import Location, locate, require_repository

REFS = "refs/youbencha/loops"
_NEVER = (b".ralph",)
_BEFORE_RESTORE = "before-restore-"
_WHO = {"user.name": "youBencha", "user.email": "youbencha@localhost"}
_MAX_REF_BYTES, _MAX_CONFIG_BYTES, _MAX_PACKED_REFS_BYTES = 4096, 1 << 20, 64 << 20
_MAX_DIFF_BYTES = 2_000_000

PatchStyle = Literal["shown", "stat", "exact"]
_DIFF = ("diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative")
_STYLES: Mapping[PatchStyle, tuple[str, ...]] = {
    "shown": ("--stat", "-p", "--find-renames"),
    "stat": ("--stat", "--find-renames"),
    "exact": ("-p", "--binary", "--full-index", "--no-renames"),
}

_PERMISSIONS = re.compile(r"^Permissions: ([0-7]{3}) ([0-7]{3})$", re.MULTILINE)
_EXCEPTION = re.compile(r"^([0-7]{3}) (\S+)$", re.MULTILINE)
_LEFT_OUT = re.compile(r"^Not recorded: (\S+)$", re.MULTILINE)
_MAX_LEFT_OUT = 1000
_NOT_QUOTED = "/!#&'()+,:;=@[]{}"
_DEFAULT_PERMISSIONS = {FILE: 0o644, PROGRAM: 0o755}


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

    def __init__(self, tree: Path, loop_id: str, repository: _UsersRepository, recorder: TreeRecorder) -> None:
        self.tree = tree
        self.loop_id = loop_id
        self._repository, self._recorder = repository, recorder
        self._head: str | None = None
        self._commits: dict[str, str] = {}
        """Checkpoints by the last part of the ref's name."""
        self._refs_written_at: int | None = None
        self._last: int | None = None
        self._last_tree: str | None = None
        self._last_entries: Mapping[bytes, Entry] = {}
        self._last_permissions: Mapping[bytes, int] = {}
        self._busy = asyncio.Lock()

    @classmethod
    async def open(cls, tree: Path, loop_id: str, *, cache_dir: Path | None = None) -> Self:
        """Open the checkpoints of a loop. Raises YouBenchaError if the directory is not in a git repository."""
        assert is_ref_name(loop_id), loop_id
        tree = Path(os.path.realpath(tree))
        repository = _UsersRepository(require_repository(tree), make_private(loop_id, cache_dir))
        try:
            await repository.make_git_dir()
            recorder = TreeRecorder(repository.top, repository.prefix, repository.git_dir, _NEVER)
            checkpoints = cls(tree, loop_id, repository, recorder)
            await checkpoints._load()
        except BaseException:
            repository.close()
            raise
        return checkpoints

    def close(self) -> None:
        """Remove the private directory outside the repository."""
        self._repository.close()

    @property
    def start(self) -> str | None:
        """The commit of the tree before the loop."""
        return self._commits.get("0")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all checkpoints: numbers, and those that `restore` made."""
        return tuple(self._commits)

    async def take(self, number: int, message: str) -> Checkpoint:
        """Record the tree, ignored files excluded. If nothing has changed, it is the commit before."""
        async with self._busy:
            return await self._take(str(number), message)

    async def diff(self, since: int, until: int | None = None) -> str:
        """Return the patch between two checkpoints to show it: a list of the files, then at most 2 MB of the patch.

        `until` None: the tree as it is now.
        """
        patch = await self.patch(str(since), None if until is None else str(until), max_bytes=_MAX_DIFF_BYTES + 1)
        text = patch[:_MAX_DIFF_BYTES].decode("utf-8", "replace")
        return text if len(patch) <= _MAX_DIFF_BYTES else f"{text}\n… the rest is not shown\n"

    async def patch(self, since: str, until: str | None, *, style: PatchStyle = "shown", max_bytes: int = -1) -> bytes:
        """Return the patch between two checkpoints; `exact` is for `git apply`, including binary files."""
        async with self._busy:
            await self._check_refs()
            before = self._commit(since)
            after = await self._record() if until is None else self._commit(until)
        answer = self._repository.git_dir.new_file("answer")  # not in memory: it may be large
        try:
            await self._repository.git(*_DIFF, *_STYLES[style], f"--output={answer}", before, after)
            with open_file(answer) as file:
                return file.read(max_bytes)
        finally:
            answer.unlink(missing_ok=True)

    async def uncommitted(self) -> int:
        """Count the files of the tree before the loop that differ from the user's last commit."""
        nothing = (await self._repository.git("mktree", stdin=b"")).decode().strip()
        before = f"{self._head}:{os.fsdecode(self._repository.prefix)}" if self._head else nothing
        compare = ("diff-tree", "-r", "-z", "--name-only")
        try:
            names = await self._repository.git(*compare, before, self._commit("0"))
        except GitFailed:  # the directory is not in the last commit
            names = await self._repository.git(*compare, nothing, self._commit("0"))
        return names.count(b"\0")

    async def changes(self, name: str) -> tuple[str, ...]:
        """List the paths that `restore` would write or remove."""
        async with self._busy:
            target = await self._target(name)
            await self._record()
            return _as_paths(await self._differing(name, target, await self._message(name)))

    async def restore(self, name: str) -> Restored:
        """Make the files as they were at a checkpoint (its number, or another name); first keep how they are.

        Files that did not exist then are removed, unless they are ignored now, or were ignored then. Files that existed
        and were not recorded stay as they are.
        """
        async with self._busy:
            target, message = await self._target(name), await self._message(name)
            kept = (re.fullmatch(rf"{_BEFORE_RESTORE}([0-9]+)", ref) for ref in self._commits)
            earlier = [int(match[1]) for match in kept if match]
            kept_as = f"{_BEFORE_RESTORE}{max(earlier, default=0) + 1}"
            await self._take(kept_as, f"before {name} was restored")
            if lost := sorted(self._recorder.left_out & target.keys()):
                raise YouBenchaError(
                    "RESTORE_WOULD_LOSE",
                    f"{format_path(lost[0])} would be replaced, but is too large or unreadable for a checkpoint.",
                    hint="Move it, then try again. Nothing was changed.",
                )
            differing = await self._differing(name, target, message)
            await restore_files(self.tree, differing, self._repository.git_dir, read_permissions(message, target))
            return Restored(_as_paths(differing), kept_as)

    async def missing(self, name: str) -> tuple[str, ...]:
        """List files that were not recorded in a checkpoint and no longer exist: `restore` cannot recreate them."""
        left_out = read_left_out(await self._message(name))
        return _as_paths([path for path in left_out if not os.path.lexists(os.fsencode(self.tree) + b"/" + path)])

    async def list(self) -> list[Checkpoint]:
        """List all numbered checkpoints, and how many files each changed."""
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

    async def _load(self) -> None:
        repository = self._repository
        self._head = await repository.head()
        stored = await self._stored()
        existing = await repository.commits_among(list(stored.values())) if stored else ()
        self._commits = {name: commit for name, commit in stored.items() if commit in existing}
        self._last = self._highest()
        if self._last is not None:
            last = self._commits[str(self._last)]
            self._last_tree = (await repository.git("rev-parse", "--verify", f"{last}^{{tree}}")).decode().strip()
            self._last_entries = await entries_at(repository.git_dir, last)
            self._last_permissions = read_permissions(await repository.message(last), self._last_entries)
        first = self._commits.get("0")
        self._recorder.always_count(
            await entries_at(repository.git_dir, first) if first else await repository.tracked(self._head)
        )

    def _highest(self) -> int | None:
        return max((int(name) for name in self._commits if name.isdecimal()), default=None)

    async def _stored(self) -> dict[str, str]:
        """Read the refs of the loop."""
        under = f"{REFS}/{self.loop_id}"
        output = await self._repository.git("for-each-ref", "--format=%(objectname) %(refname)", under)
        lines = (line.split(" ", 1) for line in output.decode().splitlines())
        return {name.removeprefix(f"{under}/"): commit for commit, name in lines}

    async def _take(self, name: str, message: str) -> Checkpoint:
        warning = await self._check_refs()
        root = await self._record()
        entries, permissions = self._recorder.entries, self._recorder.permissions
        commit = self._commits.get(str(self._last))
        try:
            if commit is None or root != self._last_tree or permissions != self._last_permissions:
                commit = await self._write_commit(root, commit or self._head, message)
            await self._write_ref(name, commit)
        except (OSError, GitFailed) as error:
            self._recorder.forget()  # objects may have been removed from the repository
            raise self._not_written(error) from error
        changed = len(dict(entries.items() ^ self._last_entries.items())) if root != self._last_tree else 0
        if name.isdecimal():
            self._last, self._last_tree = int(name), root
            self._last_entries, self._last_permissions = entries, permissions
        if name == "0":
            self._recorder.always_count(entries)
            changed = 0
        warning = "; ".join(filter(None, (warning, self._recorder.newly_left_out()))) or None
        return Checkpoint(self._last or 0, commit, changed, warning)

    async def _record(self) -> str:
        try:
            self._repository.refuse_links(f"{REFS}/{self.loop_id}")
            return await self._recorder.record()
        except (OSError, GitFailed) as error:
            raise self._not_written(error) from error

    async def _write_commit(self, root: str, parent: str | None, message: str) -> str:
        permissions = describe_permissions(self._recorder.entries, self._recorder.permissions)
        left_out = describe_left_out(self._recorder.left_out)
        text = f"ralph {self.loop_id}: {message}\n\n{permissions}\n{left_out}\n"
        parents = ["-p", parent] if parent else []
        return await self._repository.commit_tree(root, *parents, message=text.encode("utf-8", "replace"))

    async def _write_ref(self, name: str, commit: str) -> None:
        await self._repository.git("update-ref", "--no-deref", f"{REFS}/{self.loop_id}/{name}", commit)
        self._commits[name] = commit
        self._refs_written_at = self._refs_changed_at()

    def _not_written(self, error: OSError | GitFailed) -> YouBenchaError:
        reason = error.reason if isinstance(error, GitFailed) else error.strerror or error
        return YouBenchaError(
            "CHECKPOINT_FAILED",
            f"A checkpoint could not be written to {self._repository.common}: {reason}",
            hint="Free some space or correct its permissions, or turn checkpoints off with `checkpoint_interval: 0`.",
        )

    # What an agent may have done to the refs

    async def _check_refs(self) -> str | None:
        """Write refs again that were removed or moved. Returns a description of what was found."""
        if self._last is None or self._refs_are_right():
            return None
        if not (self._repository.common / "objects").is_dir():
            raise self._not_written(FileNotFoundError(ENOENT, "the repository was removed"))
        stored = await self._stored()
        wrong = {name: commit for name, commit in self._commits.items() if stored.get(name) != commit}
        if not wrong:  # they were packed
            with suppress(OSError):
                self._refs_written_at = self._refs_changed_at()
            return None
        existing = await self._repository.commits_among(list(wrong.values()))
        lost = {name for name, commit in wrong.items() if commit not in existing}
        try:
            self._repository.refuse_links(f"{REFS}/{self.loop_id}")
            for name in wrong.keys() - lost:
                await self._write_ref(name, wrong[name])
        except (OSError, GitFailed) as error:
            raise self._not_written(error) from error
        if not lost:
            return "the refs of checkpoints were removed or moved, and were written again"
        self._forget(lost)
        return f"the commits of earlier checkpoints were removed from the repository: {', '.join(sorted(lost))}"

    def _refs_are_right(self) -> bool:
        """Return whether the last ref is as it was written, and its directory has not changed since."""
        try:
            text = read_nofollow(self._repository.common, f"{REFS}/{self.loop_id}/{self._last}", _MAX_REF_BYTES)
            return text.decode("ascii", "replace").strip() == self._commits[str(self._last)] and (
                self._refs_changed_at() == self._refs_written_at
            )
        except OSError:
            return False

    def _refs_changed_at(self) -> int:
        return (self._repository.common / REFS / self.loop_id).lstat().st_mtime_ns

    def _forget(self, lost: Collection[str]) -> None:
        """Forget lost checkpoints. All objects may be gone: those of the next checkpoint are written again."""
        for name in lost:
            del self._commits[name]
        self._last, self._last_tree, self._head = self._highest(), None, None
        self._recorder.forget()

    # Restoring

    async def _target(self, name: str) -> dict[bytes, Entry]:
        await self._check_refs()
        target = await entries_at(self._repository.git_dir, self._commit(name))
        if wrong := next((path for path, entry in target.items() if not _is_recordable(path, entry)), None):
            raise YouBenchaError(
                "CHECKPOINT_DAMAGED",
                f"The checkpoint {name} was replaced: it has {format_path(wrong)}, which youBencha does not record.",
                hint="Nothing was changed. Restore another checkpoint.",
            )
        self._recorder.always_count(target)  # so that what is replaced is kept, even if it is ignored now
        return target

    async def _message(self, name: str) -> str:
        return await self._repository.message(self._commit(name))

    async def _differing(self, name: str, target: Mapping[bytes, Entry], message: str) -> dict[bytes, Entry | None]:
        """Return what each path that differs should become; None: it should not exist."""
        entries, now = self._recorder.entries, self._recorder.permissions
        permissions = read_permissions(message, target)
        differing: dict[bytes, Entry | None] = {
            path: entry
            for path, entry in target.items()
            if entries.get(path) != entry or permissions.get(path) not in (None, now.get(path))
        }
        new = TreeFiles(sorted(entries.keys() - target.keys() - set(read_left_out(message))))
        if new.files:
            await save_gitignores_at(self._commit(name), self._repository.git_dir)
            ignored_then = await ignored_at_start(new, self._repository.git_dir.path)
            differing |= dict.fromkeys(path for path in new.files if path not in ignored_then)
        return differing

    def _commit(self, name: str) -> str:
        try:
            return self._commits[name]
        except KeyError:
            known = ", ".join(sorted(self._commits, key=lambda name: (len(name), name))) or "none"
            raise YouBenchaError(
                "CHECKPOINT_UNKNOWN", f"The loop {self.loop_id} has no checkpoint {name}.", hint=f"There are: {known}."
            ) from None


class _UsersRepository:
    """The repository that a directory is in, with a git directory of our own."""

    def __init__(self, location: Location, private: Path) -> None:
        self.top = location.top
        self.prefix = os.fsencode(location.prefix)
        """The path of the directory, with a slash at the end; empty for the top."""
        self.common = Path(os.path.realpath(common_dir(location.git_dir)))
        """With the objects and refs, which linked working trees share."""
        self.git_dir = GitDir(private / "ours.git")
        self._git_dir_of_tree = location.git_dir
        self.close = finalize(self, remove_tree, private)
        """Removes the private directory."""

    async def make_git_dir(self) -> None:
        if (self.common / "reftable").is_dir():
            raise YouBenchaError(
                "REPO_UNSUPPORTED",
                f"The repository {self.top} keeps its refs in reftables, which checkpoints do not support yet.",
                hint="Convert them to files with `git refs migrate`, or turn checkpoints off:"
                " `checkpoint_interval: 0`.",
            )
        path = self.git_dir.path
        make_git_dir(path, "0" * (64 if self._uses_sha256() else 40))
        for name in ("objects", "refs"):
            shutil.rmtree(path / name)
        for name in ("objects", "refs", "packed-refs"):
            (path / name).symlink_to(self.common / name)
        with suppress(OSError):
            rules = read_file(self.common / "info" / "exclude", _MAX_CONFIG_BYTES)
            (path / "info" / "exclude").write_bytes(rules)
        # The user's own ignore file, which is not that of the repository.
        written = (await users_settings(path, r"^core\.excludesfile$")).get("core.excludesfile")
        default = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "git" / "ignore"
        excludes = os.path.expanduser(written or default)  # noqa: PTH111 - there may be no home
        self.git_dir = GitDir(path, settings={**ANY_NAME, "core.excludesFile": excludes})

    def _uses_sha256(self) -> bool:
        with suppress(OSError):
            config = read_nofollow(self.common, "config", _MAX_CONFIG_BYTES).decode("utf-8", "replace")
            return bool(re.search(r"^\s*objectformat\s*=\s*sha256\b", config, re.IGNORECASE | re.MULTILINE))
        return False

    async def git(self, *arguments: str, stdin: bytes | None = None, index: Path | None = None) -> bytes:
        return await self.git_dir.git(*arguments, stdin=stdin, index=index)

    def refuse_links(self, refs: str) -> None:
        """Raise `OSError` if an agent has put links in the repository through which git would write elsewhere."""
        directory = self.common
        for part in refs.split("/"):
            directory /= part
            if directory.is_symlink():
                raise OSError(ELOOP, f"{directory} is a link")
        objects = self.common / "objects"
        with os.scandir(objects) as entries:
            if objects.is_symlink() or any(entry.is_symlink() for entry in entries):
                raise OSError(ELOOP, "objects were replaced by a link")

    async def head(self) -> str | None:
        """Return the commit of HEAD, which may be that of a linked working tree; None if there is no commit yet."""
        try:
            name = read_nofollow(self._git_dir_of_tree, "HEAD", _MAX_REF_BYTES).decode().strip()
            name = name.removeprefix("ref: ")
            if name.startswith("-") or not is_ref_name(name):
                return None
            return (await self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")).decode().strip()
        except (OSError, ValueError, GitFailed):
            return None

    async def tracked(self, head: str | None) -> set[bytes]:
        """List the files in the user's index and in HEAD, relative to the directory."""
        paths: set[bytes] = set(await entries_at(self.git_dir, head)) if head else set()
        with suppress(GitFailed):  # an index of a kind that needs the repository's configuration
            paths.update((await self.git("ls-files", "-z", index=self._git_dir_of_tree / "index")).split(b"\0"))
        below = len(self.prefix)
        return {path[below:] for path in paths if path.startswith(self.prefix)} - {b""}

    async def commit_tree(self, root: str, *parents: str, message: bytes) -> str:
        output = await git(self.git_dir.path, "commit-tree", root, *parents, stdin=message, settings=_WHO)
        return output.decode().strip()

    async def message(self, commit: str) -> str:
        return (await self.git("cat-file", "commit", commit)).decode("utf-8", "replace").partition("\n\n")[2]

    async def commits_among(self, ids: list[str]) -> set[str]:
        """Return the ids of commits that exist."""
        asked = "".join(f"{name}\n" for name in ids).encode()
        lines = (await self.git("cat-file", "--batch-check", stdin=asked)).decode().splitlines()
        return {name for name, line in zip(ids, lines, strict=True) if line.startswith(f"{name} commit ")}


def loops_with_checkpoints(tree: Path) -> list[str]:
    """List the loops that have checkpoints in the repository of a directory, the oldest first."""
    location = locate(Path(os.path.realpath(tree)))
    if location is None:
        return []
    common, names = common_dir(location.git_dir), set()
    with suppress(OSError):
        names.update(os.listdir(common / REFS))  # noqa: PTH208 - only the names are wanted
    with suppress(OSError):
        packed = read_nofollow(common, "packed-refs", _MAX_PACKED_REFS_BYTES).decode("utf-8", "replace")
        names.update(re.findall(rf"^[0-9a-f]+ {REFS}/([^/\n]+)/", packed, re.MULTILINE))
    return sorted(name for name in names if is_ref_name(name))


# The part of a commit's message that programs read


def describe_permissions(entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> str:
    usual = {kind: _most_common(kind, entries, permissions) for kind in (FILE, PROGRAM)}
    lines = [f"Permissions: {usual[FILE]:03o} {usual[PROGRAM]:03o}"]
    for path in sorted(permissions):
        if permissions[path] != usual[entries[path].mode]:
            lines.append(f"{permissions[path]:03o} {_quote(path)}")
    return "\n".join(lines)


def read_permissions(message: str, entries: Mapping[bytes, Entry]) -> dict[bytes, int]:
    """Return the permissions of all files except links. Empty if the message does not have them."""
    usual = _PERMISSIONS.search(message)
    if usual is None:
        return {}
    by_kind = {FILE: int(usual[1], 8), PROGRAM: int(usual[2], 8)}
    exceptions = {unquote_to_bytes(line[2]): int(line[1], 8) for line in _EXCEPTION.finditer(message, usual.end())}
    return {path: exceptions.get(path, by_kind[entry.mode]) for path, entry in entries.items() if entry.mode != LINK}


def describe_left_out(paths: Iterable[bytes]) -> str:
    return "\n".join(f"Not recorded: {_quote(path)}" for path in sorted(paths)[:_MAX_LEFT_OUT])


def read_left_out(message: str) -> list[bytes]:
    return [unquote_to_bytes(line[1]) for line in _LEFT_OUT.finditer(message)]


def _quote(path: bytes) -> str:
    return quote_from_bytes(path, safe=_NOT_QUOTED)


def _most_common(kind: str, entries: Mapping[bytes, Entry], permissions: Mapping[bytes, int]) -> int:
    counts = Counter(mode for path, mode in permissions.items() if entries[path].mode == kind)
    return max(counts, key=lambda mode: (counts[mode], mode)) if counts else _DEFAULT_PERMISSIONS[kind]


def _is_recordable(path: bytes, entry: Entry) -> bool:
    parts = path.split(b"/")
    names_ok = all(part not in (b"", b".", b"..") and part.lower() != b".git" for part in parts)
    return names_ok and parts[0] not in _NEVER and entry.mode in (LINK, FILE, PROGRAM)


def _as_paths(paths: Collection[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in sorted(paths))
