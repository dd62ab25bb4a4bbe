"""`scripts/newcomer`: nothing that is left on a machine reaches the command."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from systems import posix_only

pytestmark = posix_only("it is a shell script")
NEWCOMER = Path(__file__).parents[2] / "scripts/newcomer"

_LOOK = 'env | cut -d= -f1; echo --; ls -A ~; echo --; ls -A; echo --; ls -d "$@" 2> /dev/null || true'
"""Prints the variables, the home, the clone, and which of the arguments exist."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a script of its own, as small as can be."""
    tree = tmp_path / "a project"
    (tree / "scripts").mkdir(parents=True)
    (tree / "scripts/newcomer").write_bytes(NEWCOMER.read_bytes())
    (tree / "scripts/newcomer").chmod(0o755)
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *arguments], cwd=tree, check=True)
    (tree / "not-committed").touch()
    return tree


@pytest.fixture
def planted() -> Iterator[list[str]]:
    """Files that an earlier run may have left in the directories for temporary files."""
    with ExitStack() as files:
        directories = [name for name in ("/tmp", "/var/tmp", "/dev/shm") if Path(name).is_dir()]
        yield [files.enter_context(tempfile.NamedTemporaryFile(dir=directory)).name for directory in directories]


def run(project: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = project / "scripts/newcomer"
    return subprocess.run([script, *command], env={**os.environ, **env}, capture_output=True, text=True, check=False)


def test_nothing_left_on_the_machine_is_seen(project: Path, planted: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "left-behind").touch()
    done = run(project, "sh", "-c", _LOOK, "sh", *planted, HOME=str(home), LEFT_BEHIND="1")
    assert done.returncode == 0, done.stderr
    variables, in_home, in_clone, found = done.stdout.split("--\n")
    assert not {"LEFT_BEHIND", "LANG", "TERM"} & set(variables.splitlines())
    assert in_home == ""
    assert in_clone.splitlines() == [".git", "scripts"]
    assert sorted(found.splitlines()) == (sorted(planted) if "no namespaces" in done.stderr else [])
    assert "not committed" in done.stderr


def test_it_ends_as_the_command_does_and_leaves_nothing(project: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = run(project, "sh", "-c", "touch ~/file here; exit 7", TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 7, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_without_namespaces_it_says_so(project: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/unshare").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(project, "sh", "-c", 'ls -A "$HOME" "$TMPDIR" | grep -v :; test -d "$TMPDIR"', PATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    assert "no namespaces" in done.stderr


def test_without_a_command_it_explains_itself(project: Path) -> None:
    done = run(project)
    assert done.returncode == 2
    assert "scripts/newcomer make test" in done.stderr
