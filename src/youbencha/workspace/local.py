"""A repository on this machine: read where it is, without a copy and without a transport.

What is not committed there is no part of it. Nothing in it is written, and nothing of its configuration is used.
"""

from __future__ import annotations

from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.workspace.git import git
from youbencha.workspace.objects import commit_at, commit_beginning, unknown_commit
from youbencha.workspace.refs import LOCAL_FORMAT, LOCAL_PLACES, Refs, from_local

_POINTER = "gitdir:"
_LONGEST_POINTER = 8192


class LocalStore:
    def __init__(self, path: Path) -> None:
        self.public_url = str(path)
        try:
            self._git_dir = find_git_dir(path) or _not_found(path)
            self.objects = common_dir(self._git_dir) / "objects"
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror or error}"
            raise YouBenchaError("REPO_NOT_FOUND", reason, hint="Check the path, and that you may read it.") from error
        self._refs: Refs | None = None

    async def refs(self) -> Refs:
        """Asked for once: a run is about one state of the repository."""
        if self._refs is None:
            output = await git(self._git_dir, "for-each-ref", f"--format={LOCAL_FORMAT}", *LOCAL_PLACES)
            refs = from_local(output)
            self._refs = refs if refs.head else refs._replace(head=await commit_at(self._git_dir, "HEAD"))
        return self._refs

    async def commit(self, written: str) -> str:
        found = await commit_beginning(self._git_dir, written, self.public_url)
        if found is None:
            raise unknown_commit(written, self.public_url)
        return found

    async def bring(self, object_id: str) -> str:
        known = self._refs is not None and object_id in self._refs.commits
        return object_id if known else await self.commit(object_id)

    async def renew(self) -> bool:
        return False


def find_git_dir(path: Path) -> Path | None:
    """Of a working tree or of a bare repository, whose name may be written without `.git`."""
    candidates = (path, path.parent / f"{path.name}.git")
    return git_dir_of_tree(path) or next((each for each in candidates if _is_git_dir(each)), None)


def git_dir_of_tree(path: Path) -> Path | None:
    """Of the working tree whose top this is, a linked one too."""
    candidate = path / ".git"
    if candidate.is_file():
        candidate = _pointed_at(candidate) or candidate
    return candidate if _is_git_dir(candidate) else None


def _is_git_dir(path: Path) -> bool:
    return (path / "HEAD").is_file() and (common_dir(path) / "objects").is_dir()


def common_dir(git_dir: Path) -> Path:
    """The git directory that holds the objects: linked working trees share one."""
    pointer = git_dir / "commondir"
    if not pointer.is_file():
        return git_dir
    return git_dir / pointer.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")


def _pointed_at(file: Path) -> Path | None:
    if file.stat().st_size > _LONGEST_POINTER:
        return None
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    return file.parent / text.removeprefix(_POINTER).strip() if text.startswith(_POINTER) else None


def _not_found(path: Path) -> Path:
    if not path.exists():
        reason, hint = f"There is no directory {path}.", "Check the path; a relative one starts at the file it is in."
    elif not path.is_dir():
        reason, hint = f"{path} is a file, not a git repository.", "Name the directory that holds the repository."
    else:
        reason, hint = f"{path} is no git repository.", "Make it one: `git init`, `git add .`, `git commit`."
        if above := next((parent for parent in path.parents if git_dir_of_tree(parent)), None):
            hint = f"{above} is one: name that."
    raise YouBenchaError("REPO_NOT_FOUND", reason, hint=hint)
