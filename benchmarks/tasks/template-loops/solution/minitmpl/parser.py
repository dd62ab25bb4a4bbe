"""From tokens to nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from minitmpl.errors import TemplateError
from minitmpl.expressions import parse_expression
from minitmpl.lexer import Token, tokens
from minitmpl.nodes import For, If, Node, Text, Value

_NAME = re.compile(r"[A-Za-z_]\w*")
_FOR = re.compile(r"(?P<names>.+?)\s+in\s+(?P<source>.+)", re.DOTALL)


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
    if name == "for":
        return _parse_for(stream, token, rest.strip())
    raise TemplateError(f"unexpected tag: {token.content!r}", token.line)


def _parse_if(stream: Iterator[Token], opening: Token, condition: str) -> If:
    negated = condition.startswith("not ")
    expression = parse_expression(condition.removeprefix("not ").strip(), opening.line)
    body, otherwise = _parse_branches(stream, opening, "if")
    return If(expression, negated, body, otherwise)


def _parse_for(stream: Iterator[Token], opening: Token, header: str) -> For:
    match = _FOR.fullmatch(header)
    if match is None:
        raise TemplateError(f"expected `for NAME in VALUE`: {opening.content!r}", opening.line)
    names = tuple(name.strip() for name in match["names"].split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            raise TemplateError(f"not a name: {name!r}", opening.line)
    source = parse_expression(match["source"], opening.line)
    body, otherwise = _parse_branches(stream, opening, "for")
    return For(names, source, body, otherwise, opening.line)


def _parse_branches(stream: Iterator[Token], opening: Token, name: str) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What is between the opening tag, `else` (if there is one) and the closing tag."""
    body, end = _parse_until(stream, ("else", f"end{name}"))
    otherwise: tuple[Node, ...] = ()
    if end is not None and end.content == "else":
        otherwise, end = _parse_until(stream, (f"end{name}",))
    if end is None:
        raise TemplateError(f"the {name} is never closed", opening.line)
    return body, otherwise
