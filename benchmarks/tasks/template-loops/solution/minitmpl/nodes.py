"""What a template consists of, and how it is rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from minitmpl.errors import TemplateError
from minitmpl.expressions import MISSING, Expression


class Node(Protocol):
    def render(self, values: Mapping[str, Any]) -> Iterator[str]: ...


@dataclass(frozen=True)
class Text:
    content: str

    def render(self, values: Mapping[str, Any]) -> Iterator[str]:
        yield self.content


@dataclass(frozen=True)
class Value:
    expression: Expression

    def render(self, values: Mapping[str, Any]) -> Iterator[str]:
        yield str(self.expression.evaluate(values))


@dataclass(frozen=True)
class If:
    condition: Expression
    negated: bool
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]

    def render(self, values: Mapping[str, Any]) -> Iterator[str]:
        chosen = self.body if bool(self.condition.evaluate(values)) != self.negated else self.otherwise
        yield from render_all(chosen, values)


@dataclass(frozen=True)
class Loop:
    """What a template can ask about the loop that it is in."""

    index0: int
    length: int
    parent: Any

    @property
    def index(self) -> int:
        return self.index0 + 1

    @property
    def first(self) -> bool:
        return self.index0 == 0

    @property
    def last(self) -> bool:
        return self.index == self.length


@dataclass(frozen=True)
class For:
    names: tuple[str, ...]
    source: Expression
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    line: int

    def render(self, values: Mapping[str, Any]) -> Iterator[str]:
        items = self._items(values)
        outer = values.get("loop")
        parent = outer if isinstance(outer, Loop) else MISSING
        for index, item in enumerate(items):
            loop = Loop(index, len(items), parent)
            yield from render_all(self.body, {**values, **self._names(item), "loop": loop})
        if not items:
            yield from render_all(self.otherwise, values)

    def _items(self, values: Mapping[str, Any]) -> list[Any]:
        value = self.source.evaluate(values)
        if value is MISSING:
            return []
        if isinstance(value, Mapping) and len(self.names) > 1:
            value = value.items()
        try:
            return list(value)
        except TypeError as error:
            raise TemplateError(f"cannot loop over it: {error}", self.line) from error

    def _names(self, item: Any) -> dict[str, Any]:
        if len(self.names) == 1:
            return {self.names[0]: item}
        try:
            return dict(zip(self.names, item, strict=True))
        except (TypeError, ValueError) as error:
            raise TemplateError(f"cannot be taken apart into {', '.join(self.names)}: {error}", self.line) from error


def render_all(nodes: tuple[Node, ...], values: Mapping[str, Any]) -> Iterator[str]:
    for node in nodes:
        yield from node.render(values)
