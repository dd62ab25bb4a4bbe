"""The toolchains that tests of other languages need, and how to get them: `python tests/stack_tools.py`.

The one place where their versions are written. Test runners for Node and bats come from npm, in one directory of the
toolbox. Go, Rust, make and a C compiler are those of the machine (`.ci/run` installs Debian's); so is Node itself.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from youbencha.user_dirs import toolbox_dir

FROM_NPM = {"vitest": "3.2.4", "jest": "30.2.0", "mocha": "11.7.5", "bats": "1.13.0"}
REQUIRED = "YOUBENCHA_REQUIRE_STACKS"
PATIENCE_S = 300


def runners_directory() -> Path:
    """Return the directory with the `node_modules` of these versions. Its name is not one of an agent."""
    versions = "_".join(f"{name}-{version}" for name, version in FROM_NPM.items())
    return toolbox_dir() / ".test-runners" / versions


def program_directory(name: str) -> Path | None:
    """Return the directory of a program that works. None if there is none."""
    if name in FROM_NPM:
        modules = runners_directory() / "node_modules"
        directory = modules / "bats" / "bin" if name == "bats" else modules / ".bin"
        return directory if (directory / name).is_file() and shutil.which("node") else None
    return next((place for place in _places(name) if name not in _ASKED or _answers(place / name)), None)


def need(*programs: str) -> None:
    """Skip the test where one of these programs is missing."""
    missing = [name for name in programs if program_directory(name) is None]
    if missing:
        reason = f"{', '.join(missing)} not found: install Debian's package, or run `python tests/stack_tools.py`"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)


_ASKED = ("cargo", "rustc")
"""Those of rustup work only with the home that it was installed for, which no test has."""


def _places(name: str) -> Iterator[Path]:
    for directory in (*os.environ["PATH"].split(os.pathsep), "/usr/bin"):
        if shutil.which(name, path=directory):
            yield Path(directory)


@functools.cache
def _answers(program: Path) -> bool:
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run([program, "--version"], env=env, capture_output=True, check=False, timeout=PATIENCE_S)
    return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Install the test runners that come from npm, unless they are there."""
    if arguments:
        print("there are no arguments", file=sys.stderr)
        return 2
    directory = runners_directory()
    if (directory / "node_modules").is_dir():
        return 0
    npm = shutil.which("npm")
    if npm is None:
        print(f"npm is not installed: the tests of {', '.join(FROM_NPM)} will be skipped")
        return 0
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=directory.parent) as partial:
        Path(partial, "package.json").write_text(json.dumps({"private": True, "dependencies": FROM_NPM}))
        quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts", "--loglevel=error")
        done = subprocess.run([npm, "install", *quiet], cwd=partial, check=False)
        if done.returncode == 0:
            Path(partial).rename(directory)
            Path(partial).mkdir()  # which is removed
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
