"""What a template consists of, and how it is rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from minitmpl.expressions import Expression


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


def render_all(nodes: tuple[Node, ...], values: Mapping[str, Any]) -> Iterator[str]:
    for node in nodes:
        yield from node.render(values)
