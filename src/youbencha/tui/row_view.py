"""A widget of rows: it paints what is visible, and tells the terminal only about rows that have changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from youbencha.tui.rows import BLANK, ScreenRow, Span
from youbencha.tui.themes import Palette

if TYPE_CHECKING:
    from youbencha.tui.app import ScreenApp

_WHEEL_ROWS = 3


class RowView(Widget):
    """Shows rows from `top` on. A subclass says how many there are, and what is in them."""

    app: ScreenApp

    def __init__(self, *, id: str, scrollbar: bool = True) -> None:
        super().__init__(id=id)
        self.top = 0
        self._scrollbar = scrollbar
        self._painted: list[Strip] = []

    # -- for subclasses --------------------------------------------------------------------------------------------

    def count_rows(self) -> int:
        raise NotImplementedError

    def row_at(self, index: int) -> ScreenRow:
        raise NotImplementedError

    def is_selected(self, index: int) -> bool:
        return False

    def background(self, palette: Palette) -> str:
        return palette.background

    def matches(self) -> re.Pattern[str] | None:
        """What is highlighted."""
        return None

    def scrolled(self) -> None:
        """The user scrolled."""

    # -- scrolling -------------------------------------------------------------------------------------------------

    @property
    def last_top(self) -> int:
        return max(0, self.count_rows() - self.size.height)

    def scroll_rows(self, rows: int) -> None:
        self.top = min(max(0, self.top + rows), self.last_top)
        self.scrolled()
        self.repaint()

    def show_rows(self, first: int, last: int) -> None:
        """Scroll as little as possible so that these rows are visible; of a long range, its start."""
        self.top = max(self.top, last - self.size.height + 1)
        self.top = min(max(0, min(self.top, first)), self.last_top)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(_WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-_WHEEL_ROWS)

    def on_resize(self) -> None:
        self.repaint()

    # -- painting --------------------------------------------------------------------------------------------------

    @property
    def text_cells(self) -> int:
        """Columns for text: beside them are the mark of what is selected, and the scrollbar."""
        return _text_cells(self.size.width)

    def repaint(self) -> None:
        """Paint the visible rows again, and refresh those that look different now."""
        self.top = min(self.top, self.last_top)
        before, self._painted = self._painted, list(self._paint())
        if len(before) != len(self._painted):
            self.refresh()
            return
        width = self.size.width
        changed = [y for y, strip in enumerate(self._painted) if strip is not before[y] and strip != before[y]]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        if y < len(self._painted):
            return self._painted[y]
        return Strip.blank(self.size.width, Style(bgcolor=self.background(self.app.palette)))

    def _paint(self) -> Iterator[Strip]:
        width, height = self.size
        rows = self.count_rows()
        thumb = self._thumb(rows, height)
        palette, pattern = self.app.palette, self.matches()
        background = self.background(palette)
        for y in range(height):
            index = self.top + y
            row, selected = (self.row_at(index), self.is_selected(index)) if index < rows else (BLANK, False)
            yield _strip(row, width, palette, palette.raised if selected else background, pattern, selected, y in thumb)

    def _thumb(self, rows: int, height: int) -> range:
        if not self._scrollbar or rows <= height or height == 0:
            return range(0)
        length = max(1, height * height // rows)
        start = (height - length) * self.top // max(1, rows - height)
        return range(start, start + length)


def _text_cells(width: int) -> int:
    """Return how many cells a row has for its text, between the mark of the selection and the scroll bar."""
    return max(1, width - 2)


@lru_cache(maxsize=512)
def _strip(
    row: ScreenRow,
    width: int,
    palette: Palette,
    background: str,
    pattern: re.Pattern[str] | None,
    selected: bool,
    thumb: bool,
) -> Strip:
    """Return a row as it is painted. It is cached, because most rows look the same the next time."""
    base, styles = Style(color=palette.text, bgcolor=background), palette.styles
    left = [Segment("▌" if selected else " ", base + styles["accent"])]
    right = [Segment(text, base + styles[style]) for text, style in row.right]
    room = _text_cells(width) - sum(cell_len(text) for text, _ in row.right)
    spans = row.spans if pattern is None else tuple(_highlighted(row.spans, pattern))
    middle = Strip([Segment(text, base + styles[style]) for text, style in spans])
    strip = Strip([*left, *middle.adjust_cell_length(max(0, room), base), *right])
    edge = Segment("▐" if thumb else " ", base + styles["faint"])
    return Strip([*strip.adjust_cell_length(width - 1, base), edge]).simplify()


class PanelView(RowView):
    """A fixed number of rows around the transcript."""

    rows = 1

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, scrollbar=False)

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return self.rows


def _highlighted(spans: tuple[Span, ...], pattern: re.Pattern[str]) -> Iterator[Span]:
    for text, style in spans:
        end = 0
        for found in pattern.finditer(text):
            yield text[end : found.start()], style
            yield found[0], "match"
            end = found.end()
        yield text[end:], style
