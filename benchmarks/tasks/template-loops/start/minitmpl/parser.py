"""From tokens to nodes."""

from __future__ import annotations

from collections.abc import Iterator

from minitmpl.errors import TemplateError
from minitmpl.expressions import parse_expression
from minitmpl.lexer import Token, tokens
from minitmpl.nodes import If, Node, Text, Value


def parse(source: str) -> tuple[Node, ...]:
    nodes, end = _parse_until(tokens(source), ())
    if end is not None:
        raise TemplateError(f"unexpected {end.content}", end.line)
    return nodes


def _parse_until(stream: Iterator[Token], ends: tuple[str, ...]) -> tuple[tuple[Node, ...], Token | None]:
    """Parse up to one of the given tags, which is returned; to the end, if there is none."""
    nodes: list[Node] = []
    for token in stream:
        if token.kind == "text":
            nodes.append(Text(token.content))
        elif token.kind == "value":
            nodes.append(Value(parse_expression(token.content, token.line)))
        elif token.content in ends:
            return tuple(nodes), token
        else:
            nodes.append(_parse_tag(stream, token))
    return tuple(nodes), None


def _parse_tag(stream: Iterator[Token], token: Token) -> Node:
    name, _, rest = token.content.partition(" ")
    if name == "if":
        return _parse_if(stream, token, rest.strip())
    raise TemplateError(f"unexpected tag: {token.content!r}", token.line)


def _parse_if(stream: Iterator[Token], opening: Token, condition: str) -> If:
    negated = condition.startswith("not ")
    expression = parse_expression(condition.removeprefix("not ").strip(), opening.line)
    body, end = _parse_until(stream, ("else", "endif"))
    otherwise: tuple[Node, ...] = ()
    if end is not None and end.content == "else":
        otherwise, end = _parse_until(stream, ("endif",))
    if end is None:
        raise TemplateError("the if is never closed", opening.line)
    return If(expression, negated, body, otherwise)
