"""The screen as a Textual app: layout, keys and refresh.

Events are folded when they come (`transcript/model.py`). A timer looks whether something has changed, and repaints only
that.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import time
from collections.abc import Callable
from typing import ClassVar

from rich.console import Console
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Footer, Input, Static

from youbencha.text import format_count, one_line, plural
from youbencha.transcript.model import SearchHit
from youbencha.transcript.session import Session
from youbencha.tui.dialogs import DiffScreen, Help, Question
from youbencha.tui.export import write_transcript
from youbencha.tui.panels import Banner, HeaderBar, SessionList, waiting_text
from youbencha.tui.rows import Span, clean, spinner
from youbencha.tui.screen import Screen
from youbencha.tui.terminal import TerminalOutput, driver_with, has_colours
from youbencha.tui.themes import DARK, PALETTES, Palette
from youbencha.tui.transcript import TranscriptView

REFRESHES_PER_SECOND = 15
NARROW = 100
"""Columns below which the list of sessions is not shown."""

Spans = tuple[Span, ...]


class ScreenApp(App[None]):
    """Shows the model of a `Screen`."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    #header { height: 2; }
    #body { height: 1fr; }
    #sessions { width: 25%; min-width: 34; max-width: 50; }
    #transcript { width: 1fr; }
    #ask { display: none; height: 1; background: $surface; }
    #label { width: auto; padding: 0 0 0 1; color: $primary; text-style: bold; background: $surface; }
    #line { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    #sessions { scrollbar-background: $surface; scrollbar-background-hover: $surface; }
    Footer { background: $surface; }
    .narrow #sessions, .alone #sessions { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit_screen", "quit"),
        Binding("ctrl+q", "quit_screen", show=False, priority=True),
        Binding("s", "stop", "stop"),
        Binding("ctrl+c", "stop", show=False, priority=True),
        Binding("t", "try_now", "try now"),
        Binding("p", "pause", "pause"),
        Binding("p", "resume", "resume"),
        Binding("h,left", "session(-1)", "browse", key_display="h l"),
        Binding("l,right", "session(1)", show=False),
        Binding("slash", "search", "search", key_display="/"),
        Binding("enter,space", "fold", "fold", key_display="⏎"),
        Binding("j,down", "move(1)", "move", key_display="j k"),
        Binding("k,up", "move(-1)", show=False),
        Binding("colon", "guide", "guide", key_display=":"),
        Binding("d", "diff", "diff"),
        Binding("e", "export", "export"),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("g,home", "start", show=False),
        Binding("G,end", "end", show=False),
        Binding("f", "fold_all", show=False),
        Binding("n", "hit(1)", show=False),
        Binding("N", "hit(-1)", show=False),
        Binding("T", "theme", show=False),
        Binding("escape", "leave", show=False),
    ]

    output: TerminalOutput | None = None
    """Set by Textual's own `__init__`, which asks for the class of the driver."""

    def __init__(self, screen: Screen) -> None:
        no_color = os.environ.get("NO_COLOR")
        if not has_colours():
            os.environ["NO_COLOR"] = "1"  # Textual reads it only here
        try:
            super().__init__()
        finally:
            if no_color is None:
                os.environ.pop("NO_COLOR", None)
        self.source, self.model = screen, screen.model
        self.title = screen.title
        self.shown_title = one_line(clean(screen.title), 200)
        self.palette: Palette = DARK
        self.shown = 0
        """The index of the session that is shown."""
        self.finished = False
        self.stopping = False
        self.asking = ""
        self._seen_version = -1
        self._seen_second = -1
        self._words = ""
        self._hits: list[SearchHit] = []
        """The hits of the last search or jump: searching again with each event would take too long."""
        self._message, self._message_until = "", 0.0
        self._leaving = False
        self._available: tuple[bool, ...] = ()
        """Which actions were possible when the footer was drawn."""
        self.header, self.list = HeaderBar(id="header"), SessionList(id="sessions")
        self.transcript, self.banner_row = TranscriptView(), Banner(id="banner")
        self.footer = Footer(show_command_palette=False, compact=True)
        self.line, self.label = Input(id="line", select_on_focus=False), Static("", id="label", markup=False)
        self.ask = Horizontal(self.label, self.line, id="ask")
        self._factory = asyncio.get_running_loop().get_task_factory()
        self._error_text = io.StringIO()
        # Textual's traceback has all variables, secrets included.
        self.error_console = Console(file=self._error_text, width=500)

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        if sys.platform == "win32" or sys.__stderr__ is None:
            return driver
        self.output = TerminalOutput(sys.__stderr__)
        return driver_with(driver, self.output)

    def failure(self) -> str | None:
        """Why the screen failed, if it did."""
        lines = self._error_text.getvalue().split("\n")
        return next((one_line(line) for line in reversed(lines) if line.strip()), None)

    def now(self) -> float:
        return self.source.clock()

    # -- layout ----------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self.header
        with Horizontal(id="body"):
            yield self.list
            yield self.transcript
        yield self.banner_row
        yield self.ask
        yield self.footer

    def on_mount(self) -> None:
        # Textual makes all tasks of the event loop start at once; the work was written for the usual order.
        asyncio.get_running_loop().set_task_factory(self._factory)
        for palette in PALETTES:
            self.register_theme(palette.theme())
        self.theme = self.palette.name
        self.tick()
        self.set_interval(1 / REFRESHES_PER_SECOND, self.tick)

    def on_resize(self, event: events.Resize) -> None:
        self.screen_stack[0].set_class(event.size.width < NARROW, "narrow")

    # -- refreshing ------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session | None:
        """The one that is shown."""
        return self.model.sessions[self.shown] if self.shown < len(self.model.sessions) else None

    def can_follow(self) -> bool:
        """Whether more may be added to the session that is shown."""
        session = self.session
        return session is None or session.ended_at is None or self.shown == len(self.model.sessions) - 1

    def is_live(self) -> bool:
        return self.transcript.following and self.can_follow()

    def tick(self) -> None:
        """Repaint what has changed since the last time; spinners and clocks, too."""
        if self.finished and (self._leaving or not self.source.stay):
            self.exit()
            return
        if self.output is not None and self.output.is_behind:
            return
        if self.output is not None and self.output.dropped:
            self.output.dropped = False
            self.screen.refresh(layout=True)
        now = self.now()
        if self.transcript.following:
            self._follow_sessions()
        if self.transcript.is_stale():
            self.transcript.refresh_session(now)
        if self.model.version != self._seen_version or int(now) != self._seen_second or self._message_until:
            self._seen_version, self._seen_second = self.model.version, int(now)
            self.repaint_panels()
        else:
            self.list.repaint()  # its spinners

    def _follow_sessions(self) -> None:
        """Show the session that runs. Once it has ended, the next one that does; without one, the newest."""
        sessions, session = self.model.sessions, self.session
        if session is None or session.ended_at is not None or not session.key:
            running = (index for index, other in enumerate(sessions) if other.ended_at is None and other.key)
            target = next(running, len(sessions) - 1)
        else:
            target = self.shown
        if sessions and not self.transcript.has(sessions[target]):
            self.show_session(target, follow=True)

    def repaint_panels(self) -> None:
        alone = len(self.model.sessions) <= 1 and self.model.loop is None and not self.source.expected
        self.screen_stack[0].set_class(alone, "alone")
        self.header.refresh()
        self.banner_row.refresh()
        self.list.repaint()
        available = tuple(self.check_action(action, ()) for action in _CONDITIONAL)
        if available != self._available:
            self._available = available
            self.refresh_bindings()

    def show_session(self, index: int, *, follow: bool = False) -> None:
        if not 0 <= index < len(self.model.sessions):
            return
        self.shown = index
        self.transcript.show(self.model.sessions[index], self.now(), follow=follow)
        self.list.show_selected()
        self.repaint_panels()

    def on_transcript_view_moved(self) -> None:
        self.repaint_panels()

    # -- what is said ----------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Show a message for a few seconds."""
        self._message, self._message_until = text, time.monotonic() + _MESSAGE_S  # the clock of a replay may be faster
        self.repaint_panels()

    def banner(self) -> tuple[Spans, Spans]:
        """What the row above the footer says: at the left what matters most now, at the right that there is more."""
        right: Spans = ()
        if not self.is_live():
            unseen = (
                f"{format_count(self.transcript.unseen)} new"
                if self.can_follow() and self.transcript.unseen
                else "follow"
            )
            right = (("  ", "dim"), (f" ↓ {unseen} · G ", "alert"))
        return self._just_said() or self._found() or self._state_text() or self._about_session(), right

    def _just_said(self) -> Spans:
        if self.stopping and not self.finished:
            return (("stopping …", "warning"),)
        if self._message_until > time.monotonic():
            return ((self._message, "text"),)
        self._message_until = 0.0
        return ()

    def _state_text(self) -> Spans:
        model, controls, now = self.model, self.source.controls, self.now()
        if self.finished:
            return (("ended", "strong"), ("  press q to leave", "dim"))
        if controls is not None and controls.paused:
            when = "paused" if model.waiting or self.source.recorded else "pauses after this iteration"
            return ((f"‖ {when}", "warning"), ("   p resume", "dim"))
        if model.waiting is not None and model.waiting.until > now:
            text = waiting_text(model.waiting.reason, model.waiting.until, now)
            return ((f"{spinner(now)} ", "running"), (text, "warning"))
        return ()

    def _found(self) -> Spans:
        if not self._words:
            return ()
        here, hits = self._place(), self._hits
        place = f"{hits.index(here) + 1}/{len(hits)}" if here in hits else str(len(hits))
        return (("/", "key"), (clean(self._words), "text"), (f"   {place}   n next  N previous  esc end", "dim"))

    def _about_session(self) -> Spans:
        session = self.session
        if session is None:
            return (("nothing has happened yet", "dim"),)
        calls = [entry.state for entry in session.entries if entry.kind == "tool"]
        failed = calls.count("error")
        name = f"iteration {session.number}" if session.number is not None else ""
        parts = [
            name,
            one_line(clean(session.title), 60),
            session.status.replace("_", " "),
            plural(len(calls), "tool call") + (f", {failed} failed" if failed else "") if calls else "",
            "" if session.files_changed is None else f"{plural(session.files_changed, 'file')} changed",
        ]
        return ((" · ".join(part for part in parts if part), "dim"),)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Whether a key does something now."""
        controls = None if self.finished else self.source.controls
        match action:
            case "session":
                return len(self.model.sessions) > 1
            case "pause" | "resume":
                return controls is not None and controls.paused == (action == "resume")
            case "try_now":  # the loop waits for something that can be ended
                return controls is not None and not controls.paused and self.model.waiting is not None
            case "guide":
                return controls is not None and not self.source.recorded
            case "diff":
                return self.source.diff is not None
        return True

    # -- moving ----------------------------------------------------------------------------------------------------

    def action_session(self, step: int) -> None:
        target = self.shown + step
        last = len(self.model.sessions) - 1
        if 0 <= target <= last:
            self.show_session(target, follow=target == last)

    def action_move(self, step: int) -> None:
        self.transcript.move(step)

    def action_page(self, step: int) -> None:
        self.transcript.scroll_rows(step * max(1, self.transcript.size.height - 2))

    def action_start(self) -> None:
        self.transcript.go_to_start()

    def action_end(self) -> None:
        """Go to the end; of the newest session, if this one has ended."""
        if self.can_follow():
            self.transcript.follow()
            self.transcript.refresh_session(self.now())
        else:
            self.show_session(len(self.model.sessions) - 1, follow=True)
        self.repaint_panels()

    def fold(self, number: int | None) -> None:
        self.transcript.toggle(number, self.now())

    def action_fold(self) -> None:
        self.fold(self.transcript.cursor)

    def action_fold_all(self) -> None:
        self.transcript.toggle_all(self.now())

    # -- search and guidance: a line of input ----------------------------------------------------------------------

    def action_search(self) -> None:
        self._ask("/")

    def action_guide(self) -> None:
        self._ask(":")

    def _ask(self, what: str) -> None:
        self.asking = what
        self.label.update(_ASKING[what])
        self.line.value = ""
        self.ask.display = True
        self.set_focus(self.line)

    async def on_event(self, event: events.Event) -> None:
        """Handle each key before the next one.

        Textual sends a key to what has the focus when it arrives. Of `:text`, typed at once or under load, all keys but
        the first would be commands.
        """
        if not isinstance(event, events.Key) or len(self.screen_stack) > 1:
            await super().on_event(event)
        elif self.ask.display and event.key not in _ALWAYS:
            await self._edit(event)
        else:
            for action in _APP_KEYS.get(event.key, ()):
                if await self.run_action(action):
                    break

    async def _edit(self, event: events.Key) -> None:
        """Change the line of input."""
        if event.key == "enter":
            self._submit(self.line.value.strip())
        elif event.key == "escape":
            self._close_line()
        elif event.is_printable and event.character:
            self.line.insert_text_at_cursor(event.character)
        else:
            for action in _INPUT_KEYS.get(event.key, ()):
                await self.run_action(action, self.line)

    def _submit(self, value: str) -> None:
        what = self.asking
        self._close_line()
        if what == "/":
            self._search(value)
        elif value and self.source.controls is not None:
            self.source.controls.guide(value)
            self.say("included in the next prompt")

    def _close_line(self) -> None:
        self.ask.display = False
        self.set_focus(None)

    def action_leave(self) -> None:
        """End the search."""
        self._search("")

    def _search(self, words: str) -> None:
        self._words, self._message_until = words, 0.0
        exact = words != words.lower()
        self.transcript.pattern = re.compile(re.escape(words), 0 if exact else re.IGNORECASE) if words else None
        if words and not self._jump(1, here=True):
            self.say(f"not found: {one_line(clean(words), 60)}")
        self.transcript.repaint()
        self.repaint_panels()

    def _place(self) -> SearchHit:
        cursor = self.transcript.cursor
        return SearchHit(self.shown, cursor if cursor is not None else -1)

    def action_hit(self, step: int) -> None:
        if self._words:
            self._jump(step)

    def _jump(self, step: int, *, here: bool = False) -> bool:
        """Go to the next or previous entry that was found, in any session; after the last comes the first."""
        self._hits = hits = self.model.search(self._words)
        if not hits:
            return False
        place = self._place()
        after = [hit for hit in hits if hit > place or (here and hit == place)]
        before = [hit for hit in hits if hit < place]
        hit = (after or hits)[0] if step > 0 else (before or hits)[-1]
        if hit.session != self.shown:
            self.show_session(hit.session)
        self.transcript.unfold(hit.entry, self.now())
        self.transcript.select(hit.entry)
        return True

    # -- control ---------------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        if self.source.controls is not None:
            self.source.controls.pause()
        self.repaint_panels()

    def action_resume(self) -> None:
        if self.source.controls is not None:
            self.source.controls.resume()
            self.say("resumed")

    def action_try_now(self) -> None:
        if self.source.controls is not None:
            self.source.controls.try_now()
            self.say("trying now")

    def action_stop(self) -> None:
        if isinstance(self.screen, Question):
            self.screen.insist()
            return
        if self.finished:
            self.exit()
            return
        what = "loop" if self.source.controls is not None else "run"
        question = f"Still stopping. Abort the {what}?" if self.stopping else f"Stop the {what} now?"
        self._ask_first(Question(question, _STOPPING, {"y": "stop"}), self._stop)

    def _ask_first(self, question: Question, act: Callable[[str | None], None]) -> None:
        if self.source.recorded:
            act("y")
        else:
            self.push_screen(question, act)

    def _stop(self, answer: str | None) -> None:
        if answer is not None and not self.finished:
            self.source.stop(again=self.stopping)
            self.stopping = True
            self.repaint_panels()

    def action_quit_screen(self) -> None:
        if self.finished:
            self.exit()
        if self.finished or isinstance(self.screen, Question):
            return
        what = "loop" if self.source.controls is not None else "run"
        question = Question(f"The {what} has not ended.", _STOPPING, {"y": "stop it, and leave"})
        self._ask_first(question, self._quit)

    def _quit(self, answer: str | None) -> None:
        self._leaving = answer is not None
        self._stop(answer)

    def work_ended(self) -> None:
        """The work has ended: the screen closes, or stays with the final state."""
        self.finished, self._seen_version = True, -1
        self.model.close(self.now())

    # -- the rest --------------------------------------------------------------------------------------------------

    def action_diff(self) -> None:
        if self.source.diff is not None:
            self.push_screen(DiffScreen(self.source.diff))

    def action_export(self) -> None:
        try:
            file = write_transcript(self.source)
        except OSError as error:
            self.say(f"not written: {error}")
        else:
            self.say(f"{file.name} written to {file.parent}")  # the end of a long line is not shown

    def action_theme(self) -> None:
        self.palette = PALETTES[(PALETTES.index(self.palette) + 1) % len(PALETTES)]
        self.theme = self.palette.name
        self.transcript.repaint()
        self.repaint_panels()

    def action_help(self) -> None:
        self.push_screen(Help(HELP))


_MESSAGE_S = 5.0
_STOPPING = "What is running now is ended; what it has done stays."
_CONDITIONAL = ("session", "pause", "resume", "try_now", "guide", "diff")
_ASKING = {"/": "search ", ":": "for the next prompt "}

HELP = [
    ("h l  ← →", "previous, next iteration or trial"),
    ("j k  ↓ ↑", "next, previous entry; scrolls through long ones"),
    ("PgDn PgUp", "scroll by a page"),
    ("g  G", "go to the start; to the end, and follow it"),
    ("Enter  space", "fold or unfold (or click)"),
    ("f", "fold or unfold everything"),
    ("/  n  N", "search all sessions; next, previous"),
    ("p", "pause after this iteration; resume"),
    ("t", "try now, while the loop waits"),
    (":", "guidance for the next prompt"),
    ("d", "the diff so far"),
    ("e", "export all transcripts to a file"),
    ("s  Ctrl-C", "stop now (asks first)"),
    ("T", "theme: dark, light, high contrast"),
    ("q", "quit (asks first, while something runs)"),
]


def _actions_by_key(bindings: list[BindingType]) -> dict[str, list[str]]:
    actions: dict[str, list[str]] = {}
    for binding in bindings:
        assert isinstance(binding, Binding)
        for key in binding.key.split(","):
            actions.setdefault(key, []).append(binding.action)
    return actions


_APP_KEYS, _INPUT_KEYS = _actions_by_key(ScreenApp.BINDINGS), _actions_by_key(Input.BINDINGS)
_ALWAYS = frozenset({"ctrl+c", "ctrl+q"})
"""Keys that are commands even in the line of input."""
