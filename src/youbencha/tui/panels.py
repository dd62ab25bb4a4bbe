"""What surrounds the transcript: header, list of sessions and banner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual import events

from youbencha.text import format_clock, format_usd, one_line, plural, time_of_day
from youbencha.transcript.session import Session
from youbencha.tui.row_view import Panel, RowView
from youbencha.tui.rows import STATE_MARKS, ScreenRow, Span, clean, fit, spinner
from youbencha.tui.themes import Palette

_BAR_CELLS = 8
_GAP = "   "


class HeaderFigure(NamedTuple):
    """A part of the header."""

    rank: int
    """The highest are left out first, if there is no room."""
    spans: tuple[Span, ...]
    bar: tuple[Span, ...] = ()
    """Left out before any figure."""

    @property
    def cells(self) -> int:
        return sum(cell_len(text) for text, _ in (*self.spans, *self.bar)) + len(_GAP)


def fitting(figures: Sequence[HeaderFigure], cells: int) -> list[HeaderFigure]:
    """The most important figures that fit, in their order."""
    kept = list(figures)
    if sum(figure.cells for figure in kept) > cells:
        kept = [figure._replace(bar=()) for figure in kept]
    while kept and sum(figure.cells for figure in kept) > cells:
        kept.remove(max(kept, key=lambda figure: figure.rank))
    return kept


def joined(figures: Sequence[HeaderFigure]) -> tuple[Span, ...]:
    return tuple(span for figure in figures for span in ((_GAP, "dim"), *figure.spans, *figure.bar))


class HeaderBar(Panel):
    """Two rows: what runs, where it is and for how long; the model, tokens, cost and context."""

    def rows(self) -> Sequence[ScreenRow]:
        return self._where(), self._figures()

    def _where(self) -> ScreenRow:
        right = joined(fitting([*self._places(), HeaderFigure(0, (self._mode(),))], self.text_cells - 8))
        room = self.text_cells - sum(cell_len(text) for text, _ in right)
        return ScreenRow(((fit(self.app.shown_title, room), "strong"),), right)

    def _places(self) -> list[HeaderFigure]:
        app, model = self.app, self.app.model
        elapsed = HeaderFigure(2, ((format_clock(model.totals(app.now()).elapsed_s), "text"),))
        if model.loop is not None:
            number = next((session.number for session in reversed(model.sessions) if session.number), 0)
            most = f"/{model.loop.max_iterations}" if model.loop.max_iterations else ""
            return [HeaderFigure(1, (("iteration ", "dim"), (f"{number}{most}", "strong"))), elapsed]
        if len(model.sessions) > 1 or app.source.expected:
            states = [session.ended_at is not None for session in model.sessions if session.key]
            trials = f"{sum(states)}/{app.source.expected or len(states)}"
            return [HeaderFigure(1, (("trials ", "dim"), (trials, "strong"))), elapsed]
        return [elapsed]

    def _mode(self) -> Span:
        app = self.app
        if app.finished:
            return " ENDED ", "alert"
        if app.is_live():
            return " LIVE ", "live"
        other = app.session.number if app.session is not None and app.shown < len(app.model.sessions) - 1 else None
        return (" REVIEW " if other is None else f" REVIEW {other} "), "review"

    def _figures(self) -> ScreenRow:
        app, session = self.app, self.app.session
        totals = app.model.totals(app.now())
        figures = [
            *_tokens(totals.input_tokens, totals.output_tokens),
            *_cost(totals.cost_usd, app.model.loop.max_cost_usd if app.model.loop else None),
            *([HeaderFigure(5, (("own figures", "dim"),))] if totals.own_figures else ()),
            *(_context(session) if session is not None else ()),
            *(_quota(session.quota) if session is not None else ()),
        ]
        names = _names(session) if session is not None else ""
        right = joined(fitting(figures, self.text_cells - min(cell_len(names), self.text_cells // 3)))
        room = self.text_cells - sum(cell_len(text) for text, _ in right)
        return ScreenRow(((fit(names, room), "text"),), right)


def _names(session: Session) -> str:
    """Backend and model, without saying `claude` twice."""
    backend, model = session.backend, session.progress.model
    if backend and model:
        model = model.removeprefix(f"{backend}-")
    return one_line(clean(" · ".join(name for name in (backend, model) if name)), 60)


def _tokens(given: int | None, written: int | None) -> list[HeaderFigure]:
    if given is None and written is None:
        return []
    return [
        HeaderFigure(3, (("↑ ", "dim"), (short_count(given), "text"), ("  ↓ ", "dim"), (short_count(written), "text")))
    ]


def short_count(number: int | None) -> str:
    """`842`, `12.3k`, `1.2M`."""
    if number is None:
        return "?"
    for limit, divisor, unit in ((1_000, 1, ""), (999_950, 1_000, "k"), (999_950_000, 1_000_000, "M")):
        if number < limit:
            return f"{number / divisor:.1f}{unit}".replace(".0", "") if unit else str(number)
    return f"{number / 1e9:.1f}G"


def _cost(spent: float | None, limit: float | None) -> list[HeaderFigure]:
    if spent is None and limit is None:
        return []
    shown = "?" if spent is None else format_usd(spent)
    if limit is None:
        return [HeaderFigure(1, ((shown, "text"),))]
    share = (spent or 0) / limit if limit else 1.0
    return [HeaderFigure(1, ((shown, _level(share)), (f" / {format_usd(limit)}", "dim")), _bar(share))]


def _context(session: Session) -> list[HeaderFigure]:
    used, window = session.context_tokens, session.context_window
    if used is None:
        return []
    if not window:
        return [HeaderFigure(2, (("context ", "dim"), (short_count(used), "text")))]
    share = used / window
    return [HeaderFigure(2, (("context ", "dim"), (f"{share:.0%}", _level(share))), _bar(share))]


def _quota(share: float | None) -> list[HeaderFigure]:
    return [] if share is None else [HeaderFigure(4, (("quota ", "dim"), (f"{share:.0%}", _level(share))))]


def _level(share: float) -> str:
    return "error" if share >= 0.95 else "warning" if share >= 0.8 else "text"


def _bar(share: float) -> tuple[Span, Span]:
    full = min(_BAR_CELLS, max(0, round(share * _BAR_CELLS)))
    style = _level(share)
    return (f" {'━' * full}", "accent" if style == "text" else style), ("━" * (_BAR_CELLS - full), "faint")


class SessionList(RowView):
    """One row for each session: its mark, number or title, time and cost."""

    # Not an OptionList, which lays out all options again when one changes: with 3,000 trials, 0.2 s for each refresh.

    def background(self, palette: Palette) -> str:
        return palette.panel

    def count_rows(self) -> int:
        return len(self.app.model.sessions)

    def is_selected(self, index: int) -> bool:
        return index == self.app.shown

    def row_at(self, index: int) -> ScreenRow:
        return self._row(self.app.model.sessions[index])

    def _row(self, session: Session) -> ScreenRow:
        now, running = self.app.now(), session.state == "running"
        mark = spinner(now) if running else STATE_MARKS[session.state]
        took = format_clock((session.ended_at if session.ended_at is not None else now) - session.started_at)
        number = f"{session.number:>3} " if session.number is not None else ""
        changed = plural(session.files_changed, "file") if session.files_changed else ""
        name = session.title or (changed if session.state == "ok" else session.status.replace("_", " "))
        name = one_line(clean(name), 80)
        room = self.text_cells - 2 - len(number) - len(f" {took:>5}")
        cost = session.progress.cost_usd
        spent = f" {format_usd(cost):>7}" if cost is not None else ""
        spent = spent if cell_len(name) + len(spent) <= room else ""
        style = "text" if running else "dim"
        spans = ((f"{mark} ", session.state), (number, "strong" if running else "text"))
        return ScreenRow((*spans, (_without_middle(name, room - len(spent)), style)), ((f" {took:>5}{spent}", "dim"),))

    def on_click(self, event: events.Click) -> None:
        if self.top + event.y < self.count_rows():
            self.app.show_session(self.top + event.y)

    def show_selected(self) -> None:
        self.show_rows(self.app.shown, self.app.shown)
        self.repaint()


def _without_middle(name: str, cells: int) -> str:
    """Shorten a name so that its end is seen: trials of one agent differ there."""
    end = name[-(cells // 3) :]
    return name if cell_len(name) <= cells else fit(name, cells - cell_len(end)) + end


class Banner(Panel):
    """One row between the transcript and the footer: why the loop waits, search results, or that there is more."""

    def rows(self) -> Sequence[ScreenRow]:
        return [ScreenRow(*self.app.banner())]

    def on_click(self) -> None:
        self.app.action_end()


def waiting_text(reason: str, until: float, now: float) -> str:
    """`23:10 left, until 15:00:00 · usage limit`. The reason comes last: it may be cut."""
    left = max(0.0, until - now)
    at = time_of_day(until)
    return f"{format_clock(left)} left, until {at} · {one_line(clean(reason), 200)}"
