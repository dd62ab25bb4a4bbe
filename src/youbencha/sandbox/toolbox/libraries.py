"""Which shared libraries programs load, and which of them any glibc image has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.process import Command, Limits, ProcessStartError, find_executable, run

_LOADED = re.compile(rb"^\s*(\S+) => (/.*) \(0x[0-9a-f]+\)$")
_LOADER = re.compile(rb"^\s*(/\S*/ld-\S+) \(0x[0-9a-f]+\)$")
_TIMEOUT_S = 120.0
OF_GLIBC = frozenset({
    "libanl.so.1", "libc.so.6", "libdl.so.2", "libm.so.6", "libmvec.so.1", "libnss_dns.so.2", "libnss_files.so.2",
    "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libthread_db.so.1", "libutil.so.1",
})  # fmt: skip
"""These must be the image's own: they belong to its loader, and to each other."""
OF_THE_COMPILER = frozenset({"libgcc_s.so.1", "libstdc++.so.6"})
"""Almost every image has these."""


class Loaded(NamedTuple):
    loader: str | None
    libraries: dict[str, Path]
    """By the name that programs ask for, without those of glibc itself."""


async def loaded_by(files: Sequence[Path], *, cwd: Path) -> Loaded:
    """As this computer's loader finds them. What is no program at all loads nothing."""
    ldd = find_executable("ldd", {"PATH": "/usr/bin:/bin"})
    if ldd is None:
        raise _no_ldd("there is none on this computer")
    lines: list[bytes] = []
    command = Command(argv=(str(ldd), *map(str, files)), cwd=cwd, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    try:
        await run(command, limits=Limits(timeout_s=_TIMEOUT_S), on_line=lines.append)
    except ProcessStartError as error:
        raise _no_ldd(error.message) from error
    loaders = [found[1].decode() for line in lines if (found := _LOADER.match(line.rstrip()))]
    matches = [match for line in lines if (match := _LOADED.match(line.rstrip()))]
    libraries = {match[1].decode(): Path(match[2].decode()) for match in matches}
    theirs = {name: path for name, path in libraries.items() if name not in OF_GLIBC and not name.startswith("ld-")}
    return Loaded(loaders[0] if loaders else None, theirs)


def _no_ldd(why: str) -> YouBenchaError:
    return YouBenchaError(
        "TOOLBOX_LDD",
        f"what a program loads is asked of `ldd`, and that cannot be run: {why}",
        hint="It comes with the C library of every Linux with glibc. Or use the CLI that the image brings.",
    )
