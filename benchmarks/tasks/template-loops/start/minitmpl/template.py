"""The template, as its users see it."""

from __future__ import annotations

from typing import Any

from minitmpl.nodes import render_all
from minitmpl.parser import parse


class Template:
    """A parsed template, which can be rendered many times."""

    def __init__(self, source: str) -> None:
        self._nodes = parse(source)

    def render(self, **values: Any) -> str:
        return "".join(render_all(self._nodes, values))
