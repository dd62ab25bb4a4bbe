"""What opens over the transcript: help, a question, and the diff."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from youbencha.errors import YouBenchaError
from youbencha.text import plural
from youbencha.tui.row_view import Panel, RowView
from youbencha.tui.rows import ScreenRow, clean, fit

if TYPE_CHECKING:
    from youbencha.tui.app import ScreenApp


class Question(ModalScreen[str | None]):
    """Asks before something that cannot be undone. The answer is one of the keys, or None."""

    app: ScreenApp

    DEFAULT_CSS = """
    Question { align: center middle; background: $background 60%; }
    Question > Static {
        width: auto; max-width: 100%; height: auto; padding: 1 3; background: $surface; border: round $primary;
    }
    """

    def __init__(self, question: str, consequence: str, answers: dict[str, str]) -> None:
        super().__init__()
        self._question, self._consequence, self._answers = question, consequence, answers

    def compose(self) -> ComposeResult:
        styles = self.app.palette.styles
        text = Text.assemble((self._question, styles["strong"]), "\n", (self._consequence, styles["dim"]), "\n\n")
        for key, meaning in {**self._answers, "esc": "go back"}.items():
            text.append_text(Text.assemble((key, styles["key"]), (f" {meaning}     ", styles["text"])))
        yield Static(text)

    def insist(self) -> None:
        """Ctrl-C at the question is the first answer: stop."""
        self.dismiss(next(iter(self._answers)))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.character in self._answers:
            self.dismiss(event.character)
        elif event.key in ("escape", "n", "q"):
            self.dismiss(None)


class Help(ModalScreen[None]):
    """All keys. Any key closes it."""

    app: ScreenApp

    DEFAULT_CSS = """
    Help { align: center middle; background: $background 60%; }
    Help > Static {
        width: auto; max-width: 100%; height: auto; max-height: 100%; padding: 0 2; background: $surface;
        border: round $primary; overflow-y: auto;
    }
    """

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        styles, width = self.app.palette.styles, max(len(keys) for keys, _ in self._lines)
        parts = [((f"{keys:<{width}}   ", styles["key"]), (f"{text}\n", styles["text"])) for keys, text in self._lines]
        text = Text.assemble(*(part for both in parts for part in both))
        text.rstrip()
        yield Static(text)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(None)

    def on_click(self) -> None:
        self.dismiss(None)


class DiffRows(RowView):
    """A unified diff, in colours."""

    def __init__(self) -> None:
        super().__init__(id="diff")
        self._lines = ["reading the diff …"]
        self.files: list[int] = []
        """The first row of each file."""

    def set_text(self, diff: str) -> None:
        self._lines = diff.splitlines() or ["no changes"]
        self.files = [row for row, line in enumerate(self._lines) if line.startswith("diff --git ")]
        self.jump(0)
        self.repaint()

    def count_rows(self) -> int:
        return len(self._lines)

    def row_at(self, index: int) -> ScreenRow:
        line = fit(clean(self._lines[index][:2000]), self.text_cells)
        style = next((style for start, style in _DIFF_STYLES if line.startswith(start)), "dim")
        return ScreenRow(((line, style),))


_DIFF_STYLES = (
    ("diff --git ", "heading"), ("+++ ", "faint"), ("--- ", "faint"), ("index ", "faint"), ("@@", "hunk"),
    ("+", "added"), ("-", "removed"),
)  # fmt: skip


class DiffTitle(Panel):
    text = "Diff so far"

    def rows(self) -> Sequence[ScreenRow]:
        return [ScreenRow(((self.text, "strong"),), (("j k  space  g G  [ ] file  r reload  esc close", "dim"),))]


class DiffScreen(ModalScreen[None]):
    """The changes so far, over the whole screen."""

    app: ScreenApp

    DEFAULT_CSS = """
    DiffScreen { background: $background; }
    DiffScreen #diff-title { dock: top; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,d,q", "close"),
        Binding("j,down", "scroll(1)"),
        Binding("k,up", "scroll(-1)"),
        Binding("pagedown,space", "page(1)"),
        Binding("pageup,b", "page(-1)"),
        Binding("g,home", "scroll(-1000000000)"),
        Binding("G,end", "scroll(1000000000)"),
        Binding("right_square_bracket", "file(1)"),
        Binding("left_square_bracket", "file(-1)"),
        Binding("r", "reload"),
    ]

    def __init__(self, read: Callable[[], Awaitable[str]]) -> None:
        super().__init__()
        self._read = read
        self._rows, self._title = DiffRows(), DiffTitle(id="diff-title")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._rows

    def on_mount(self) -> None:
        self.action_reload()

    def action_reload(self) -> None:
        self.run_worker(self._load(), exclusive=True)

    async def _load(self) -> None:
        try:
            self._rows.set_text(await self._read())
        except YouBenchaError as error:  # an agent may have removed the repository
            self._rows.set_text(str(error))
        self._title.text = f"Diff so far · {plural(len(self._rows.files), 'file')}"
        self._title.refresh()

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, rows: int) -> None:
        self._rows.scroll_rows(rows)

    def action_page(self, step: int) -> None:
        self._rows.scroll_rows(step * max(1, self._rows.size.height - 1))

    def action_file(self, step: int) -> None:
        """Go to the next or previous file."""
        starts, top = self._rows.files, self._rows.top
        target = (
            next((row for row in starts if row > top), top)
            if step > 0
            else max((row for row in starts if row < top), default=0)
        )
        self._rows.scroll_rows(target - top)
