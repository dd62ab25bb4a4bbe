"""The transcript of a session: entries that are folded and unfolded, found, and followed while they are written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from textual import events
from textual.message import Message

from youbencha.text import plural
from youbencha.tui.row_view import RowView
from youbencha.tui.rows import BLANK, ScreenRow, foldable, folded_at_first, gap_between, lay_out
from youbencha.tui.session import ScreenEntry, ScreenSession


@dataclass(slots=True)
class _Block:
    """The rows of an entry, and what they were made from."""

    entry: ScreenEntry
    version: int
    folded: bool
    rows: list[ScreenRow]


class Layout:
    """The rows of a session, kept up to date: only what has changed is laid out again."""

    def __init__(self, session: ScreenSession, cells: int, is_folded: Callable[[int, ScreenEntry], bool]) -> None:
        self.session = session
        self.cells = cells
        self.first = 0
        """The number of the first entry that is kept."""
        self._is_folded = is_folded
        self._blocks: list[_Block] = []
        self._starts: list[int] = [0]
        """The first row of each entry, and the number of all rows."""
        self._head: list[ScreenRow] = []
        self._version = -1
        """Of the session, when this was last updated."""
        self._spinning: list[int] = []
        """Tool calls that are running: their rows change with the time."""

    def is_stale(self) -> bool:
        """Whether an update would change something."""
        return self.session.version != self._version or bool(self._spinning)

    def update(self, now: float, *, folding: bool = False) -> int:
        """Follow the session; `folding`: entries were folded or unfolded. Returns how many rows are gone at the top."""
        session, blocks = self.session, self._blocks
        if session.version == self._version and not folding:
            for index in self._spinning:
                self._lay_out(index, now)
            return 0
        gone = self._leave_out(session.left_out - self.first) if session.left_out > self.first else 0
        self._version, self._spinning = session.version, []
        for index, (number, entry) in enumerate(session.numbered()):
            spins = entry.state == "running" and entry.kind == "tool"
            if spins:
                self._spinning.append(index)
            block = blocks[index] if index < len(blocks) else None
            if (
                block is None
                or block.version != entry.version
                or spins
                or block.folded != self._is_folded(number, entry)
            ):
                self._lay_out(index, now)
        self._starts = list(accumulate((len(block.rows) for block in blocks), initial=len(self._head)))
        return gone

    def _lay_out(self, index: int, now: float) -> None:
        entries = self.session.entries
        entry = entries[index]
        folded = self._is_folded(self.first + index, entry)
        rows = lay_out(entry, self.cells, folded=folded, now=now)
        if gap_between(entries[index - 1] if index else None, entry):
            rows.insert(0, BLANK)
        self._blocks[index : index + 1] = [_Block(entry, entry.version, folded, rows)]

    def _leave_out(self, entries: int) -> int:
        rows = self._starts[min(entries, len(self._blocks))] - len(self._head)
        del self._blocks[:entries]
        self.first = self.session.left_out
        text = f"… {plural(self.first, 'earlier entry').replace('entrys', 'entries')} not kept here"
        self._head = [ScreenRow(((text, "faint"),)), BLANK]
        return rows

    def __len__(self) -> int:
        return self._starts[-1]

    def row(self, index: int) -> ScreenRow:
        if index < len(self._head):
            return self._head[index]
        block = bisect_right(self._starts, index) - 1
        return self._blocks[block].rows[index - self._starts[block]]

    def entry_at(self, index: int) -> int:
        """The number of the entry at a row."""
        block = min(max(0, bisect_right(self._starts, index) - 1), len(self._blocks) - 1)
        return self.first + block

    def rows_of(self, number: int) -> range:
        """The rows of an entry, without the empty one before it."""
        index = min(max(0, number - self.first), len(self._blocks) - 1)
        if index < 0:
            return range(0)
        start, end = self._starts[index], self._starts[index + 1]
        return range(start + (self._blocks[index].rows[0] is BLANK and end - start > 1), end)

    def entry(self, number: int) -> ScreenEntry | None:
        index = number - self.first
        return self._blocks[index].entry if 0 <= index < len(self._blocks) else None


class TranscriptView(RowView):
    """Shows one session. It follows the end until the user moves away from it."""

    class Moved(Message):
        """The user moved, or folded something."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.following = True
        self.cursor: int | None = None
        """The number of the selected entry; none while the end is followed."""
        self.unseen = 0
        """Entries that were added below what is visible."""
        self.pattern: re.Pattern[str] | None = None
        self._layout: Layout | None = None
        self._folds: dict[tuple[str, int], bool] = {}
        self._all_open: bool | None = None
        self._seen = 0

    # -- the session -----------------------------------------------------------------------------------------------

    def has(self, session: ScreenSession) -> bool:
        return self._layout is not None and self._layout.session is session

    def show(self, session: ScreenSession, now: float, *, follow: bool) -> None:
        """Show another session: from its start, or following its end."""
        self._layout = Layout(session, self.text_cells, self._folded)
        self._layout.update(now)
        self.following, self.cursor = follow, None if follow else session.left_out
        self.top = self.last_top if follow else 0
        self._seen, self.unseen = session.left_out + len(session.entries), 0
        self.repaint()

    def is_stale(self) -> bool:
        return self._layout is not None and self._layout.is_stale()

    def refresh_session(self, now: float) -> None:
        """Show what has been added and changed."""
        layout = self._layout
        if layout is None:
            return
        if layout.cells != self.text_cells:
            self._lay_out_again(now)
            return
        gone = layout.update(now)
        total = layout.session.left_out + len(layout.session.entries)
        if self.following:
            self.top, self._seen, self.unseen = self.last_top, total, 0
        else:
            self.top = max(0, self.top - gone)
            self.unseen = total - self._seen
            self.cursor = max(self.cursor or 0, layout.first)
        self.repaint()

    def _lay_out_again(self, now: float) -> None:
        """For another width; what was at the top stays there."""
        assert self._layout is not None
        at_top = self._layout.entry_at(self.top)
        self._layout = Layout(self._layout.session, self.text_cells, self._folded)
        self._layout.update(now)
        self.top = self.last_top if self.following else min(self._layout.rows_of(at_top).start, self.last_top)
        self.repaint()

    def _folded(self, number: int, entry: ScreenEntry) -> bool:
        assert self._layout is not None
        chosen = self._folds.get((self._layout.session.key, number))
        if chosen is not None:
            return chosen
        return folded_at_first(entry) if self._all_open is None else not self._all_open

    # -- rows ------------------------------------------------------------------------------------------------------

    def count_rows(self) -> int:
        return len(self._layout) if self._layout else 0

    def row_at(self, index: int) -> ScreenRow:
        assert self._layout is not None
        return self._layout.row(index)

    def is_selected(self, index: int) -> bool:
        return self.cursor is not None and self._layout is not None and index in self._layout.rows_of(self.cursor)

    def matches(self) -> re.Pattern[str] | None:
        return self.pattern

    # -- moving ----------------------------------------------------------------------------------------------------

    def scrolled(self) -> None:
        """The end is followed again once it is reached; else the cursor stays among what is visible."""
        layout = self._layout
        if layout is None:
            return
        if self.top >= self.last_top and self.app.can_follow():
            self.follow()
        else:
            self.following = False
            first, last = layout.entry_at(self.top), layout.entry_at(self.top + self.size.height - 1)
            self.cursor = min(max(self.cursor if self.cursor is not None else last, first), last)
        self.post_message(self.Moved())

    def follow(self) -> None:
        self.following, self.cursor, self.unseen = True, None, 0
        if self._layout is not None:
            session = self._layout.session
            self._seen = session.left_out + len(session.entries)
        self.top = self.last_top
        self.post_message(self.Moved())

    def move(self, step: int) -> None:
        """Select the next or previous entry; scroll row by row through one that does not fit."""
        layout = self._layout
        if layout is None or not len(layout):
            return
        if self.cursor is None:
            self.select(layout.entry_at(len(layout) - 1) + min(0, step + 1))
            return
        rows = layout.rows_of(self.cursor)
        bottom = self.top + self.size.height
        if (step > 0 and rows.stop > bottom) or (step < 0 and rows.start < self.top):
            self.scroll_rows(step)
            return
        if step > 0 and layout.entry(self.cursor + 1) is None:
            if self.app.can_follow():
                self.follow()
                self.repaint()
            return
        self.select(self.cursor + step)

    def select(self, number: int) -> None:
        """Select an entry, and scroll to it."""
        layout = self._layout
        if layout is None:
            return
        self.following = False
        self.cursor = max(number, layout.first)
        rows = layout.rows_of(self.cursor)
        if len(rows) < self.size.height:
            self.show_rows(rows.start - (self.cursor == layout.first), rows.stop - 1)
        else:
            self.top = min(rows.start, self.last_top)
        self.repaint()
        self.post_message(self.Moved())

    def go_to_start(self) -> None:
        if self._layout is not None:
            self.top = 0
            self.select(self._layout.first)

    # -- folding ---------------------------------------------------------------------------------------------------

    def toggle(self, number: int | None, now: float) -> None:
        """Fold or unfold an entry, and select it; or the last one that can be, while the end is followed."""
        layout = self._layout
        if layout is None:
            return
        chosen = number if number is not None else self._last_foldable(layout)
        entry = layout.entry(chosen)
        if entry is None or not foldable(entry):
            return
        self._folds[layout.session.key, chosen] = not self._folded(chosen, entry)
        layout.update(now, folding=True)
        if number is not None:
            self.select(number)
        else:
            self.top = self.last_top
            self.repaint()

    def _last_foldable(self, layout: Layout) -> int:
        session = layout.session
        return max((number for number, entry in session.numbered() if foldable(entry)), default=-1)

    def unfold(self, number: int, now: float) -> None:
        layout = self._layout
        if layout is not None and (entry := layout.entry(number)) and foldable(entry) and self._folded(number, entry):
            self._folds[layout.session.key, number] = False
            layout.update(now, folding=True)

    def toggle_all(self, now: float) -> None:
        self._all_open = not self._all_open
        self._folds.clear()
        if self._layout is not None:
            at_top = self._layout.entry_at(self.top)
            self._layout.update(now, folding=True)
            self.top = self.last_top if self.following else min(self._layout.rows_of(at_top).start, self.last_top)
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        if self._layout is None:
            return
        index = self.top + event.y
        if event.x >= self.size.width - 1:
            self.top = self.last_top * event.y // max(1, self.size.height - 1)
            self.scroll_rows(0)
        elif index < len(self._layout):
            self.app.fold(self._layout.entry_at(index))

    def on_resize(self) -> None:
        self.refresh_session(self.app.now())
