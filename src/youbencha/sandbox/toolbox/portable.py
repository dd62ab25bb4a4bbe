"""Make agent CLIs run in containers: the files that a CLI needs there, and its command line.

A native binary needs nothing else. A script needs its interpreter, which is not mounted at its path on the host: over
the image's own `/usr/bin/node`, it would change the task.

A virtual environment only refers to the Python that created it, and that Python needs libraries of this system, of
which an image has few (measured: a bare Debian lacks SQLite's, and Aider does not start). So `portable/` has all of
it: the interpreter, its standard library, the shared libraries, and a link to the packages of the environment.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import replacing
from youbencha.process import Command, Limits, ProcessStartError, find_executable, run
from youbencha.sandbox.toolbox.catalogue import Venv, lookup
from youbencha.sandbox.toolbox.fetch import STORAGE
from youbencha.sandbox.toolbox.installed import InstalledAgent, needs_node, read_installed, require_node

_PORTABLE = "portable"
_NODES = ".node"
_FIRST_LINE = 256
_DESCRIBE = (
    "import json, sys, sysconfig as s; print(json.dumps([sys.base_prefix, *map(s.get_path, ('stdlib', 'purelib'))]))"
)

_NOT_NEEDED = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "_tkinter*", "turtledemo", "ensurepip", "config-*", "site-packages",
    "dist-packages", "sitecustomize.py",
)  # fmt: skip

# Not with LD_LIBRARY_PATH, because programs that Python starts would load these libraries too. With `--argv0`, Python
# regards this script as its executable, and so uses it to start other Pythons.
_LAUNCHER = """\
#!/bin/sh
here=$(dirname -- "$0")
exec {loader} --argv0 "$0" --library-path "$here/lib" "$here/bin/python" "$@"
"""

_LIBRARY_LINE = re.compile(rb"^\s*(\S+) => (/.*) \(0x[0-9a-f]+\)$")
_LOADER_LINE = re.compile(rb"^\s*(/\S*/ld-\S+) \(0x[0-9a-f]+\)$")
_LDD_TIMEOUT_S = 120.0
_GLIBC_LIBRARIES = frozenset({
    "libanl.so.1", "libc.so.6", "libdl.so.2", "libm.so.6", "libmvec.so.1", "libnss_dns.so.2", "libnss_files.so.2",
    "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libthread_db.so.1", "libutil.so.1",
})  # fmt: skip
"""Libraries that must be the image's own, because they depend on its loader and on each other."""
_COMPILER_LIBRARIES = frozenset({"libgcc_s.so.1", "libstdc++.so.6"})
"""Libraries that almost every image has."""


class PortableCli(NamedTuple):
    """A CLI that runs in a container. Paths are those on the host."""

    command: tuple[Path | str, ...]
    """The start of the command line. Each path is below one of `needs`."""
    needs: tuple[Path, ...]
    """What must be mounted in the container."""


async def portable_cli(installed: InstalledAgent, env: Mapping[str, str]) -> PortableCli:
    """Return the portable form of an agent in the toolbox."""
    directory, executable = installed.directory, installed.executable
    if installed.needs_node:
        node = await _own_node(directory.parent.parent, env)
        return PortableCli((node, *_options(executable), executable), (directory, node))
    module = next((recipe.module for recipe in lookup(installed.agent).recipes if isinstance(recipe, Venv)), None)
    if module is not None:
        return PortableCli((await portable_python(directory), "-s", "-P", "-m", module), (directory,))
    return PortableCli((executable,), (directory,))


async def portable_file(path: Path, root: Path, env: Mapping[str, str]) -> PortableCli | None:
    """Return the portable form of any other CLI of this host; None if its requirements cannot be determined.

    `root` is the toolbox for the copy of Node.js.
    """
    real = path.resolve()
    for directory in real.parents:
        if (installed := read_installed(directory)) and installed.executable.resolve() == real:
            return await portable_cli(installed, env)
    if _first_line(real).startswith(b"\x7fELF"):
        return PortableCli((real,), (real,))
    package = _npm_package(real)
    if package is not None and (needs_node(real) or b"node" in _first_line(real)):
        node = await _own_node(root, env)
        return PortableCli((node, *_options(real), real), (package, node))
    return None


def _npm_package(script: Path) -> Path | None:
    """The npm package of a script. In a global installation, it contains its dependencies."""
    parents = [parent for parent in script.parents if "node_modules" in (parent.parent.name, parent.parent.parent.name)]
    named = [parent for parent in parents if (parent / "package.json").is_file()]
    return named[-1] if named else None


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_FIRST_LINE).partition(b"\n")[0]


def _options(script: Path) -> list[str]:
    """The words after the interpreter in `#!/usr/bin/env -S node --no-warnings`."""
    words = _first_line(script).removeprefix(b"#!").decode(errors="replace").split()
    at = next((number for number, word in enumerate(words) if Path(word).name == "node"), None)
    return [] if at is None else words[at + 1 :]


async def _own_node(root: Path, env: Mapping[str, str]) -> Path:
    """Return a copy of this host's Node.js, at a path that no image has."""
    node = require_node("this agent", env).resolve()
    state = node.stat()
    identity = f"{node} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
    copy = root / _NODES / hashlib.sha256(identity.encode()).hexdigest()[:16] / "node"
    if copy.exists():
        return copy
    loaded = await loaded_by([node], cwd=node.parent)
    if unusual := sorted(loaded.libraries.keys() - _COMPILER_LIBRARIES):
        raise YouBenchaError(
            "NODE_NOT_PORTABLE",
            f"{node} needs libraries that an image may not have: {', '.join(unusual)}",
            hint="Put an official build of Node.js on PATH (a distribution's own is split into several libraries), or"
            " use the CLI of the image (`sandbox.agent: image`).",
        )
    try:
        _copy_executable(node, copy)
    except OSError:
        return node  # the toolbox is not writable: use the original
    return copy


def _copy_executable(node: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    with replacing(copy) as partial:
        shutil.copyfile(node, partial)
        partial.chmod(0o755)


class _Base(NamedTuple):
    """The Python that an environment was created with."""

    interpreter: Path
    prefix: Path
    stdlib: Path
    packages: Path


async def portable_python(directory: Path) -> Path:
    """Return the Python to start, in the directory of an installed version. Created at the first call."""
    python = directory / _PORTABLE / "python"
    if not python.exists():
        try:
            await _make(directory)
        except OSError as error:
            raise YouBenchaError(
                STORAGE,
                f"{directory} cannot be prepared for containers: {error}",
                hint="Free some space, or set YOUBENCHA_TOOLBOX to a writable directory.",
            ) from error
    return python


async def _make(directory: Path) -> None:
    base = await _describe(directory / "venv" / "bin" / "python")
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
            if not (directory / _PORTABLE / "python").exists():  # no other process was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _describe(python: Path) -> _Base:
    lines: list[bytes] = []
    command = Command(argv=(str(python), "-I", "-c", _DESCRIBE), cwd=python.parent, env={})
    done = await run(command, limits=Limits(timeout_s=60), on_line=lines.append)
    if done.exit.code != 0 or not lines:
        raise YouBenchaError(
            "AGENT_CANNOT_RUN",
            f"The Python of {python} does not run: {done.output.strip()[-300:]}",
            hint="Python was moved or removed. Remove this version from the toolbox and install it again.",
        )
    prefix, stdlib, packages = map(Path, json.loads(lines[-1]))
    return _Base(python.resolve(), prefix, stdlib, packages)


def _fill(work: Path, base: _Base, loaded: SharedLibraries, directory: Path) -> None:
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


class SharedLibraries(NamedTuple):
    loader: str | None
    libraries: dict[str, Path]
    """Libraries by name, without those of glibc."""


async def loaded_by(files: Sequence[Path], *, cwd: Path) -> SharedLibraries:
    """Return the libraries that programs load, as found by this host's loader. Other files load none."""
    ldd = find_executable("ldd", {"PATH": "/usr/bin:/bin"})
    if ldd is None:
        raise _no_ldd("not found")
    lines: list[bytes] = []
    command = Command(argv=(str(ldd), *map(str, files)), cwd=cwd, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    try:
        await run(command, limits=Limits(timeout_s=_LDD_TIMEOUT_S), on_line=lines.append)
    except ProcessStartError as error:
        raise _no_ldd(error.message) from error
    loaders = [found[1].decode() for line in lines if (found := _LOADER_LINE.match(line.rstrip()))]
    matches = [match for line in lines if (match := _LIBRARY_LINE.match(line.rstrip()))]
    libraries = {match[1].decode(): Path(match[2].decode()) for match in matches}
    theirs = {
        name: path for name, path in libraries.items() if name not in _GLIBC_LIBRARIES and not name.startswith("ld-")
    }
    return SharedLibraries(loaders[0] if loaders else None, theirs)


def _no_ldd(why: str) -> YouBenchaError:
    return YouBenchaError(
        "TOOLBOX_LDD",
        f"Cannot run `ldd`, which lists the libraries of a program: {why}",
        hint="It comes with glibc. You can also use the CLI of the image (`sandbox.agent: image`).",
    )
