"""Build the repositories of the task suite: `python3 -m benchmarks.build [DIRECTORY]`.

Each task becomes a bare repository with the tags `v1` (what an agent gets), `v1-solution` and `v1-validation` (with the
hidden tests). Commits are the same everywhere and every time: nothing depends on the machine, the user or the clock.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from youbencha.workspace.git import git

HERE = Path(__file__).resolve().parent
TASKS = HERE / "tasks"
BUILD = HERE / "build"
DELETED = ".deleted"
"""In an overlay: the paths that it removes, one per line."""

_WHO = b"youBencha <tasks@youbencha.invalid> 1767225600 +0000"


def task_ids() -> list[str]:
    return sorted(path.name for path in TASKS.iterdir() if (path / "start").is_dir())


def read_tree(task: str, *overlays: str) -> dict[str, bytes]:
    """The files of a task's start, with overlays (`solution`, `partial`, `hidden`) over it."""
    files = dict(_files(TASKS / task / "start"))
    for overlay in overlays:
        changes = dict(_files(TASKS / task / overlay))
        for deleted in changes.pop(DELETED, b"").decode().split():
            del files[deleted]
        files |= changes
    return files


async def build_task(task: str, directory: Path) -> Path:
    """Build one repository below a directory; one that is there is replaced."""
    repository = directory / task
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir(parents=True)
    await git(repository, "init", "--quiet", "--bare", "--object-format=sha1", "--initial-branch=main")
    await git(repository, "fast-import", "--quiet", stdin=b"".join(_history(task)))
    return repository


async def build_all(directory: Path = BUILD) -> list[Path]:
    return [await build_task(task, directory) for task in task_ids()]


def _history(task: str) -> Iterator[bytes]:
    """For `git fast-import`. The solution and the hidden tests are not ancestors of what the agent gets."""
    start = read_tree(task)
    yield _commit("refs/heads/main", "The task", start)
    yield b"reset refs/tags/v1\nfrom refs/heads/main\n\n"
    for tag, message, overlay in (
        ("v1-solution", "A solution", "solution"),
        ("v1-validation", "Hidden tests", "hidden"),
    ):
        yield _commit(f"refs/tags/{tag}", message, read_tree(task, overlay), parent="refs/tags/v1")


def _commit(ref: str, message: str, files: Mapping[str, bytes], parent: str | None = None) -> bytes:
    lines = [f"commit {ref}".encode(), b"author " + _WHO, b"committer " + _WHO, _data(message.encode())]
    if parent is not None:
        lines.append(f"from {parent}".encode())
    lines.append(b"deleteall")
    for name, content in sorted(files.items()):
        lines += [f"M 100644 inline {name}".encode(), _data(content)]
    return b"\n".join(lines) + b"\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%b" % (len(content), content)


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(directory).as_posix(), path.read_bytes()


if __name__ == "__main__":
    for built in asyncio.run(build_all(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD)):
        print(built)
