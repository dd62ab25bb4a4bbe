"""The agent's checkout: one commit, nothing that leaks a solution, and no program that ran."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from git_repositories import (
    HttpBackend,
    Opener,
    commit,
    commit_many,
    files,
    git,
    head,
    many_name,
    new_repository,
    served,
)
from systems import ON_LINUX, linux_only, posix_only
from youbencha.errors import YouBenchaError

needs_posix = posix_only("scripts, links and modes")


async def test_a_repository_to_work_in(opener: Opener, source: Path) -> None:
    directory = await opener.checked_out(source)
    assert files(directory) == {"README.md": "third\n", "src/code.py": "print(1)\n"}
    assert git(directory, "status", "--porcelain") == ""
    assert git(directory, "log", "--format=%H %s") == f"{head(source)} third"
    assert git(directory, "branch", "--show-current") == "main"
    git(directory, "fsck", "--strict")
    mine = commit(directory, {"README.md": "mine\n"}, "mine")
    assert git(directory, "log", "--format=%s") == "mine\nthird"
    git(directory, "reset", "--quiet", "--hard", "HEAD~1")
    git(directory, "switch", "--quiet", "-c", "another", mine)
    git(directory, "gc", "--quiet")
    git(directory, "fsck")


@pytest.mark.parametrize("way", ["path", "http"])
async def test_nothing_but_one_commit(opener: Opener, source: Path, tmp_path: Path, way: str) -> None:
    git(source, "notes", "add", "-m", "the secret answer", "v1")
    (source / "README.md").write_text("stashed\n")
    git(source, "stash", "--quiet")
    git(source, "gc", "--quiet")
    if way == "path":
        directory = await opener.checked_out(source)
    else:
        with served(HttpBackend.of(tmp_path)) as url:
            directory = await opener.checked_out(f"{url}/source")
    assert git(directory, "rev-list", "--all") == head(source)
    assert git(directory, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(directory, "remote") == ""
    assert git(directory, "reflog") == ""
    objects = git(directory, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
    wanted = git(source, "rev-list", "--objects", "--no-object-names", "--no-walk", "HEAD").split()
    assert sorted(line.split()[1] for line in objects.splitlines()) == sorted(wanted)
    assert objects.count("commit ") == 1
    kept = {path.name for path in (directory / ".git").iterdir()}
    assert kept == {"HEAD", "config", "index", "objects", "packed-refs", "refs", "shallow"}
    assert str(source) not in (directory / ".git" / "config").read_text()
    assert not list(directory.parent.glob(".*"))  # nor anything of ours


@pytest.mark.parametrize(
    ("branch", "shown"), [("solution", "solution"), ("v1", "v1"), (None, "main"), ("refs/heads/solution", "solution")]
)
async def test_the_name_of_the_branch(opener: Opener, source: Path, branch: str | None, shown: str) -> None:
    about = {"branch": branch} if branch else {"commit": head(source, "v1")}
    directory = await opener.checked_out(source, **about)
    assert git(directory, "branch", "--show-current") == shown
    assert git(directory, "status", "--porcelain") == ""


async def test_a_branch_with_slashes(opener: Opener, source: Path) -> None:
    git(source, "branch", "feature/über/x")
    directory = await opener.checked_out(source, branch="feature/über/x")
    assert git(directory, "branch", "--show-current") == "feature/über/x"
    commit(directory, {"README.md": "mine\n"})
    assert git(directory, "log", "--format=%s").count("\n") == 1


@needs_posix
async def test_links_modes_and_unusual_names(opener: Opener, source: Path, tmp_path: Path) -> None:
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "outside").symlink_to("/etc/passwd")
    (source / "dangling").symlink_to("nowhere")
    (source / 'odd "name"\n').write_text("x\n")
    if ON_LINUX:
        with open(os.fsencode(source) + b"/caf\xe9", "wb") as file:
            file.write(b"not UTF-8\n")
    (source / "crlf.txt").write_bytes(b"a\r\nb\n")
    (source / "binary").write_bytes(bytes(range(256)))
    commit(source, {})
    directory = await opener.checked_out(source)
    assert os.access(directory / "run.sh", os.X_OK)
    assert not os.access(directory / "README.md", os.X_OK)
    assert (directory / "outside").readlink() == Path("/etc/passwd")
    assert (directory / "crlf.txt").read_bytes() == b"a\r\nb\n"
    assert (directory / "binary").read_bytes() == bytes(range(256))
    assert sorted(os.listdir(os.fsencode(directory))) == sorted(os.listdir(os.fsencode(source)))
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    assert (await snapshot.changes(tmp_path / "patch")).files == ()


async def test_the_start_is_known_without_reading_the_files(opener: Opener, source: Path, tmp_path: Path) -> None:
    directory = await opener.checked_out(source)
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    assert snapshot.start == head(source)
    assert (await snapshot.changes(tmp_path / "patch")).files == ()
    (directory / "README.md").write_text("mine\n")
    changes = await snapshot.changes(tmp_path / "patch")
    assert [(change.path, change.kind, change.additions, change.deletions) for change in changes.files] == [
        ("README.md", "modified", 1, 1)
    ]
    assert changes.base_commit == changes.current_commit == head(source)


async def test_submodules_stay_empty(opener: Opener, source: Path, tmp_path: Path) -> None:
    new_repository(tmp_path / "inner")
    git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "inner"), "lib/inner")
    commit(source, {}, "with a submodule")
    directory = await opener.checked_out(source)
    assert list((directory / "lib" / "inner").iterdir()) == []
    assert opener.said == ["submodules are not fetched; these directories are empty: lib/inner"]
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    assert (await snapshot.changes(tmp_path / "patch")).files == ()
    (directory / "lib" / "inner" / "new").write_text("x\n")
    assert [change.path for change in (await snapshot.changes(tmp_path / "patch")).files] == ["lib/inner/new"]


async def test_an_empty_commit(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "bare-bones").mkdir()
    git(tmp_path / "bare-bones", "init", "--quiet")
    commit(tmp_path / "bare-bones", {})
    directory = await opener.checked_out("bare-bones")
    snapshot = await (await opener("bare-bones")).snapshot(directory, tmp_path / "start.git")
    assert files(directory) == {}
    (directory / "first").write_text("x\n")
    assert [change.path for change in (await snapshot.changes(tmp_path / "patch")).files] == ["first"]


async def test_two_thousand_files(opener: Opener, source: Path, tmp_path: Path) -> None:
    commit_many(source, 2000)
    directory = await opener.checked_out(source)
    assert (directory / many_name(1999)).read_text() == "file 1999\n"
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    for number in range(0, 2000, 50):
        (directory / many_name(number)).write_text("changed\n")
    shutil.rmtree(directory / "d1")
    changes = await snapshot.changes(tmp_path / "patch")
    kinds = [change.kind for change in changes.files]
    assert (kinds.count("modified"), kinds.count("deleted"), len(kinds)) == (40, 40, 80)


# -- hostile repositories -----------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark if anything runs it."""
    program = tmp_path / "trap"
    program.write_text(f'#!/bin/sh\ntouch "{tmp_path}/it-ran"\ncat\n')
    program.chmod(0o755)
    return program


def plant(source: Path, trap: Path) -> None:
    """Everything that git runs at one time or another, in the repository's own configuration and in its files."""
    hooks = source / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "post-merge", "post-index-change", "reference-transaction", "pre-auto-gc"):
        shutil.copy(trap, hooks / name)
    commit(
        source,
        {
            ".gitattributes": "* filter=trap diff=trap merge=trap\n*.bin filter=lfs\n",
            "large.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
            ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::{trap}\n\tupdate = !{trap}\n'
            '[submodule "y"]\n\tpath = y\n\turl = file:///etc\n',
            ".lfsconfig": f"[lfs]\n\turl = file://{trap}\n",
        },
    )
    inner = head(source)
    git(source, "update-index", "--add", "--cacheinfo", f"160000,{inner},x")
    git(source, "commit", "--quiet", "-m", "a submodule")
    with (source / ".git" / "config").open("a") as config:
        config.write(
            f'[core]\n\tfsmonitor = "{trap}"\n\tpager = "{trap}"\n\tsshCommand = "{trap}"\n\tgitProxy = "{trap}"\n'
            f'\thooksPath = "{hooks}"\n[filter "trap"]\n\tsmudge = "{trap}"\n\tclean = "{trap}"\n\tprocess = "{trap}"\n'
            f'\trequired = true\n[filter "lfs"]\n\tsmudge = "{trap}"\n\trequired = true\n[diff "trap"]\n'
            f'\tcommand = "{trap}"\n\ttextconv = "{trap}"\n[pager]\n\tfor-each-ref = "{trap}"\n\trev-parse = "{trap}"\n'
            f'[uploadpack]\n\tpackObjectsHook = "{trap}"\n[alias]\n\tread-tree = "!{trap}"\n'
            f'[submodule]\n\trecurse = true\n[credential]\n\thelper = "!{trap}"\n'
        )


@needs_posix
async def test_programs_in_a_repository_do_not_run(opener: Opener, source: Path, tmp_path: Path, trap: Path) -> None:
    plant(source, trap)
    (tmp_path / "it-ran").unlink(missing_ok=True)
    repository = await opener(source)
    directory = await opener.checked_out(source)
    snapshot = await repository.snapshot(directory, tmp_path / "start.git")
    await repository.write_tree(await repository.resolve("solution"), tmp_path / "src-expected")
    (directory / "new").write_text("x\n")
    changes = await snapshot.changes(tmp_path / "patch")
    assert [change.path for change in changes.files] == ["new"]
    assert (directory / "large.bin").read_text().startswith("version https://git-lfs")
    assert any("LFS" in line for line in opener.said)
    assert not (tmp_path / "it-ran").exists()
    assert "trap" not in (directory / ".git" / "config").read_text()


@needs_posix
async def test_programs_in_the_users_templates_do_not_run(
    opener: Opener, source: Path, tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = tmp_path / "template" / "hooks"
    template.mkdir(parents=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(trap, template / name)
    (tmp_path / ".gitconfig").write_text(
        f'[init]\n\ttemplateDir = "{template.parent}"\n[core]\n\thooksPath = "{template}"\n\tfsmonitor = "{trap}"\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template.parent))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    with served(HttpBackend.of(tmp_path)) as url:
        directory = await opener.checked_out(f"{url}/source")
    assert not (directory / ".git" / "hooks").exists()
    assert not (tmp_path / "it-ran").exists()


@needs_posix
@pytest.mark.parametrize("attributes", ["text eol=crlf", "working-tree-encoding=UTF-16", "ident", "-diff"])
async def test_files_are_checked_out_as_recorded(opener: Opener, source: Path, tmp_path: Path, attributes: str) -> None:
    commit(source, {"ident.txt": "$Id$\nline\n"})
    (source / ".gitattributes").write_text(f"ident.txt {attributes}\n")
    git(source, "add", ".gitattributes")
    git(source, "commit", "--quiet", "-m", "attributes")
    directory = await opener.checked_out(source)
    assert (directory / "ident.txt").read_bytes() == b"$Id$\nline\n"
    snapshot = await (await opener(source)).snapshot(directory, tmp_path / "start.git")
    assert (await snapshot.changes(tmp_path / "patch")).files == ()


def hostile_tree(source: Path, entries: bytes) -> None:
    """A commit on `main` with a tree that git itself would never make."""
    tree = git(source, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=entries)
    made = git(source, "commit-tree", tree, "-m", "hostile")
    git(source, "update-ref", "refs/heads/main", made)


@pytest.mark.parametrize("name", [b".git", b".GIT", b"..", b"a/../../b"])
async def test_names_that_lead_out_of_the_tree(opener: Opener, source: Path, tmp_path: Path, name: bytes) -> None:
    blob = bytes.fromhex(git(source, "rev-parse", "HEAD:README.md"))
    if name.lower() == b".git":
        inside = git(source, "mktree", stdin=f"100644 blob {blob.hex()}\tconfig\n".encode())
        hostile_tree(source, b"40000 " + name + b"\0" + bytes.fromhex(inside))
    else:
        hostile_tree(source, b"100644 " + name + b"\0" + blob)
    with pytest.raises(YouBenchaError) as caught:
        await opener.checked_out(source)
    assert caught.value.code == "REPO_HOSTILE"
    assert caught.value.hint
    assert not (tmp_path / "b").exists()


@needs_posix
async def test_a_link_and_a_directory_with_the_same_name(opener: Opener, source: Path, tmp_path: Path) -> None:
    """The old trick: a link to somewhere, and files `below` it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    link = git(source, "hash-object", "-w", "--stdin", stdin=str(outside).encode())
    blob = git(source, "rev-parse", "HEAD:README.md")
    inside = git(source, "mktree", stdin=f"100644 blob {blob}\tfile\n".encode())
    hostile_tree(source, b"120000 a\0" + bytes.fromhex(link) + b"40000 a\0" + bytes.fromhex(inside))
    with contextlib.suppress(YouBenchaError):  # which of the two stays is git's affair
        await opener.checked_out(source)
    assert list(outside.iterdir()) == []


@linux_only("a size limit for what a process may write")
async def test_a_disk_that_is_full(opener: Opener, source: Path, tmp_path: Path) -> None:
    """A limit on the size of files fails as a full disk does, if the signal that comes with it is ignored."""
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\ntrap "" XFSZ\nexec "{shutil.which("git")}" "$@"\n')
    wrapper.chmod(0o755)
    (source / "large").write_bytes(os.urandom(3_000_000))
    commit(source, {})
    script = (
        "import asyncio, resource, sys\nfrom pathlib import Path\n"
        "from youbencha.errors import YouBenchaError\nfrom youbencha.workspace import open_repository\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "async def main():\n"
        "    repository = await open_repository(sys.argv[1], base=Path('/'))\n"
        "    try:\n        await repository.check_out(Path(sys.argv[2]))\n"
        "    except YouBenchaError as error:\n        print(error.code, error)\n"
        "asyncio.run(main())\n"
    )
    target = tmp_path / "target"
    target.mkdir()
    argv = [sys.executable, "-c", script, str(source), str(target)]
    env = {**os.environ, "PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("WORKSPACE_NOT_WRITABLE "), done
