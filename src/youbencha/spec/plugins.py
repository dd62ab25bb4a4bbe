"""Things that are known by a name: our own from a table, those of others by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Plugins(NamedTuple):
    group: str
    """Of the entry points by which others join."""
    built_in: Mapping[str, str]
    """`module:attribute` by name. Nobody else's replaces one of these, so whoever asks for one need not wait until all
    entry points are read."""

    def names(self) -> list[str]:
        return sorted({*self.built_in, *self._foreign()})

    def find(self, name: str) -> str | None:
        """Where it is: `module:attribute`."""
        return self.built_in.get(name) or self._foreign().get(name)

    def hint(self, name: str) -> str:
        """For whoever wrote a name that there is not."""
        from youbencha.spec.messages import did_you_mean

        names = self.names()
        near = did_you_mean(name, names)
        listed = f"There are: {', '.join(names)}. Install the package that brings yours, or mend the name."
        return f"{near[0].upper()}{near[1:]} {listed}" if near else listed

    def _foreign(self) -> dict[str, str]:
        from importlib.metadata import entry_points  # tens of milliseconds, that few runs need

        return {point.name: point.value for point in entry_points(group=self.group)}


def load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
