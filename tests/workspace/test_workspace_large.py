"""Files too large for git, and paths too long for a system call: compared all the same."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from git_repositories import Opener, commit, git
from systems import linux_only, posix_only
from youbencha.errors import YouBenchaError
from youbencha.text import format_path, shorten_words
from youbencha.workspace import FileChange, Snapshot, listing, recording
from youbencha.workspace.changes import hash_files
from youbencha.workspace.trees import remove_tree
from youbencha.workspace.working_tree import uncommitted_changes


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    (path / "small").write_text("one\n")
    return path


@pytest.fixture
def large_from_2_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit, for tests with many large files. Other tests here use the real limit."""
    for module in (listing, recording):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", 2 << 20)


def make_large(path: Path, begin: bytes = b"") -> None:
    """All hole behind its beginning, so that it costs no room."""
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(listing.MAX_FILE_BYTES + 1)


async def test_compared_but_not_stored(tree: Path, tmp_path: Path) -> None:
    before = Path(shutil.copytree(tree, tmp_path / "before"))
    start = await Snapshot.take(tree, tmp_path / "start.git")
    make_large(tree / "huge")
    (tree / "small").write_text("two\n")
    (tree / "z").write_text("new\n")
    changes = await start.changes(tmp_path / "patch")
    assert changes.files == (
        FileChange("huge", "added", None, None),
        FileChange("small", "modified", 1, 1),
        FileChange("z", "added", 1, 0),
    )
    assert changes.left_out_of_patch == ("huge",)
    git(before, "apply", str(changes.patch_file))
    assert sorted(os.listdir(before)) == ["small", "z"]


@linux_only("holes")
async def test_sparse_files_count_together_by_their_size(tree: Path, tmp_path: Path) -> None:
    """They cost nothing to create, but git needs two seconds for each."""
    (tree / "old").touch()
    os.truncate(tree / "old", listing.MAX_FILE_BYTES)
    start = await Snapshot.take(tree, tmp_path / "start.git")
    assert (await start.changes(tmp_path / "patch")).files == ()
    for number in range(40):
        (tree / f"sparse-{number}").touch()
        os.truncate(tree / f"sparse-{number}", listing.MAX_FILE_BYTES)
    (tree / "dense").write_bytes(bytes(1 << 20))
    with (tree / "old").open("r+b") as file:
        file.write(b"changed")
    changes = await start.changes(tmp_path / "patch")
    assert {change.kind for change in changes.files if change.path != "old"} == {"added"}
    assert {change.path: change.kind for change in changes.files}["old"] == "modified"
    assert len(changes.files) == 42
    assert len(changes.left_out_of_patch) >= 39  # whichever comes first is in the patch
    assert "dense" not in changes.left_out_of_patch


@pytest.mark.usefixtures("large_from_2_mib")
async def test_large_at_the_start(opener: Opener, source: Path, tmp_path: Path) -> None:
    """In the commit itself, so git holds them."""
    for name in ("a", "b", "c", "d"):
        make_large(source / name)
    commit(source, {})
    directory = await opener.checked_out(source)
    start = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    assert (await start.changes(tmp_path / "patch")).files == ()
    make_large(directory / "b", b"changed")
    (directory / "c").chmod(0o755)
    (directory / "d").write_text("small\n")
    changes = await start.changes(tmp_path / "patch")
    assert {change.path: (change.kind, change.is_binary) for change in changes.files} == {
        "b": ("modified", True),
        "c": ("modified", True),
        "d": ("modified", True),
    }
    assert changes.left_out_of_patch == ("b", "c")


@posix_only("links")
@pytest.mark.usefixtures("large_from_2_mib")
async def test_large_before_the_agent(tree: Path, tmp_path: Path) -> None:
    """Made by what prepared the tree, so git has never seen them."""
    for name in ("changed", "deleted", "kept", "directory", "link", "shrunk"):
        make_large(tree / name)
    start = await (await Snapshot.take(tree, tmp_path / "start.git")).retake()
    assert (await start.changes(tmp_path / "patch")).files == ()
    make_large(tree / "changed", b"x")
    for name in ("deleted", "directory", "link"):
        (tree / name).unlink()
    (tree / "link").symlink_to("kept")
    (tree / "directory").mkdir()
    (tree / "directory" / "file").write_text("x\n")
    (tree / "shrunk").write_text("x\n")
    changes = await start.changes(tmp_path / "patch")
    assert {change.path: change.kind for change in changes.files} == {
        "changed": "modified",
        "deleted": "deleted",
        "directory": "deleted",
        "directory/file": "added",
        "link": "type_changed",
        "shrunk": "modified",
    }
    assert changes.left_out_of_patch == ("changed", "deleted", "directory", "link", "shrunk")
    assert [change.path for change in changes.files] == sorted(change.path for change in changes.files)


async def test_ignored_large_files_do_not_count(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitignore").write_text("*.bin\n")
    make_large(tree / "old.bin")
    start = await Snapshot.take(tree, tmp_path / "start.git")
    make_large(tree / "new.bin")
    make_large(tree / "old.bin", b"x")
    assert (await start.changes(tmp_path / "patch")).left_out_of_patch == ("old.bin",)


async def test_in_the_users_directory(source: Path, tmp_path: Path) -> None:
    make_large(source / "huge")
    changes = await uncommitted_changes(source, tmp_path / "start.git", tmp_path / "patch")
    assert changes is not None
    assert (changes.files, changes.left_out_of_patch) == ((FileChange("huge", "added", None, None),), ("huge",))


@linux_only("a limit for the memory of a process")
def test_memory_stays_small(tree: Path, tmp_path: Path) -> None:
    """A terabyte, and what is read of it and others together: neither git nor we take more than a fraction."""
    script = (
        "import asyncio, resource, sys\nfrom pathlib import Path\nfrom youbencha.workspace import Snapshot\n"
        "import youbencha.workspace.changes as large\n"
        "large._MAX_READ_BYTES = 160 << 20\n"
        "async def main():\n    tree, place = map(Path, sys.argv[1:])\n"
        "    start = await Snapshot.take(tree, place / 'git')\n"
        "    for name, size in (('huge', 1 << 40), ('large', 159 << 20)):\n"
        "        with (tree / name).open('wb') as file:\n            file.truncate(size)\n"
        "    print([change.path for change in (await start.changes(place / 'patch')).files])\n"
        "asyncio.run(main())\n"
        # Our own from there: the other figure begins with that of the process that started us.
        "own = next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "gits = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "assert max(own, gits) < 150_000, (own, gits)\n"
    )
    argv = [sys.executable, "-c", script, str(tree), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("['huge', 'large']", 0), done.stderr


async def test_ids_match_gits(tree: Path) -> None:
    (tree / "small").write_bytes(os.urandom(3_000_000))
    entries = await hash_files(tree, [b"small", b"gone"], [], None)
    assert {path: entry.id for path, entry in entries.items()} == {b"small": git(tree, "hash-object", "small")}
    content = (tree / "small").read_bytes()
    (entry,) = (await hash_files(tree, [b"small"], [], "a" * 64)).values()
    assert entry.id == hashlib.sha256(b"blob 3000000\0" + content).hexdigest()


@linux_only("a file that is not read at once")
async def test_a_cancelled_call_reads_no_further(tree: Path, tmp_path: Path) -> None:
    (tree / "huge").write_text("small\n")  # a new one would not be read
    start = await Snapshot.take(tree, tmp_path / "start.git")
    os.truncate(tree / "huge", 7 << 30)
    task = asyncio.create_task(start.changes(tmp_path / "patch"))
    while str(tree / "huge") not in _opened_by(os.getpid()):
        assert not task.done()
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while str(tree / "huge") in _opened_by(os.getpid()):  # the thread ends with its next piece
        await asyncio.sleep(0.001)


def _opened_by(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except OSError:  # closed meanwhile
            continue
    return found


# -- too deep -----------------------------------------------------------------------------------------------------


DEEP = ["dir"] * 1_100
"""More than a path can hold, and more than Python's calls."""


def nest(top: Path, directories: list[str]) -> None:
    """As an agent does: step by step, so that no path is ever named."""
    here = os.open(top, os.O_RDONLY)
    for directory in directories:
        os.mkdir(directory, dir_fd=here)
        deeper = os.open(directory, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    for name in ("file", "n" * 200):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=here))
    os.close(here)


@posix_only("paths that it does not have")
@pytest.mark.parametrize("directories", [DEEP, ["dir"]], ids=len)
async def test_deeper_than_a_path_can_be(tree: Path, tmp_path: Path, directories: list[str]) -> None:
    start = await Snapshot.take(tree, tmp_path / "start.git")
    (tree / "deep").mkdir()
    nest(tree / "deep", directories)
    (tree / "small").write_text("two\n")
    try:
        changes = await start.changes(tmp_path / "patch")
        again = await (await start.retake()).changes(tmp_path / "patch-2")
    finally:
        remove_tree(tree / "deep")  # pytest's own clean-up would go too deep
    *deep, small = changes.files
    assert small == FileChange("small", "modified", 1, 1)
    if directories != DEEP:
        assert [change.path for change in deep] == ["deep/dir/file", f"deep/dir/{'n' * 200}"]
        assert changes.left_out_of_patch == ()
    else:
        assert [(change.kind, change.is_binary) for change in deep] == [("added", True)]
        assert changes.left_out_of_patch == (deep[0].path,)
        assert deep[0].path.startswith("deep/dir/dir/dir/")
    assert again.files == ()


@posix_only("paths that it does not have")
async def test_every_length_around_the_limit(tree: Path, tmp_path: Path) -> None:
    """Whichever part of a path is the one too much."""
    start = await Snapshot.take(tree, tmp_path / "start.git")
    long = "l" * 199
    room, before_the_end = divmod(os.pathconf("/", "PC_PATH_MAX") - len(os.fsencode(tree)) - 100, len(long) + 1)
    for shift in range(-1, 5):
        top = tree / ("s" * (before_the_end + shift))
        top.mkdir()
        nest(top, [long] * room + ["dir"] * 26)
    try:
        changes = await start.changes(tmp_path / "patch")
    finally:
        for path in tree.iterdir():
            remove_tree(path)
    tops = {change.path.partition("/")[0] for change in changes.files if change.kind == "added"}
    assert len(tops) == 6


@posix_only("paths that it does not have")
async def test_deep_below_an_ignored_directory(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitignore").write_text("/ignored/\n")
    start = await Snapshot.take(tree, tmp_path / "start.git")
    (tree / "ignored").mkdir()
    nest(tree / "ignored", DEEP)
    try:
        assert (await start.changes(tmp_path / "patch")).files == ()
    finally:
        remove_tree(tree / "ignored")


@posix_only("modes")
async def test_messages_stay_short(tree: Path, tmp_path: Path) -> None:
    long = Path(*["directory-name"] * 200)
    (tree / long).mkdir(parents=True)
    (tree / long / "file").touch()
    start = await Snapshot.take(tree, tmp_path / "start.git")
    (start.git_dir / "objects").rename(start.git_dir / "elsewhere")
    with pytest.raises(YouBenchaError) as caught:
        await start.changes(tmp_path / "patch")
    assert len(str(caught.value)) < 3000
    assert max(map(len, str(caught.value).split())) < 200


def test_names_in_messages() -> None:
    assert format_path("a/b.txt") == "a/b.txt"
    assert len(format_path("a" * 500 + "/end")) < 165
    assert format_path("a" * 500 + "/end").endswith("/end")
    assert format_path(b"\xff\n\x1b[2J").isprintable()
    assert shorten_words("cannot read a/b: no") == "cannot read a/b: no"
    assert len(shorten_words("x/" * 500 + "end: no")) < 180
    assert len(shorten_words("many words " * 1000)) <= 2000
