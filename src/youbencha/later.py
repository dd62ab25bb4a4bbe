"""Names of a package that are imported when somebody asks for them: what is not used is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_when_asked(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The package's `__getattr__`. `homes` tells in which of its modules a name is found.

    No name may be that of a module: once that was loaded, it would stand in the name's place.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
