"""Rows of styled text that scroll: a `ScrollView` that paints what is visible, and again only what has changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.widget import Widget

from youbencha.tui.rows import BLANK, ScreenRow, Span, fit
from youbencha.tui.themes import Palette

if TYPE_CHECKING:
    from youbencha.tui.app import ScreenApp


_WHEEL_ROWS = 3


class RowView(ScrollView, can_focus=False):
    """Rows, with a mark beside those that are selected. A subclass says how many there are, and what is in them."""

    app: ScreenApp

    DEFAULT_CSS = """
    RowView {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-color: $panel; scrollbar-color-hover: $panel; scrollbar-color-active: $primary;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
    }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
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

    def highlighted(self) -> re.Pattern[str] | None:
        """The words that are highlighted."""
        return None

    def scrolled(self) -> None:
        """Called when the user has scrolled."""

    # -- scrolling -------------------------------------------------------------------------------------------------

    @property
    def top(self) -> int:
        """The first row that is visible."""
        return int(self.scroll_offset.y)

    @property
    def last_top(self) -> int:
        return max(0, self.count_rows() - self.size.height)

    def jump(self, top: int) -> None:
        """Show the rows from this one on."""
        self.virtual_size = Size(self.cells, self.count_rows())
        self.scroll_to(y=min(max(0, top), self.last_top), animate=False, force=True)

    def scroll_rows(self, rows: int) -> None:
        self.jump(self.top + rows)
        self.scrolled()
        self.repaint()

    def show_rows(self, first: int, last: int) -> None:
        """Scroll as little as possible so that these rows are visible; of a long range, its start."""
        self.jump(min(max(self.top, last - self.size.height + 1), first))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll_by_user(event, _WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll_by_user(event, -_WHEEL_ROWS)

    def on_scroll_down(self, message: ScrollDown) -> None:
        self._scroll_by_user(message, self.size.height)

    def on_scroll_up(self, message: ScrollUp) -> None:
        self._scroll_by_user(message, -self.size.height)

    def on_scroll_to(self, message: ScrollTo) -> None:
        self._scroll_by_user(message, round(message.y or 0) - self.top)

    def _scroll_by_user(self, message: Message, rows: int) -> None:
        message.stop()
        message.prevent_default()
        self.scroll_rows(rows)

    def on_resize(self) -> None:
        self.repaint()

    # -- painting --------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> int:
        """Columns without the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def text_cells(self) -> int:
        """Columns for text, beside the mark of what is selected."""
        return max(1, self.cells - 1)

    def repaint(self) -> None:
        """Paint the visible rows again, and refresh those that look different now."""
        if self.virtual_size.height != self.count_rows():
            self.jump(self.top)
        before, self._painted = self._painted, list(self._paint())
        if len(before) != len(self._painted):
            self.refresh()
            return
        width = self.cells
        changed = [y for y, strip in enumerate(self._painted) if strip is not before[y] and strip != before[y]]
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        if y < len(self._painted):
            return self._painted[y]
        return Strip.blank(self.cells, Style(bgcolor=self.background(self.app.palette)))

    def _paint(self) -> Iterator[Strip]:
        width, height = self.cells, self.size.height
        rows, top, pattern, palette = self.count_rows(), self.top, self.highlighted(), self.app.palette
        background = self.background(palette)
        for index in range(top, top + height):
            row, selected = (self.row_at(index), self.is_selected(index)) if index < rows else (BLANK, False)
            yield _strip(row, width, palette, palette.raised if selected else background, pattern, selected)


@lru_cache(maxsize=512)
def _strip(
    row: ScreenRow, width: int, palette: Palette, background: str, pattern: re.Pattern[str] | None, selected: bool
) -> Strip:
    """Return a row as it is painted. It is cached, because most rows look the same the next time."""
    base = Style(color=palette.text, bgcolor=background)
    styles = palette.styles
    mark = Segment("▌" if selected else " ", base + styles["accent"])
    right = [Segment(text, base + styles[style]) for text, style in row.right]
    room = max(1, width - 1) - sum(cell_len(text) for text, _ in row.right)
    spans = row.spans if pattern is None else tuple(_with_matches(row.spans, pattern))
    middle = Strip([Segment(text, base + styles[style]) for text, style in spans])
    strip = Strip([mark, *middle.adjust_cell_length(max(0, room), base), *right])
    return strip.adjust_cell_length(width, base).simplify()


def _with_matches(spans: tuple[Span, ...], pattern: re.Pattern[str]) -> Iterator[Span]:
    for text, style in spans:
        end = 0
        for match in pattern.finditer(text):
            yield text[end : match.start()], style
            yield match[0], "match"
            end = match.end()
        yield text[end:], style


class Panel(Widget):
    """A fixed number of rows around the transcript. A subclass says what is in them."""

    app: ScreenApp

    DEFAULT_CSS = """
    Panel { height: 1; padding: 0 1; background: $surface; }
    """

    def rows(self) -> Sequence[ScreenRow]:
        raise NotImplementedError

    @property
    def text_cells(self) -> int:
        return max(1, self.size.width)

    def render(self) -> Text:
        return Text("\n").join(row_text(row, self.text_cells, self.app.palette) for row in self.rows())


def row_text(row: ScreenRow, cells: int, palette: Palette) -> Text:
    """The row as text that fills this many cells."""
    right = _fitted(row.right, cells)
    room = cells - sum(cell_len(text) for text, _ in right)
    left = _fitted(row.spans, room)
    gap = " " * (room - sum(cell_len(text) for text, _ in left))
    return Text.assemble(*((text, palette.styles[style]) for text, style in (*left, (gap, "text"), *right)))


def _fitted(spans: Sequence[Span], cells: int) -> list[Span]:
    kept: list[Span] = []
    for text, style in spans:
        kept.append((fit(text, cells), style))
        cells -= cell_len(kept[-1][0])
    return kept
