"""Compiles the C files here into one static program: by the system's C compiler, or by one that comes from PyPI."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError, run
from youbencha.sandbox.docker.inside.elf import is_static_program
from youbencha.sandbox.toolbox.place import partial
from youbencha.sandbox.toolbox.sources.pip import run_pip
from youbencha.sandbox.toolbox.watched import DOWNLOAD_S
from youbencha.workspace.cache import default_cache_dir

_HERE = Path(__file__).parent
_SOURCES = sorted(_HERE.glob("*.c"))
_HEADERS = sorted(_HERE.glob("*.h"))
_OPTIONS = ("-static", "-O2", "-s")
_ZIG = "ziglang"
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}
_KNOWN = ("x86_64", "aarch64")
_COMPILE_S = 1200.0
_REFUSES = 125
"""What the program exits with where it is not the first of a container: so it can be tried out."""

Progress = Callable[[str], None]


async def inside_program(architecture: str, *, progress: Progress, cache_dir: Path | None = None) -> Path:
    """The compiled program for engines of that architecture (as uname tells it). Made by whoever needs it first."""
    architecture = _ALIASES.get(architecture, architecture)
    directory = (cache_dir or default_cache_dir()).absolute() / "inside"
    target = directory / f"inside-{architecture}-{_digest()}"
    if not target.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        progress("compiling the first program of containers (once)")
        await _build(architecture, directory, target, progress)
    return target


def _digest() -> str:
    """Of all that it is made of: what was compiled from other sources is not taken."""
    whole = hashlib.sha256()
    for path in (*_SOURCES, *_HEADERS):
        whole.update(b"%s\0%s\0" % (path.name.encode(), path.read_bytes()))
    return whole.hexdigest()[:16]


async def _build(architecture: str, directory: Path, target: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=directory) as made:
        result = Path(made, "inside")
        said = await _by_system_compiler(architecture, result)
        if not is_static_program(result, architecture):
            said = f"{said}\n{await _by_zig(architecture, directory, result, progress)}"
        if not is_static_program(result, architecture):
            raise _no_compiler(architecture, said)
        result.chmod(0o755)  # the user inside may be another
        result.replace(target)  # in one step: others may be doing the same


async def _by_system_compiler(architecture: str, result: Path) -> str:
    """What it said, if it did not work."""
    if platform.machine() != architecture:
        return f"This computer is not {architecture}."
    for compiler in ("cc", "gcc", "clang"):
        if found := shutil.which(compiler):
            said = await _run(found, *_options(result), cwd=result.parent)
            if said is None and await _works(result):
                return ""
            result.unlink(missing_ok=True)
            return said or f"{compiler} made a program that does not run."
    return "There is no C compiler (cc)."


async def _by_zig(architecture: str, directory: Path, result: Path, progress: Progress) -> str:
    """The compiler is thrown away again: it takes half a gigabyte, and is not needed twice."""
    if architecture not in _KNOWN:
        return f"{_ZIG} is not tried for {architecture}."
    with partial(directory) as place:
        try:
            await run_pip(
                *("install", "--no-input", "--progress-bar=off", "--no-deps", f"--target={place.tree}", _ZIG),
                package=_ZIG,
                label="fetching a C compiler (ziglang)",
                place=place,
                progress=progress,
                timeout_s=DOWNLOAD_S,
            )
        except YouBenchaError as error:
            return error.message
        progress("compiling the first program of containers with ziglang (once; takes a minute or two)")
        said = await _run(
            *(sys.executable, "-m", _ZIG, "cc", "-target", f"{architecture}-linux-musl"),
            *_options(result),
            cwd=result.parent,
            PYTHONPATH=str(place.tree),
            ZIG_GLOBAL_CACHE_DIR=str(place.work),
            ZIG_LOCAL_CACHE_DIR=str(place.work),
        )
    return said or ""


def _options(result: Path) -> tuple[str, ...]:
    return (*_OPTIONS, "-o", str(result), *map(str, _SOURCES))


async def _works(program: Path) -> bool:
    try:
        done = await run(Command((str(program),), program.parent, {}), limits=Limits(timeout_s=_COMPILE_S))
    except ProcessStartError:
        return False
    return done.exit.code == _REFUSES


async def _run(*argv: str, cwd: Path, **env: str) -> str | None:
    """None if it worked; otherwise what it said."""
    done: ProcessResult = await run(
        Command(argv, cwd, {**os.environ, **env}), limits=Limits(timeout_s=_COMPILE_S, output_bytes=65536)
    )
    return None if done.exit.code == 0 else done.output[-2000:]


def _no_compiler(architecture: str, said: str) -> YouBenchaError:
    return YouBenchaError(
        "SANDBOX_NO_COMPILER",
        f"The first program of containers could not be compiled for {architecture}.",
        hint="Install a C compiler with its static libraries (Debian: `apt install gcc libc6-dev`), or let pip reach "
        "a package index that has `ziglang`.",
        context={"output": said},
    )
