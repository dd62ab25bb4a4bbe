"""What of an agent's CLI must be seen in a container for it to start there, and how it is started.

A native binary is all that it needs. A script needs its interpreter, and that is never shared as the host has it: over
the image's own `/usr/bin/node` it would change what the task is about.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.catalogue import lookup
from youbencha.sandbox.toolbox.installed import InstalledAgent, read_installed
from youbencha.sandbox.toolbox.libraries import OF_THE_COMPILER, loaded_by
from youbencha.sandbox.toolbox.node import needs_node, require_node
from youbencha.sandbox.toolbox.portable import portable_python
from youbencha.sandbox.toolbox.recipes import Venv

_NODES = ".node"
_FIRST_LINE = 256


class Carried(NamedTuple):
    """Paths are the host's."""

    command: tuple[Path | str, ...]
    """How it is started. What is a path is below one of `needs`."""
    needs: tuple[Path, ...]


async def carry(installed: InstalledAgent, env: Mapping[str, str]) -> Carried:
    """For an agent of the toolbox."""
    directory, executable = installed.directory, installed.executable
    if installed.needs_node:
        node = await _own_node(directory.parent.parent, env)
        return Carried((node, *_options(executable), executable), (directory, node))
    module = next((recipe.module for recipe in lookup(installed.agent).recipes if isinstance(recipe, Venv)), None)
    if module is not None:
        return Carried((await portable_python(directory), "-s", "-P", "-m", module), (directory,))
    return Carried((executable,), (directory,))


async def carry_file(path: Path, root: Path, env: Mapping[str, str]) -> Carried | None:
    """For any other CLI of this computer. None where nobody can tell what it needs.

    `root` is a toolbox: where the copy of Node.js is kept.
    """
    real = path.resolve()
    for directory in real.parents:
        if (of_a_toolbox := read_installed(directory)) and of_a_toolbox.executable.resolve() == real:
            return await carry(of_a_toolbox, env)
    if _first_line(real).startswith(b"\x7fELF"):
        return Carried((real,), (real,))
    package = _npm_package(real)
    if package is not None and (needs_node(real) or b"node" in _first_line(real)):
        node = await _own_node(root, env)
        return Carried((node, *_options(real), real), (package, node))
    return None


def _npm_package(script: Path) -> Path | None:
    """The package that it belongs to; what that depends on lies in there, too, if it was installed for all to use."""
    parents = [parent for parent in script.parents if "node_modules" in (parent.parent.name, parent.parent.parent.name)]
    named = [parent for parent in parents if (parent / "package.json").is_file()]
    return named[-1] if named else None


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_FIRST_LINE).partition(b"\n")[0]


def _options(script: Path) -> list[str]:
    """Of `#!/usr/bin/env -S node --no-warnings`: what stands after the interpreter."""
    words = _first_line(script).removeprefix(b"#!").decode(errors="replace").split()
    at = next((number for number, word in enumerate(words) if Path(word).name == "node"), None)
    return [] if at is None else words[at + 1 :]


async def _own_node(root: Path, env: Mapping[str, str]) -> Path:
    """A copy of this computer's Node.js, at a path that no image has."""
    node = require_node("this agent", env).resolve()
    state = node.stat()
    identity = f"{node} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
    copy = root / _NODES / hashlib.sha256(identity.encode()).hexdigest()[:16] / "node"
    if copy.exists():
        return copy
    loaded = await loaded_by([node], cwd=node.parent)
    if unusual := sorted(loaded.libraries.keys() - OF_THE_COMPILER):
        raise YouBenchaError(
            "NODE_NOT_PORTABLE",
            f"{node} needs libraries that an image need not have: {', '.join(unusual)}",
            hint="Put Node.js as its makers build it on PATH (a distribution's own is in several parts), or use the "
            "CLI that the image brings (`sandbox.agent: image`).",
        )
    try:
        _place(node, copy)
    except OSError:
        return node  # a toolbox that we may not write to: then as it is
    return copy


def _place(node: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=copy.parent)
    os.close(handle)
    work = Path(name)
    try:
        shutil.copyfile(node, work)
        work.chmod(0o755)
        work.replace(copy)
    finally:
        work.unlink(missing_ok=True)
