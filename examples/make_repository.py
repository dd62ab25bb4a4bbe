"""Create the repository that the examples work on: .repos/tiny-shop, with the branches `main`, `fixed` and `vat-tests`.

Run it once: python3 examples/make_repository.py
Every run creates it again, with the same commits. (It is not checked in: git cannot store a repository in another.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIT = shutil.which("git") or "git"
AUTHOR = {"NAME": "Tiny Shop", "EMAIL": "shop@example.com", "DATE": "2026-01-01T12:00:00+0000"}


def make(where: Path) -> Path:
    repository = where / "tiny-shop"
    shutil.rmtree(repository, ignore_errors=True)
    shutil.copytree(HERE / "tiny-shop", repository, ignore=shutil.ignore_patterns("__pycache__"))
    git(repository, "init", "--quiet", "--initial-branch=main")
    commit(repository, "A shop with a fault")
    git(repository, "checkout", "--quiet", "-b", "fixed")
    shutil.copytree(HERE / "tiny-shop-fixed", repository, dirs_exist_ok=True)
    commit(repository, "A discount is a percentage")
    git(repository, "checkout", "--quiet", "-b", "vat-tests")
    shutil.copytree(HERE / "tiny-shop-vat-tests", repository, dirs_exist_ok=True)
    commit(repository, "Hidden tests of a task")
    git(repository, "checkout", "--quiet", "main")
    return repository


def commit(repository: Path, message: str) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--no-gpg-sign", "-m", message)


def git(repository: Path, *arguments: str) -> None:
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in AUTHOR.items()}
    settings = ("-c", "core.autocrlf=false", "-c", f"core.hooksPath={os.devnull}")
    subprocess.run([GIT, *settings, *arguments], cwd=repository, env={**os.environ, **who}, check=True)


if __name__ == "__main__":
    print(make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / ".repos"))
