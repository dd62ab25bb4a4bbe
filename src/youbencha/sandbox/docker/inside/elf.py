"""Whether a file is a program that needs nothing but the kernel."""

from __future__ import annotations

import struct
from pathlib import Path

_MACHINES = {"x86_64": 62, "aarch64": 183}
_NEEDS_INTERPRETER = 3


def is_static_program(path: Path, architecture: str) -> bool:
    """An executable of that architecture that names no dynamic linker: most images would not have the same one."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return False
    machine = struct.unpack_from("<H", data, 18)[0]
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, at + i * size)[0] for i in range(count)]
    return machine == _MACHINES.get(architecture, machine) and _NEEDS_INTERPRETER not in kinds
