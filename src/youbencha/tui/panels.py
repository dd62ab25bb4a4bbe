"""What surrounds the transcript: header, list of sessions, banner and footer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual import events

from youbencha.text import one_line, usd
from youbencha.tui.model import ScreenSession
from youbencha.tui.row_view import RowView
from youbencha.tui.rows import ScreenRow, Span, clean, clock, fit, spinner
from youbencha.tui.themes import Palette

_BAR_CELLS = 8
_GAP = "   "
_STATE_MARKS = {"ok": "✓", "error": "✗", "warning": "!", "unknown": "·"}


class Figure(NamedTuple):
    """A part of the header; the least important are left out if there is no room."""

    spans: tuple[Span, ...]
    rank: int

    @property
    def cells(self) -> int:
        return sum(cell_len(text) for text, _ in self.spans)


def fitting(figures: Sequence[Figure], cells: int) -> tuple[Span, ...]:
    """The most important figures that fit, in their order."""
    kept = list(figures)
    while kept and sum(each.cells + len(_GAP) for each in kept) - len(_GAP) > cells:
        kept.remove(max(kept, key=lambda each: each.rank))
    spans: list[Span] = []
    for each in kept:
        spans += [(_GAP, "dim"), *each.spans] if spans else each.spans
    return tuple(spans)


class HeaderBar(RowView):
    """Two rows: what runs, where it is and for how long; the model, tokens, cost and context."""

    def __init__(self) -> None:
        super().__init__(id="header", scrollbar=False)

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return 2

    def row_at(self, index: int) -> ScreenRow:
        return self._where() if index == 0 else self._figures()

    def _where(self) -> ScreenRow:
        app = self.app
        right = fitting([*self._places(), Figure((self._mode(),), 0)], self.text_cells - 8)
        room = self.text_cells - sum(cell_len(text) for text, _ in right) - 2
        return ScreenRow(((fit(app.shown_title, room), "strong"),), right)

    def _places(self) -> list[Figure]:
        app, model = self.app, self.app.model
        totals = model.totals(app.now())
        figures = [Figure(((clock(totals.elapsed_s), "text"),), 1)]
        if model.loop is not None:
            number = next((each.number for each in reversed(model.sessions) if each.number), 0)
            most = f"/{model.loop.max_iterations}" if model.loop.max_iterations else ""
            figures.insert(0, Figure((("iteration ", "dim"), (f"{number}{most}", "strong")), 2))
        elif len(model.sessions) > 1 or app.expected:
            ended = sum(each.ended_at is not None for each in model.sessions)
            most = f"/{app.expected}" if app.expected else f"/{len(model.sessions)}"
            figures.insert(0, Figure((("trials ", "dim"), (f"{ended}{most}", "strong")), 2))
        return figures

    def _mode(self) -> Span:
        app = self.app
        if app.finished:
            return " ENDED ", "alert"
        return (" LIVE ", "live") if app.is_live() else (" REVIEW ", "review")

    def _figures(self) -> ScreenRow:
        app = self.app
        totals, session = app.model.totals(app.now()), app.session
        left: list[Figure] = []
        if session is not None and (names := [n for n in (session.backend, session.progress.model) if n]):
            left.append(Figure(((one_line(clean(" · ".join(names)), 60), "text"),), 3))
        right = [
            *_tokens(totals.input_tokens, totals.output_tokens),
            *_cost(totals.cost_usd, app.model.loop.max_cost_usd if app.model.loop else None),
            *(_context(session) if session is not None else ()),
        ]
        shown = fitting([*left, *right], self.text_cells)
        names_cells = cell_len(shown[0][0]) if left and shown and shown[0] == left[0].spans[0] else 0
        return ScreenRow(shown[:1], shown[2:]) if names_cells else ScreenRow((), shown)


def _tokens(given: int | None, written: int | None) -> list[Figure]:
    if given is None and written is None:
        return []
    spans = (("↑ ", "dim"), (short_count(given), "text"), ("  ↓ ", "dim"), (short_count(written), "text"))
    return [Figure(spans, 2)]


def short_count(number: int | None) -> str:
    """`842`, `12.3k`, `1.2M`."""
    if number is None:
        return "?"
    for limit, divisor, unit in ((1_000, 1, ""), (999_950, 1_000, "k"), (999_950_000, 1_000_000, "M")):
        if number < limit:
            return f"{number / divisor:.1f}{unit}".replace(".0", "") if unit else str(number)
    return f"{number / 1e9:.1f}G"


def _cost(spent: float | None, limit: float | None) -> list[Figure]:
    if spent is None and limit is None:
        return []
    style = "text" if limit is None or spent is None else _level(spent / limit)
    shown: list[Span] = [("?" if spent is None else usd(spent), style)]
    if limit is not None:
        shown += [(f" / {usd(limit)} ", "dim"), *_bar((spent or 0) / limit if limit else 1.0)]
    return [Figure(tuple(shown), 1)]


def _context(session: ScreenSession) -> list[Figure]:
    used, window = session.context_tokens, session.context_window
    if used is None:
        return []
    if not window:
        return [Figure((("context ", "dim"), (short_count(used), "text")), 4)]
    share = used / window
    return [Figure((("context ", "dim"), (f"{share:.0%} ", _level(share)), *_bar(share)), 4)]


def _level(share: float) -> str:
    return "error" if share >= 0.95 else "warning" if share >= 0.8 else "text"


def _bar(share: float) -> tuple[Span, Span]:
    full = min(_BAR_CELLS, max(0, round(share * _BAR_CELLS)))
    style = _level(share)
    return ("━" * full, "accent" if style == "text" else style), ("━" * (_BAR_CELLS - full), "faint")


class SessionList(RowView):
    """One row for each session: its mark, number or title, time and cost."""

    def __init__(self) -> None:
        super().__init__(id="sessions")

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return len(self.app.model.sessions)

    def is_selected(self, index: int) -> bool:
        return index == self.app.shown

    def row_at(self, index: int) -> ScreenRow:
        app = self.app
        session = app.model.sessions[index]
        now = app.now()
        running = session.state == "running"
        mark = spinner(now) if running else _STATE_MARKS[session.state]
        took = clock((session.ended_at if session.ended_at is not None else now) - session.started_at)
        cost = session.progress.cost_usd
        right = f" {took:>5}" + (f" {usd(cost):>7}" if cost is not None and self.text_cells > 24 else "")
        number = f"{session.number:>3} " if session.number is not None else ""
        name = session.title or (session.status.replace("_", " ") if session.state != "ok" else "")
        room = self.text_cells - 2 - len(number) - len(right)
        style = "text" if running else "dim"
        spans = ((f"{mark} ", session.state), (number, "strong" if running else "text"))
        return ScreenRow((*spans, (fit(one_line(clean(name), 80), room), style)), ((right, "dim"),))

    def on_click(self, event: events.Click) -> None:
        if self.top + event.y < self.count_rows():
            self.app.show_session(self.top + event.y)

    def follow_selected(self) -> None:
        self.show_rows(self.app.shown, self.app.shown)
        self.repaint()


class Banner(RowView):
    """One row between the transcript and the footer: why the loop waits, what was found, or that there is more."""

    def __init__(self) -> None:
        super().__init__(id="banner", scrollbar=False)

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return 1

    def row_at(self, index: int) -> ScreenRow:
        left, right = self.app.banner()
        room = self.text_cells - sum(cell_len(text) for text, _ in right)
        spans, used = [], 0
        for text, style in left:
            spans.append((fit(text, max(0, room - used)), style))
            used += cell_len(text)
        return ScreenRow(tuple(spans), right)

    def on_click(self) -> None:
        self.app.action_end()


class KeyHint(NamedTuple):
    key: str
    """As it is shown."""
    label: str
    action: str
    rank: int


class FooterBar(RowView):
    """The keys, those that matter most if there is little room. A click on one does the same."""

    def __init__(self) -> None:
        super().__init__(id="footer", scrollbar=False)
        self._hits: list[tuple[range, str]] = []

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return 1

    def row_at(self, index: int) -> ScreenRow:
        hints = list(self.app.hints())
        while hints and sum(len(each.key) + len(each.label) + 3 for each in hints) > self.text_cells + 2:
            hints.remove(max(hints, key=lambda each: each.rank))
        spans: list[Span] = []
        self._hits, x = [], 1
        for each in hints:
            spans += [(each.key, "key"), (f" {each.label}  ", "dim")]
            width = len(each.key) + len(each.label) + 3
            self._hits.append((range(x, x + width - 2), each.action))
            x += width
        return ScreenRow(tuple(spans))

    async def on_click(self, event: events.Click) -> None:
        for cells, action in self._hits:
            if event.x in cells:
                await self.app.run_action(action)


def waiting_text(reason: str, until: float, now: float) -> str:
    """`usage limit: 23:10 left, until 15:00:00`."""
    left = max(0.0, until - now)
    at = time.strftime("%H:%M:%S", time.localtime(until))
    return f"{one_line(clean(reason), 120)}: {clock(left)} left, until {at}"
