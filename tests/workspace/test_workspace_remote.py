"""Repositories elsewhere: over http and ssh, with credentials, and with a mirror that makes the second time quick."""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from git_repositories import HttpBackend, Opener, PlainFiles, commit, files, git, head, served
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace.mirror import Mirror
from youbencha.workspace.source import RemoteUrl, read_source

needs_posix = posix_only("scripts in the place of programs, signals")


def mirror_of(opener: Opener) -> Path:
    (found,) = (opener.cache_dir / "mirrors").glob("*/mirror.git")
    return found


# -- http ---------------------------------------------------------------------------------------------------------


async def test_over_http(opener: Opener, source: Path, tmp_path: Path) -> None:
    backend = HttpBackend.of(tmp_path)
    with served(backend) as url:
        repository = await opener(f"{url}/source")
        assert (repository.commit, repository.branch) == (head(source), "main")
        assert repository.public_url == f"{url}/source"
        for name in ("solution", "v1", "light"):
            assert (await opener(f"{url}/source", branch=name)).commit == head(source, name)
        directory = await opener.checked_out(f"{url}/source/", branch="solution")
    assert files(directory)["SOLUTION"] == "the secret answer\n"
    assert len(list((opener.cache_dir / "mirrors").iterdir())) == 1
    assert sum("git-upload-pack" in path and "service" not in path for path in backend.requests) >= 1


@needs_posix
async def test_no_program_of_a_planted_mirror_is_run(opener: Opener, source: Path, tmp_path: Path) -> None:
    """A mirror whose configuration names programs may have been placed in the cache."""
    backend = HttpBackend.of(tmp_path)
    with served(backend) as url:
        await opener(f"{url}/source")
        mirror, pwned = mirror_of(opener), tmp_path / "pwned"
        git(mirror.parent, "init", "-q", "--bare", ".")
        for directory in (mirror, mirror.parent):
            git(directory, "config", "credential.helper", f"!touch {shlex.quote(str(pwned))};")
        commit(source, {"new.txt": "new\n"})
        backend.authorization = "Basic bWU6c2VjcmV0"
        with pytest.raises(YouBenchaError):  # it asks for a password
            await opener(f"{url}/source")
        secret = url.replace("://", "://me:secret@")
        assert (await opener(f"{secret}/source")).commit == head(source)
    assert not pwned.exists()


async def test_many_branches_are_all_listed(source: Path, tmp_path: Path) -> None:
    """The listing of a repository with many forks can be larger than 10 MiB."""
    commit_id = head(source)
    lines = (f"{commit_id} refs/heads/someone/{number:040}\n" for number in range(110_000))
    (source / ".git" / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(lines))
    with served(HttpBackend.of(tmp_path)) as url:
        remote = read_source(f"{url}/source", tmp_path)
        assert isinstance(remote, RemoteUrl)
        refs = await Mirror(remote, tmp_path / "cache", lambda *_: None).refs()
    assert len(refs.ids) > 110_000
    assert f"refs/heads/someone/{109_999:040}" in refs.ids


async def test_only_what_is_missing_is_fetched(opener: Opener, source: Path, tmp_path: Path) -> None:
    backend = HttpBackend.of(tmp_path)

    def asked() -> int:
        count = len(backend.requests)
        backend.requests.clear()
        return count

    with served(backend) as url:
        await opener(f"{url}/source")
        first = asked()
        await opener(f"{url}/source")
        assert 0 < asked() < first  # what is there was looked at, and nothing fetched
        for written in (head(source), head(source, "solution"), head(source)[:12]):
            await opener(f"{url}/source", commit=written)
        assert asked() == 0
        newer = commit(source, {"README.md": "fourth\n"})
        assert (await opener(f"{url}/source")).commit == newer
        assert asked() > 0
        newest = commit(source, {"README.md": "fifth\n"})
        assert (await opener(f"{url}/source", commit=newest[:12])).commit == newest
    assert (await opener(f"{url}/source", commit=newer)).commit == newer  # and the server is gone
    assert len([line for line in opener.said if "into the cache" in line]) == 1


async def test_branches_that_are_added_removed_and_changed(opener: Opener, source: Path, tmp_path: Path) -> None:
    with served(HttpBackend.of(tmp_path)) as url:
        before = await opener(f"{url}/source", branch="solution")
        git(source, "branch", "-D", "solution")
        git(source, "branch", "solution/better", "v1")  # where a file was, there is a directory now
        git(source, "branch", "-m", "main", "trunk")
        git(source, "commit", "--quiet", "--amend", "-m", "rewritten")
        repository = await opener(f"{url}/source")
        assert (repository.commit, repository.branch) == (head(source), "trunk")
        assert (await opener(f"{url}/source", branch="solution/better")).commit == head(source, "v1")
        with pytest.raises(YouBenchaError, match="no branch or tag `solution`"):
            await opener(f"{url}/source", branch="solution")
        assert (await opener(f"{url}/source", commit=before.commit)).commit == before.commit  # fetched once, kept


async def test_a_commit_on_no_branch(opener: Opener, source: Path, tmp_path: Path) -> None:
    lost = commit(source, {"README.md": "lost\n"})
    git(source, "reset", "--quiet", "--hard", "HEAD~1")
    with served(HttpBackend.of(tmp_path)) as url:
        assert (await opener(f"{url}/source", commit=lost)).commit == lost
        for unknown in ("0123456789" * 4, lost[:9] + "ff"):
            with pytest.raises(YouBenchaError) as caught:
                await opener(f"{url}/source", commit=unknown)
            assert caught.value.code == "REPO_COMMIT_UNKNOWN"


async def test_a_server_without_git_support(opener: Opener, source: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(source), "bare.git")
    git(tmp_path / "bare.git", "update-server-info")
    with served(partial(PlainFiles, directory=str(tmp_path))) as url:  # type: ignore[arg-type]
        repository = await opener(f"{url}/bare.git")
        assert (repository.commit, repository.branch) == (head(source), "main")


async def test_an_empty_repository(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    with served(HttpBackend.of(tmp_path)) as url, pytest.raises(YouBenchaError) as caught:
        await opener(f"{url}/empty")
    assert caught.value.code == "REPO_EMPTY"


async def test_a_sha256_repository(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "sha256").mkdir()
    git(tmp_path / "sha256", "init", "--quiet", "--object-format=sha256")
    wanted = commit(tmp_path / "sha256", {"file": "x\n"})
    with served(HttpBackend.of(tmp_path)) as url:
        directory = await opener.checked_out(f"{url}/sha256")
    assert git(directory, "rev-parse", "HEAD") == wanted


async def test_a_missing_repository(opener: Opener, tmp_path: Path) -> None:
    with served(HttpBackend.of(tmp_path)) as url, pytest.raises(YouBenchaError) as caught:
        await opener(f"{url}/nothing")
    assert caught.value.code == "REPO_NOT_FOUND"
    assert caught.value.hint


async def test_an_unreachable_server(opener: Opener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(YouBenchaError) as caught:
            await opener(url)
    assert caught.value.code == "REPO_UNREACHABLE"
    assert url in caught.value.message
    assert caught.value.hint
    assert not list(opener.cache_dir.rglob("mirror.git"))


async def test_a_cached_branch_is_not_used_for_an_unreachable_server(
    opener: Opener, source: Path, tmp_path: Path
) -> None:
    with served(HttpBackend.of(tmp_path)) as url:
        await opener(f"{url}/source")
    with pytest.raises(YouBenchaError) as caught:
        await opener(f"{url}/source")
    assert caught.value.code == "REPO_UNREACHABLE"


# -- credentials --------------------------------------------------------------------------------------------------

TOKEN = "t0ken-that-nobody-sees"


async def test_credentials_in_the_address(opener: Opener, source: Path, tmp_path: Path) -> None:
    wanted = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    with served(HttpBackend.of(tmp_path, wanted)) as url:
        with_token = f"{url}/source".replace("://", f"://me:{TOKEN}@")
        repository = await opener(with_token)
        assert repository.commit == head(source)
        assert repository.public_url == f"{url}/source"
        directory = await opener.checked_out(with_token)
        for wrong in (f"{url}/source", with_token.replace(TOKEN, "wr0ng-token")):
            with pytest.raises(YouBenchaError) as caught:
                await opener(wrong, branch="solution")
            assert caught.value.code == "REPO_ACCESS_DENIED"
            assert "wr0ng" not in f"{caught.value}{caught.value.context}"
    kept = [path for path in (*opener.cache_dir.rglob("*"), *directory.rglob("*")) if path.is_file()]
    assert len(kept) > 10
    assert [path for path in kept if TOKEN.encode() in path.read_bytes()] == []
    assert TOKEN not in "".join(opener.said)


@needs_posix
async def test_credentials_are_on_no_command_line(
    opener: Opener, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user of the machine can see command lines."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    seen = tmp_path / "seen"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{seen}"\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    with served(HttpBackend.of(tmp_path)) as url:
        await opener(f"{url}/source".replace("://", f"://me:{TOKEN}@"))
    lines = seen.read_text()
    assert "ls-remote" in lines
    assert " fetch " in lines
    assert TOKEN not in lines


@needs_posix
async def test_gits_messages_show_no_credential(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talkative = tmp_path / "bin" / "git"
    talkative.parent.mkdir()
    talkative.write_text('#!/bin/sh\necho "fatal: with $(env | grep GIT_CONFIG_KEY)" >&2\nexit 128\n')
    talkative.chmod(0o755)
    monkeypatch.setenv("PATH", f"{talkative.parent}:{os.environ['PATH']}")
    with pytest.raises(YouBenchaError) as caught:
        await opener(f"https://me:{TOKEN}@127.0.0.1:1/x")
    assert "GIT_CONFIG_KEY" in caught.value.message
    assert TOKEN not in f"{caught.value}{caught.value.context}"


async def test_the_users_credential_helper_is_used(
    opener: Opener, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    stored = tmp_path / "home" / ".git-credentials"
    (tmp_path / "home" / ".gitconfig").write_text(f"[credential]\n\thelper = store --file '{stored.as_posix()}'\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    wanted = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    with served(HttpBackend.of(tmp_path, wanted)) as url:
        stored.write_text(url.replace("://", f"://me:{TOKEN}@") + "\n")
        assert (await opener(f"{url}/source")).commit == head(source)


# -- ssh ----------------------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.parametrize("write", ["ssh://git@somewhere.example{0}", "git@somewhere.example:{0}", "somewhere:{0}"])
async def test_over_ssh(
    opener: Opener, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """A program in ssh's place: it notes whom it should reach, and runs the command here."""
    fake = tmp_path / "fake-ssh"
    fake.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/host"\nshift\nexec sh -c "$*"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", f"'{fake}'")
    monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
    written = write.format(source)
    repository = await opener(written)
    assert repository.commit == head(source)
    assert repository.public_url == written
    assert "somewhere" in (tmp_path / "host").read_text()


@needs_posix
async def test_ssh_never_prompts(opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho "$*" >> "{tmp_path}/arguments"\necho "Permission denied (publickey)." >&2\nexit 255\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_SSH_COMMAND", "GIT_SSH", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(YouBenchaError) as caught:
        await opener("git@somewhere.example:x")
    assert caught.value.code == "REPO_ACCESS_DENIED"
    assert "BatchMode=yes" in (tmp_path / "arguments").read_text()
    (tmp_path / ".gitconfig").write_text(f"[core]\n\tsshCommand = '{fake}' -i my-key\n")
    with pytest.raises(YouBenchaError):
        await opener("git@somewhere.example:x")
    assert "-i my-key" in (tmp_path / "arguments").read_text().splitlines()[-1]


# -- the mirror ---------------------------------------------------------------------------------------------------


async def test_eight_concurrent_checkouts(opener: Opener, source: Path, tmp_path: Path) -> None:
    backend = HttpBackend.of(tmp_path)
    with served(backend) as url:

        async def one(number: int) -> dict[str, str]:
            repository = await opener(f"{url}/source", branch="solution" if number % 2 else "main")
            directory = tmp_path / f"run-{number}" / "src-modified"
            directory.mkdir(parents=True)
            await repository.check_out(directory)
            return files(directory)

        found = await asyncio.gather(*(one(number) for number in range(8)))
    assert [tree["README.md"] for tree in found] == ["third\n", "second\n"] * 4
    assert len([line for line in opener.said if "into the cache" in line]) == 1
    assert sorted(path.name for path in mirror_of(opener).parent.iterdir()) == [".lock", "mirror.git"]


def ruin_objects(mirror: Path) -> None:
    for path in (mirror / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"ruined")


def ruin_pack(mirror: Path) -> None:
    """The list of what is there is whole: it shows only when the files are read."""
    for path in (mirror / "objects").rglob("*"):
        if path.is_file() and path.suffix != ".idx":
            path.chmod(0o600)
            data = bytearray(path.read_bytes())
            data[len(data) // 3 : len(data) // 3 * 2] = bytes(len(data) // 3)
            path.write_bytes(data)


def ruin_everything_there(mirror: Path) -> None:
    """As if nothing had ever been fetched, but for what the names say."""
    for path in (mirror / "objects" / "pack").iterdir():
        path.chmod(0o600)
        path.unlink()


def ruin_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


@pytest.mark.parametrize("ruin", [ruin_objects, ruin_pack, ruin_everything_there, ruin_head])
async def test_a_damaged_mirror_is_recreated(opener: Opener, source: Path, tmp_path: Path, ruin: object) -> None:
    with served(HttpBackend.of(tmp_path)) as url:
        await opener(f"{url}/source")
        assert callable(ruin)
        ruin(mirror_of(opener))
        directory = await opener.checked_out(f"{url}/source", commit=head(source))
        assert files(directory)["README.md"] == "third\n"
    git(mirror_of(opener), "fsck")


async def test_a_mirror_damaged_while_in_use(opener: Opener, source: Path, tmp_path: Path) -> None:
    """Two detect it at the same time; one of them repairs it."""
    with served(HttpBackend.of(tmp_path)) as url:
        both = [await opener(f"{url}/source") for _ in range(2)]
        ruin_objects(mirror_of(opener))
        await asyncio.gather(*(each.check_out(tmp_path / f"run-{n}" / "src") for n, each in enumerate(both)))
        assert [files(tmp_path / f"run-{n}" / "src")["README.md"] for n in range(2)] == ["third\n"] * 2
    assert len([line for line in opener.said if "damaged" in line]) == 1


async def test_leftovers_of_a_killed_git_are_removed(opener: Opener, source: Path, tmp_path: Path) -> None:
    with served(HttpBackend.of(tmp_path)) as url:
        await opener(f"{url}/source")
        mirror = mirror_of(opener)
        (mirror / ".fetching").touch()
        for name in ("packed-refs.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_x", "shallow.lock"):
            (mirror / name).touch()
        newer = commit(source, {"README.md": "fourth\n"})
        assert (await opener(f"{url}/source")).commit == newer
    assert not list(mirror.rglob("*.lock"))
    assert len([line for line in opener.said if "into the cache" in line]) == 1  # and nothing had to be fetched twice


@needs_posix
async def test_a_kill_during_the_first_fetch(opener: Opener, source: Path, tmp_path: Path) -> None:
    """The process that fetches is killed, as the harness would be by the kernel; the next one finds its way."""
    fake = tmp_path / "slow-ssh"
    fake.write_text(
        f'#!/bin/sh\nshift\ncase "$(ls "{opener.cache_dir}"/mirrors/*/.partial-* 2>/dev/null)" in\n'
        f'?*) touch "{tmp_path}/fetching"; exec sleep 600;;\nesac\nexec sh -c "$*"\n'
    )
    fake.chmod(0o755)
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom youbencha.workspace import open_repository\n"
        "about = dict(base=Path('/'), cache_dir=Path(sys.argv[2]))\n"
        "print(asyncio.run(open_repository(sys.argv[1], **about)).commit)\n"
    )
    argv = [sys.executable, "-c", script, f"ssh://somewhere{source}", str(opener.cache_dir)]
    env = {**os.environ, "GIT_SSH_COMMAND": f"'{fake}'", "GIT_SSH_VARIANT": "simple"}
    killed = subprocess.Popen(argv, env=env)
    deadline = time.monotonic() + 30
    while not (tmp_path / "fetching").exists():
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert list(opener.cache_dir.rglob(".partial-*"))
    fake.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == head(source)
    assert not list(opener.cache_dir.rglob(".partial-*"))


async def test_a_cache_that_is_full(opener: Opener, source: Path, tmp_path: Path) -> None:
    """A directory where the lock should be fails as early as any disk can."""
    with served(HttpBackend.of(tmp_path)) as url:
        await opener(f"{url}/source")
        lock = mirror_of(opener).parent / ".lock"
        lock.unlink()
        lock.mkdir()
        commit(source, {"README.md": "fourth\n"})
        with pytest.raises(YouBenchaError) as caught:
            await opener(f"{url}/source")
    assert caught.value.code == "CACHE_NOT_WRITABLE"


async def test_a_cache_that_cannot_be_written(opener: Opener, tmp_path: Path) -> None:
    opener.cache_dir.write_text("a file is in its place")
    with pytest.raises(YouBenchaError) as caught:
        await opener("https://127.0.0.1:1/x")
    assert caught.value.code == "CACHE_NOT_WRITABLE"
