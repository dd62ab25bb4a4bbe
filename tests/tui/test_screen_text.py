"""Text of agents on the screen: nothing in it reaches the terminal as a command, and no layout breaks."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opened_screen import opened
from rich.cells import cell_len
from rich.color import Color, ColorSystem

from screen_stories import NOW
from youbencha.events import (
    AssistantText,
    AssistantThinking,
    EvaluatorFinished,
    Event,
    GuidanceGiven,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    LoopWaiting,
    PhaseStarted,
    SessionStarted,
    ToolCalled,
    ToolReturned,
    TopicPublished,
    UserText,
    WarningRaised,
)
from youbencha.transcript.session import TranscriptEntry
from youbencha.tui.app import has_colours
from youbencha.tui.panels import short_count
from youbencha.tui.rows import clean, fit, lay_out, seconds, wrap
from youbencha.tui.themes import PALETTES, Palette

HOSTILE = (
    "[red]markup[/red] [link=file:///etc/passwd]x[/link] [@click=app.exit]y[/] $error {text} \x1b[2J\x1b[31mred\x1b[0m "
    "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x9b2J \x07\x08 50%\r100% done\n"
    "\u202egnp.exe\u202c \u200b 👩‍👩‍👧‍👦 👍🏽 ❤️ 日本語 e\u0301 \ud800 \U000e0041 \x00 \ttab\n" + "long" * 200
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b[2Jb\x1b(Bc\x1b=d", "abcd"),
        ("10%\r50%\r100%\nnext\r\n", "100%\nnext\n"),
        ("spinner |\r", "spinner |"),
        ("bo\x08old", "bold"),
        ("a\tb", "a   b"),
        ("👩‍👧 👍🏽 ❤️", "👩👧 👍 ❤"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("bell \x07", "bell ␇"),
        ("[red]x[/red]", "[red]x[/red]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text(), st.integers(2, 60))
def test_rows_never_exceed_their_width(text: str, cells: int) -> None:
    line = clean(text).replace("\n", " ")
    for row in wrap(line, cells):
        assert cell_len(row) <= cells
    assert cell_len(fit(line, cells)) <= cells
    assert "\x1b" not in line


@given(st.text(alphabet="ab c日🎉", max_size=200), st.integers(4, 30))
def test_wrapping_loses_only_spaces(text: str, cells: int) -> None:
    assert "".join(wrap(text, cells)).replace(" ", "") == text.replace(" ", "")


def test_wrapped_items_keep_their_indentation() -> None:
    assert wrap("- one two three", 9) == ["- one two", "  three"]
    assert wrap("12. one two", 8) == ["12. one", "    two"]


@example("tool", "\x80", 10, True)
@example("gate", "0\n\x80", 10, True)
@example("gate", "0\n\x80", 10, False)
@given(
    st.sampled_from(("text", "thinking", "user", "tool", "gate", "topic", "guidance", "note", "phase", "end")),
    st.text(),
    st.integers(10, 100),
    st.booleans(),
)
def test_every_entry_fits(kind: str, text: str, cells: int, folded: bool) -> None:
    head = "!" if kind == "note" else text  # the harness's own mark
    entry = TranscriptEntry(kind, 0.0, head, text, {"command": text}, text, "error", 1.0)  # type: ignore[arg-type]
    for row in lay_out(entry, cells, folded=folded, now=2.0):
        assert sum(cell_len(part) for part, _ in (*row.spans, *row.right)) <= cells
        assert not any(unicodedata.category(each) in ("Cc", "Cs") for part, _ in row.spans for each in part)


def hostile_events() -> list[Event]:
    text = HOSTILE
    return [
        LoopStarted(
            at=NOW, loop_id=text, directory=text, backend=text, model=text, max_iterations=None, max_runtime_s=None,
            max_cost_usd=None,
        ),
        IterationStarted(at=NOW, iteration=1, backend=text, model=text, hat=text),
        SessionStarted(at=NOW, session_id=text, model=text, agent_version=text),
        PhaseStarted(at=NOW, phase=text, detail=text),
        UserText(at=NOW, text=text),
        AssistantThinking(at=NOW, text=text),
        AssistantText(at=NOW, text=text),
        ToolCalled(at=NOW, call_id="1", name=text, arguments={text: text, "command": text}),
        ToolReturned(at=NOW, call_id="1", content=text, is_error=True),
        ToolCalled(at=NOW, call_id="2", name=text, arguments={text: [text]}),
        TopicPublished(at=NOW, topic=text, payload=text, source="agent"),
        EvaluatorFinished(at=NOW, evaluator=text, status=text, message=text),
        WarningRaised(at=NOW, code=text, message=text),
        GuidanceGiven(at=NOW, text=text),
        LoopWaiting(at=NOW, reason=text, until=NOW + 5, kind="backoff"),
        LoopEnded(at=NOW, outcome=text, reason=text, exit_code=1),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 60), (10, 5)])
async def test_hostile_text(size: tuple[int, int]) -> None:
    async with opened(hostile_events(), size=size) as shown:
        await shown.press("g")
        for _ in range(2):
            for view in (shown.app.header, shown.app.list, shown.app.transcript, shown.app.banner_row):
                for y in range(view.size.height):
                    strip = view.render_line(y)
                    assert strip.text.isprintable()
                    assert strip.cell_length == view.scrollable_content_region.width
            await shown.press("f")
        if size == (200, 60):
            assert "[red]markup[/red] [link=file:///etc/passwd]x[/link] [@click=app.exit]y[/]" in shown.text()


async def test_hostile_text_in_dialogs_and_search() -> None:
    async with opened(hostile_events(), size=(80, 24)) as shown:
        await shown.press("slash", *"[red]", "enter")
        assert "[red]" in shown.text(shown.app.banner_row)
        await shown.press("slash", *"[/zz", "enter")
        assert "not found" in shown.text(shown.app.banner_row)


async def test_resizing() -> None:
    async with opened(size=(120, 40)) as shown:
        for width, height in ((40, 10), (200, 60), (80, 24), (3, 2), (120, 40)):
            await shown.pilot.resize_terminal(width, height)
            await shown.settle()
            assert "LIVE" in shown.text(shown.app.header) or width < 20
            assert (shown.app.list.size.width > 0) == (width >= 100)
            if width >= 40:
                assert "pytest" in shown.text().rstrip().splitlines()[-1]


async def test_resizing_keeps_the_place() -> None:
    async with opened(size=(120, 16)) as shown:
        await shown.press("g", "j", "j")
        before = shown.selected()
        await shown.pilot.resize_terminal(60, 16)
        await shown.settle()
        assert shown.selected()[:12] == before[:12]


def test_short_figures() -> None:
    numbers = (None, 0, 999, 1_000, 12_345, 999_949, 999_950, 1_234_567)
    assert [short_count(number) for number in numbers] == ["?", "0", "999", "1k", "12.3k", "999.9k", "1M", "1.2M"]
    assert [seconds(took) for took in (0, 9.94, 9.96, 59.4, 59.6, 3723)] == [
        "0.0s", "9.9s", "10s", "59s", "1:00", "1:02:03",
    ]  # fmt: skip


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
def test_backgrounds_stay_grey_with_256_colours(palette: Palette) -> None:
    for colour in (palette.background, palette.panel, palette.raised):
        red, green, blue = Color.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
        assert max(red, green, blue) - min(red, green, blue) < 10


def test_a_python_without_curses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, or in a Python that was built without it: the terminal is assumed to have colours."""
    monkeypatch.setitem(sys.modules, "curses", None)
    assert has_colours()
