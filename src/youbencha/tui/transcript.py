"""The transcript of a session: entries that are folded and unfolded, found, and followed while they are written."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from textual import events
from textual.message import Message

from youbencha.text import format_count
from youbencha.transcript.session import Session, TranscriptEntry
from youbencha.tui.row_view import RowView
from youbencha.tui.rows import BLANK, ScreenRow, foldable, folded_at_first, gap_between, lay_out, visible_entries


@dataclass(slots=True)
class _Block:
    """The rows of an entry, and what they were made from."""

    entry: TranscriptEntry
    version: int
    folded: bool
    rows: list[ScreenRow]


class Layout:
    """The rows of a session, kept up to date: only what has changed is laid out again."""

    def __init__(self, session: Session, cells: int, is_folded: Callable[[TranscriptEntry], bool]) -> None:
        self.session = session
        self.cells = cells
        self.total = 0
        """Entries that were ever here."""
        self._is_folded = is_folded
        self._blocks: list[_Block] = []
        self._starts: list[int] = [0]
        """The first row of each entry, and the number of all rows."""
        self._head: list[ScreenRow] = []
        self._version = -1
        """The session's version when this was last updated."""
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
                self._lay_out(index, blocks[index].entry, now)
            return 0
        entries = visible_entries(session)
        gone = self._leave_out(entries[0].id if entries else 0)
        self._version, self._spinning = session.version, []
        for index, entry in enumerate(entries):
            spins = entry.state == "running" and entry.kind == "tool"
            if spins:
                self._spinning.append(index)
            block = blocks[index] if index < len(blocks) else None
            self.total += block is None
            if block is None or block.version != entry.version or spins or block.folded != self._is_folded(entry):
                self._lay_out(index, entry, now)
        self._starts = list(accumulate((len(block.rows) for block in blocks), initial=len(self._head)))
        return gone

    def _lay_out(self, index: int, entry: TranscriptEntry, now: float) -> None:
        folded = self._is_folded(entry)
        rows = lay_out(entry, self.cells, folded=folded, now=now)
        if gap_between(self._blocks[index - 1].entry if index else None, entry):
            rows.insert(0, BLANK)
        self._blocks[index : index + 1] = [_Block(entry, entry.version, folded, rows)]

    def _leave_out(self, first: int) -> int:
        """Remove the blocks of entries before the one with this id."""
        if not self.session.left_out:
            return 0
        blocks = bisect_left(self._blocks, first, key=lambda block: block.entry.id)
        rows = self._starts[blocks] - len(self._head)
        del self._blocks[:blocks]
        noun = "entry" if self.session.left_out == 1 else "entries"
        text = f"… {format_count(self.session.left_out)} earlier {noun} not kept here"
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
        """The id of the entry at a row."""
        return self._id(bisect_right(self._starts, index) - 1)

    def neighbour(self, entry_id: int, step: int) -> int | None:
        """The id of the next or previous entry, if there is one."""
        index = self._index(entry_id) + step
        return self._blocks[index].entry.id if 0 <= index < len(self._blocks) else None

    def first(self) -> int:
        """The id of the first entry that is kept."""
        return self._id(0)

    def _id(self, index: int) -> int:
        return self._blocks[min(max(0, index), len(self._blocks) - 1)].entry.id if self._blocks else 0

    def _index(self, entry_id: int) -> int:
        return bisect_left(self._blocks, entry_id, key=lambda block: block.entry.id)

    def entry_rows(self, entry_id: int) -> range:
        """The rows of an entry, without the empty one before it."""
        index = min(self._index(entry_id), len(self._blocks) - 1)
        if index < 0:
            return range(0)
        start, end = self._starts[index], self._starts[index + 1]
        return range(start + (self._blocks[index].rows[0] is BLANK and end - start > 1), end)

    def entry(self, entry_id: int) -> TranscriptEntry | None:
        index = self._index(entry_id)
        entry = self._blocks[index].entry if index < len(self._blocks) else None
        return entry if entry is not None and entry.id == entry_id else None

    def last_foldable(self) -> int:
        return max((block.entry.id for block in self._blocks if foldable(block.entry)), default=-1)


class TranscriptView(RowView):
    """Shows one session. It follows the end until the user moves away from it."""

    class Moved(Message):
        """The user moved, or folded something."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.following = True
        self.cursor: int | None = None
        """The id of the selected entry; none while the end is followed."""
        self.unseen = 0
        """Entries that were added below what is visible."""
        self.pattern: re.Pattern[str] | None = None
        self._layout: Layout | None = None
        self._folds: dict[int, bool] = {}
        self._all_open: bool | None = None
        self._seen = 0

    # -- the session -----------------------------------------------------------------------------------------------

    def has(self, session: Session) -> bool:
        return self._layout is not None and self._layout.session is session

    def show(self, session: Session, now: float, *, follow: bool) -> None:
        """Show another session: from its start, or following its end."""
        self._layout = Layout(session, self.text_cells, self._folded)
        self._layout.update(now)
        self.following, self.cursor = follow, None if follow else self._layout.first()
        self._seen, self.unseen = self._layout.total, 0
        self.jump(self.last_top if follow else 0)
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
        total = layout.total
        if self.following:
            self._seen, self.unseen = total, 0
            self.jump(self.last_top)
        else:
            self.jump(self.top - gone)
            self.unseen = total - self._seen
            self.cursor = max(self.cursor or 0, layout.first())
        self.repaint()

    def _lay_out_again(self, now: float) -> None:
        """For another width; what was at the top stays there."""
        assert self._layout is not None
        at_top = self._layout.entry_at(self.top)
        self._layout = Layout(self._layout.session, self.text_cells, self._folded)
        self._layout.update(now)
        self.jump(self.last_top if self.following else self._layout.entry_rows(at_top).start)
        self.repaint()

    def _folded(self, entry: TranscriptEntry) -> bool:
        chosen = self._folds.get(entry.id)
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
        return self.cursor is not None and self._layout is not None and index in self._layout.entry_rows(self.cursor)

    def highlighted(self) -> re.Pattern[str] | None:
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
            self._seen = self._layout.total
        self.jump(self.last_top)
        self.post_message(self.Moved())

    def move(self, step: int) -> None:
        """Select the next or previous entry; scroll row by row through one that does not fit."""
        layout = self._layout
        if layout is None or not len(layout):
            return
        if self.cursor is None:
            self.select(layout.entry_at(len(layout) - 1))
            return
        rows = layout.entry_rows(self.cursor)
        bottom = self.top + self.size.height
        if (step > 0 and rows.stop > bottom) or (step < 0 and rows.start < self.top):
            self.scroll_rows(step)
            return
        target = layout.neighbour(self.cursor, step)
        if target is not None:
            self.select(target)
        elif step > 0 and self.app.can_follow():
            self.follow()
            self.repaint()

    def select(self, entry_id: int) -> None:
        """Select an entry, and scroll to it."""
        layout = self._layout
        if layout is None:
            return
        self.following = False
        self.cursor = max(entry_id, layout.first())
        rows = layout.entry_rows(self.cursor)
        if len(rows) < self.size.height:
            self.show_rows(rows.start - (self.cursor == layout.first()), rows.stop - 1)
        else:
            self.jump(rows.start)
        self.repaint()
        self.post_message(self.Moved())

    def go_to_start(self) -> None:
        if self._layout is not None:
            self.jump(0)
            self.select(self._layout.first())

    # -- folding ---------------------------------------------------------------------------------------------------

    def toggle(self, entry_id: int | None, now: float) -> None:
        """Fold or unfold an entry, and select it; or the last one that can be, while the end is followed."""
        layout = self._layout
        if layout is None:
            return
        chosen = entry_id if entry_id is not None else layout.last_foldable()
        entry = layout.entry(chosen)
        if entry is None or not foldable(entry):
            return
        self._folds[chosen] = not self._folded(entry)
        layout.update(now, folding=True)
        if entry_id is not None:
            self.select(entry_id)
        else:
            self.jump(self.last_top)
            self.repaint()

    def unfold(self, entry_id: int, now: float) -> None:
        layout = self._layout
        if layout is not None and (entry := layout.entry(entry_id)) and foldable(entry) and self._folded(entry):
            self._folds[entry_id] = False
            layout.update(now, folding=True)

    def toggle_all(self, now: float) -> None:
        self._all_open = not self._all_open
        self._folds.clear()
        if self._layout is not None:
            at_top = self._layout.entry_at(self.top)
            self._layout.update(now, folding=True)
            self.jump(self.last_top if self.following else self._layout.entry_rows(at_top).start)
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        index = self.top + event.y
        if self._layout is not None and index < len(self._layout):
            self.app.fold(self._layout.entry_at(index))

    def on_resize(self) -> None:
        self.refresh_session(self.app.now())
