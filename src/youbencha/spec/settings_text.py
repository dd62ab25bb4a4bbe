"""A change in the text of a YAML file that touches one entry and not a character beside it.

Written for what people write: blocks of keys. Where a text is of another make (`{a: 1}`, aliases), there is no answer,
or a wrong one: whoever asks has to read the outcome and compare.
"""

from __future__ import annotations

from collections.abc import Sequence

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

_STEP = "  "


def with_entry(text: str, root: Node | None, way: Sequence[str], spelled: str) -> str | None:
    """The text with the entry that `way` leads to; None if it cannot be told where to put it."""
    if root is None:  # nothing there but comments, perhaps
        above = text.rstrip("\n")
        return (above + "\n\n" if above else "") + _block(way, spelled, 0)
    here = root
    for depth, step in enumerate(way):
        entry = _entry(here, step)
        if entry is None:
            return _inserted(text, here, _block(way[depth:], spelled, _column(here)))
        here = entry[1]
    if not isinstance(here, ScalarNode) or here.start_mark.index == here.end_mark.index:
        return None
    return text[: here.start_mark.index] + spelled + text[here.end_mark.index :]


def without_entry(text: str, root: Node | None, way: Sequence[str]) -> str | None:
    """The text without it, and without the keys above it that would then hold nothing."""
    here, chain = root, []
    for step in way:
        entry = _entry(here, step)
        if entry is None:
            return None
        chain.append((here, *entry))
        here = entry[1]
    while len(chain) > 1 and _size(chain[-1][0]) == 1:
        chain.pop()
    parent, key, value = chain[-1]
    if not isinstance(parent, MappingNode) or parent.flow_style:
        return None
    lines = text.splitlines(keepends=True)
    del lines[key.start_mark.line : max(key.start_mark.line, _last_line(value)) + 1]
    return "".join(lines)


def _entry(node: Node | None, step: str) -> tuple[Node, Node] | None:
    if not isinstance(node, MappingNode):
        return None
    return next(((key, value) for key, value in node.value if key.value == step), None)


def _size(node: Node | None) -> int:
    return len(node.value) if isinstance(node, MappingNode) else 0


def _column(node: Node) -> int:
    return int(node.value[0][0].start_mark.column) if isinstance(node, MappingNode) and node.value else 0


def _inserted(text: str, mapping: Node, block: str) -> str | None:
    """Below the last entry of a mapping, not below the comments that follow it: those are about what comes next."""
    if not isinstance(mapping, MappingNode) or mapping.flow_style or not mapping.value:
        return None
    lines = text.splitlines(keepends=True)
    at = _last_line(mapping) + 1
    before = "".join(lines[:at])
    return before + ("" if before.endswith("\n") else "\n") + block + "".join(lines[at:])


def _last_line(node: Node) -> int:
    """A mapping's own end is where the next thing begins, so its last entry is asked."""
    if isinstance(node, MappingNode) and not node.flow_style:
        return max(max(int(key.start_mark.line), _last_line(value)) for key, value in node.value)
    end = node.end_mark
    return int(end.line) - (1 if end.column == 0 and end.line > node.start_mark.line else 0)


def _block(way: Sequence[str], spelled: str, indent: int) -> str:
    first, *rest = way
    start = " " * indent + first + ":"
    return f"{start}\n{_block(rest, spelled, indent + len(_STEP))}" if rest else f"{start} {spelled}\n"
