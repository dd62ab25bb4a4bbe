"""A CLI that is a Python package, made to run in any glibc image: with its interpreter, and what that loads.

A virtual environment only points at the Python that made it, and that Python needs libraries of this system, of which
an image has few (measured: a bare Debian lacks SQLite's, and Aider does not start). So `portable/` holds all of it: the
interpreter, its standard library, the shared libraries, and a link to the packages of the environment.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, run
from youbencha.sandbox.toolbox.failures import STORAGE
from youbencha.sandbox.toolbox.libraries import Loaded, loaded_by

_PORTABLE = "portable"
_ASK = "import json, sys, sysconfig as s; print(json.dumps([sys.base_prefix, *map(s.get_path, ('stdlib', 'purelib'))]))"
_NOT_NEEDED = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "_tkinter*", "turtledemo", "ensurepip", "config-*", "site-packages",
    "dist-packages", "sitecustomize.py",
)  # fmt: skip
# Not by LD_LIBRARY_PATH: whatever Python starts would load these libraries, too. By `--argv0`, Python takes this very
# script for itself, and so do the Pythons that it starts.
_LAUNCHER = """\
#!/bin/sh
here=$(dirname -- "$0")
exec {loader} --argv0 "$0" --library-path "$here/lib" "$here/bin/python" "$@"
"""


class _Base(NamedTuple):
    """The Python that an environment was made with."""

    interpreter: Path
    prefix: Path
    stdlib: Path
    packages: Path


async def portable_python(directory: Path) -> Path:
    """The Python to start, in the directory of an installed version. Made the first time that it is asked for."""
    python = directory / _PORTABLE / "python"
    if not python.exists():
        try:
            await _make(directory)
        except OSError as error:
            raise YouBenchaError(
                STORAGE,
                f"{directory} cannot be made ready for containers: {error}",
                hint="Make room there, or set YOUBENCHA_TOOLBOX to a directory that you may write to.",
            ) from error
    return python


async def _make(directory: Path) -> None:
    base = await _ask(directory / "venv" / "bin" / "python")
    modules = [path for path in base.stdlib.glob("lib-dynload/*.so") if not path.name.startswith("_tkinter")]
    extensions = [path for path in base.packages.rglob("*.so*") if path.is_file()]
    loaded = await loaded_by([base.interpreter, *modules, *extensions], cwd=directory)
    work = Path(tempfile.mkdtemp(prefix=f".{_PORTABLE}-", dir=directory))
    try:
        await asyncio.to_thread(_fill, work, base, loaded, directory)
        work.chmod(0o755)
        try:
            work.rename(directory / _PORTABLE)
        except OSError:
            if not (directory / _PORTABLE / "python").exists():  # another was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _ask(python: Path) -> _Base:
    lines: list[bytes] = []
    command = Command(argv=(str(python), "-I", "-c", _ASK), cwd=python.parent, env={})
    done = await run(command, limits=Limits(timeout_s=60), on_line=lines.append)
    if done.exit.code != 0 or not lines:
        raise YouBenchaError(
            "AGENT_CANNOT_RUN",
            f"the Python of {python} does not run: {done.output.strip()[-300:]}",
            hint="It was moved or removed. Remove this version from the toolbox, and install it again.",
        )
    prefix, stdlib, packages = map(Path, json.loads(lines[-1]))
    return _Base(python.resolve(), prefix, stdlib, packages)


def _fill(work: Path, base: _Base, loaded: Loaded, directory: Path) -> None:
    stdlib = work / base.stdlib.relative_to(base.prefix)
    shutil.copytree(base.stdlib, stdlib, ignore=_NOT_NEEDED, ignore_dangling_symlinks=True)
    # Debian's Python looks for packages under the second name.
    up = Path(*[".."] * len(stdlib.relative_to(work).parts))
    for name in ("site-packages", "dist-packages"):
        (stdlib / name).symlink_to(up / ".." / base.packages.relative_to(directory), target_is_directory=True)
    (work / "bin").mkdir()
    shutil.copy2(base.interpreter, work / "bin" / "python")
    (work / "lib").mkdir(exist_ok=True)
    for name, path in loaded.libraries.items():
        if not path.is_relative_to(base.packages):  # those are found where they are
            shutil.copy2(path, work / "lib" / name)
    launcher = work / "python"
    launcher.write_text(_LAUNCHER.format(loader=loaded.loader), encoding="utf-8")
    launcher.chmod(0o755)
