"""Every key and click of the screen, by Textual's pilot."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from opened_screen import Shown, opened
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.widgets import Static

from screen_stories import NOW, START
from youbencha.errors import YouBenchaError
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopWaiting,
    ToolCalled,
)
from youbencha.tui.app import HELP
from youbencha.tui.dialogs import DiffScreen, Help, Question

RUNNING = "python -m pytest -q && ruff check ."


async def test_the_end_of_the_running_iteration_is_shown_first() -> None:
    async with opened() as shown:
        assert shown.app.shown == 2
        assert RUNNING in shown.text().splitlines()[-1] or RUNNING in shown.text()
        assert "LIVE" in shown.text(shown.app.header)
        assert "3/20" in shown.text(shown.app.header)
        assert "12:34" in shown.text(shown.app.header)


@pytest.mark.parametrize(("back", "forth"), [("h", "l"), ("left", "right")])
async def test_iterations_are_browsed_while_one_runs(back: str, forth: str) -> None:
    async with opened() as shown:
        await shown.press(back)
        assert "The week has to start on Monday" in shown.text()
        assert "REVIEW 2" in shown.text(shown.app.header)
        await shown.press(back, back)
        assert "I will read the specification first" in shown.text()
        await shown.press(forth, forth)
        assert RUNNING in shown.text()
        assert "LIVE" in shown.text(shown.app.header)


async def test_j_and_k_select_entries_and_the_end_is_live_again() -> None:
    async with opened() as shown:
        assert shown.selected() == ""
        await shown.press("k")
        assert "Bash" in shown.selected()
        await shown.press("k")
        assert "Edit" in shown.selected()
        assert "REVIEW" in shown.text(shown.app.header)
        await shown.press("up", "down")
        assert "Edit" in shown.selected()
        await shown.press("j", "j")
        assert "LIVE" in shown.text(shown.app.header)


async def test_g_and_shift_g_go_to_the_start_and_the_end() -> None:
    async with opened(size=(80, 16)) as shown:
        await shown.press("g")
        assert "attempt 2" in shown.selected()
        await shown.press("G")
        assert "LIVE" in shown.text(shown.app.header)
        assert RUNNING in shown.text()


async def test_pages() -> None:
    async with opened(size=(80, 14)) as shown:
        last = shown.text()
        await shown.press("pageup")
        assert shown.text() != last
        assert "REVIEW" in shown.text(shown.app.header)
        await shown.press("pagedown")
        assert "LIVE" in shown.text(shown.app.header)


@pytest.mark.parametrize("key", ["enter", "space"])
async def test_a_tool_call_is_unfolded_and_folded(key: str) -> None:
    async with opened() as shown:
        await shown.press("k", "k", "k", "k", "k")
        assert "Read" in shown.selected()
        assert "line 7 of the report" not in shown.text()
        await shown.press(key)
        assert "line 7 of the report" in shown.text()
        await shown.press(key)
        assert "line 7 of the report" not in shown.text()


async def test_enter_at_the_live_end_unfolds_the_last_call_and_still_follows() -> None:
    call = ToolCalled(at=NOW, call_id="last", name="Bash", arguments={"command": "ls", "timeout": 77})
    async with opened() as shown:
        await shown.take(call)
        await shown.press("enter")
        assert "timeout: 77" in shown.text()
        await shown.take(AssistantText(at=NOW, text="the last text"))
        assert "the last text" in shown.text()
        assert "LIVE" in shown.text(shown.app.header)


async def test_a_click_unfolds_an_entry() -> None:
    async with opened() as shown:
        row = next(y for y, line in enumerate(shown.text().splitlines()) if "Grep" in line)
        await shown.pilot.click("#transcript", offset=(8, row))
        await shown.settle()
        assert "timetracker/report.py:12" in shown.text()


async def test_f_unfolds_and_folds_everything() -> None:
    async with opened(size=(120, 60)) as shown:
        await shown.press("g", "f")
        assert "timetracker/report.py:12" in shown.text()
        await shown.press("f")
        assert "timetracker/report.py:12" not in shown.text()


async def test_a_click_in_the_list_shows_an_iteration() -> None:
    async with opened() as shown:
        await shown.pilot.click("#sessions", offset=(5, 0))
        await shown.settle()
        assert shown.app.shown == 0


async def test_the_mouse_wheel_scrolls() -> None:
    async with opened(size=(80, 14)) as shown:
        before = shown.app.transcript.top
        await wheel(shown, MouseScrollUp)
        assert shown.app.transcript.top == before - 3
        assert "REVIEW" in shown.text(shown.app.header)
        await wheel(shown, MouseScrollDown)
        assert "LIVE" in shown.text(shown.app.header)


async def wheel(shown: Shown, turn: type[MouseScrollUp] | type[MouseScrollDown]) -> None:
    view = shown.app.transcript
    view.post_message(turn(view, 5, 5, 0, 0, 0, False, False, False))
    await shown.settle()


async def test_search_goes_through_all_iterations() -> None:
    async with opened() as shown:
        await shown.press("h", "h", "slash", *"isocalendar", "enter")
        assert "1/4" in shown.text(shown.app.banner_row)
        assert shown.app.shown == 1  # thinking, which is unfolded
        assert "isocalendar() is enough" in shown.text()
        await shown.press("n")
        assert shown.app.shown == 2
        assert "isocalendar" in shown.selected()
        await shown.press("n", "n", "n")
        assert shown.app.shown == 1  # from the last to the first
        await shown.press("N")
        assert shown.app.shown == 2
        assert "4/4" in shown.text(shown.app.banner_row)
        await shown.press("escape")
        assert "isocalendar" not in shown.text(shown.app.banner_row)


async def test_a_capital_letter_makes_the_search_exact() -> None:
    async with opened() as shown:
        await shown.press("slash", *"Weeks", "enter")
        assert "1/1" in shown.text(shown.app.banner_row)
        await shown.press("slash", *"zzz", "enter")
        assert "not found: zzz" in shown.text(shown.app.banner_row)


async def test_p_pauses_and_resumes(tmp_path: Path) -> None:
    async with opened(export_to=tmp_path) as shown:
        assert shown.control is not None
        await shown.press("p")
        assert shown.control.paused
        assert "pauses after this iteration" in shown.text(shown.app.banner_row)
        assert "resume" in shown.text(shown.app.footer)
        await shown.take(LoopWaiting(at=NOW, reason="paused by the user", until=NOW, kind="paused"))
        await shown.press("t")
        assert not shown.control.waiting_skipped, "only `p` ends a pause"
        assert "try now" not in shown.text(shown.app.footer)
        await shown.press("e", "slash", *"isocalendar", "enter")
        assert "2/4" in shown.text(shown.app.banner_row), "neither the message nor the pause hides it"
        await shown.press("escape", "p")
        assert not shown.control.paused


@pytest.mark.parametrize("key", ["s", "ctrl+c"])
async def test_stop_asks_first(key: str) -> None:
    async with opened() as shown:
        assert shown.control is not None
        await shown.press(key)
        assert isinstance(shown.app.screen, Question)
        await shown.press("escape")
        assert not shown.control.stop_now.is_set()
        await shown.press(key, "y")
        assert shown.control.stop_now.is_set()
        assert "stopping" in shown.text(shown.app.banner_row)


async def test_ctrl_c_twice_stops() -> None:
    async with opened() as shown:
        assert shown.control is not None
        await shown.press("ctrl+c", "ctrl+c")
        assert shown.control.stop_now.is_set()


async def test_a_wait_has_a_countdown_and_can_be_ended() -> None:
    async with opened() as shown:
        assert shown.control is not None
        await shown.press("t")
        assert not shown.control.waiting_skipped  # nothing to skip
        await shown.take(LoopWaiting(at=NOW, reason="limit " * 30, until=NOW + 1390, kind="usage_limit"))
        assert "23:10 left" in shown.text(shown.app.banner_row), "a long reason does not hide it"
        assert "try now" in shown.text(shown.app.footer)
        shown.time += 10
        await shown.settle()
        assert "23:00 left" in shown.text(shown.app.banner_row)
        await shown.press("t")
        assert shown.control.waiting_skipped


async def test_guidance_for_the_next_prompt() -> None:
    async with opened() as shown:
        assert shown.control is not None
        await shown.press("colon", *"use q, not p", "enter")
        assert shown.control.take_guidance() == ("use q, not p",)
        assert not shown.control.paused
        await shown.press("colon", "x", "escape")
        assert shown.control.take_guidance() == ()


async def test_the_diff_so_far() -> None:
    async with opened() as shown:
        await shown.press("d")
        screen = shown.app.screen
        assert isinstance(screen, DiffScreen)
        rows, title = screen.query_one("#diff"), screen.query_one("#diff-title")
        assert "+def week_of(day: date)" in shown.text(rows)  # type: ignore[arg-type]
        assert "2 files" in shown.text(title)  # type: ignore[arg-type]
        await shown.press("j", "k", "pagedown", "pageup", "right_square_bracket", "left_square_bracket", "G", "g", "r")
        await shown.press("escape")
        assert not isinstance(shown.app.screen, DiffScreen)


async def test_a_diff_that_cannot_be_read_is_explained() -> None:
    async def fail() -> str:
        raise YouBenchaError("CHECKPOINT_FAILED", "the repository was removed")

    async with opened() as shown:
        shown.screen.diff = fail
        await shown.press("d")
        assert "the repository was removed" in shown.text(shown.app.screen.query_one("#diff"))  # type: ignore[arg-type]
        await shown.press("escape")


async def test_export_to_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with opened(export_to=tmp_path / "file") as shown:
        await shown.press("e")
        assert "not written" in shown.text(shown.app.banner_row)


async def test_export_writes_a_new_file_each_time(tmp_path: Path) -> None:
    async with opened(export_to=tmp_path, mask=lambda text: text.replace("Monday", "[masked]")) as shown:
        await shown.press("e", "e")
        first, second = sorted(tmp_path.iterdir())
        assert first.read_text() == second.read_text()
        text = first.read_text()
        assert "1 failed, 13 passed" in text
        assert "Monday" not in text
        assert first.name in shown.text(shown.app.banner_row) or second.name in shown.text(shown.app.banner_row)


async def test_an_export_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with opened(export_to=tmp_path / "file") as shown:
        await shown.press("e")
        assert "not written" in shown.text(shown.app.banner_row)


async def test_help_names_every_key() -> None:
    async with opened() as shown:
        await shown.press("question_mark")
        assert isinstance(shown.app.screen, Help)
        text = str(shown.app.screen.query_one(Static).content)
        for key in ("h l", "j k", "g  G", "/  n  N", "Enter", "space", "PgDn", "Ctrl-C", *"ftpdesTq:"):
            assert key in text
        await shown.press("x")
        assert not isinstance(shown.app.screen, Help)


async def test_themes_are_cycled() -> None:
    async with opened() as shown:
        seen = []
        for _ in range(3):
            await shown.press("T")
            seen.append((shown.app.theme, str(shown.app.transcript.render_line(0)._segments[0].style)))
        assert [name for name, _ in seen] == ["yb-light", "yb-contrast", "yb-dark"]
        assert len({style for _, style in seen}) == 3


async def test_q_asks_while_the_loop_runs() -> None:
    async with opened() as shown:
        assert shown.control is not None
        await shown.press("q", "n")
        assert not shown.control.stop_now.is_set()
        await shown.press("q", "y")
        assert shown.control.stop_now.is_set()
        shown.app.work_ended()
        shown.app.tick()
        assert shown.app._exit


async def test_the_screen_stays_after_the_end_if_asked_to() -> None:
    async with opened(stay=True) as shown:
        await shown.take(LoopEnded(at=NOW, outcome="completed", reason="all gates passed", exit_code=0))
        shown.app.work_ended()
        await shown.settle()
        assert "ENDED" in shown.text(shown.app.header)
        assert "all gates passed" in shown.text()
        await shown.press("h")
        assert shown.app.shown == 1
        await shown.press("q")
        assert shown.app._exit


async def test_a_recording_takes_no_guidance_and_has_no_diff() -> None:
    async with opened(recorded=True) as shown:
        assert "pause" in shown.text(shown.app.footer)
        await shown.press("colon", "d")
        assert (shown.app.asking, len(shown.app.screen_stack)) == ("", 1)
        assert not {"guide", "diff"} & set(shown.text(shown.app.footer).split())


async def test_a_click_on_a_key_in_the_footer() -> None:
    async with opened() as shown:
        await shown.pilot.click("FooterKey")
        await shown.settle()
        assert isinstance(shown.app.screen, Help)


async def test_new_output_is_announced_to_those_who_scrolled_up() -> None:
    async with opened(size=(80, 24)) as shown:
        await shown.press("g")
        top = shown.text()
        await shown.take(*(AssistantText(at=NOW, text=f"more {n}") for n in range(3)))
        assert shown.text().replace("▐", " ").split() == top.replace("▐", " ").split()
        assert "3 new" in shown.text(shown.app.banner_row)
        await shown.pilot.click("#banner", offset=(70, 0))
        await shown.settle()
        assert "more 2" in shown.text()
        assert "LIVE" in shown.text(shown.app.header)


async def test_the_next_iteration_is_followed() -> None:
    async with opened() as shown:
        await shown.take(_ended(3), _started(4), AssistantText(at=NOW, text="the fourth"))
        assert shown.app.shown == 3
        assert "the fourth" in shown.text()
        await shown.press("h")
        await shown.take(_ended(4), _started(5))
        assert shown.app.shown == 2
        await shown.press("G")
        assert shown.app.shown == 4


def _ended(number: int) -> IterationEnded:
    return IterationEnded(
        at=NOW, iteration=number, outcome="completed", reason=None, duration_ms=1, input_tokens=None,
        output_tokens=None, cost_usd=None, files_changed=None,
    )  # fmt: skip


def _started(number: int) -> IterationStarted:
    return IterationStarted(at=NOW, iteration=number, backend="codex", model=None)


async def test_trials_have_no_keys_of_a_loop() -> None:
    async with opened([], loop=False, expected=2) as shown:
        shown.screen.begin("a", "claude-code on shop, trial 1")
        shown.screen.begin("b", "codex on shop, trial 1")
        shown.screen.take("a", AssistantText(at=START, text="from a"))
        shown.screen.take("b", AssistantText(at=START, text="from b"))
        await shown.settle()
        assert "from a" in shown.text()
        assert "pause" not in shown.text(shown.app.footer)
        assert "trials 0/2" in shown.text(shown.app.header)
        await shown.press("p", "t", "colon", "d")
        assert shown.app.screen is shown.app.screen_stack[0]
        shown.screen.end("a", "solved")
        await shown.settle()
        assert "from b" in shown.text()  # the next one that runs is followed
        assert "✓" in shown.text(shown.app.list)


async def test_one_trial_has_no_list() -> None:
    async with opened([ToolCalled(at=NOW, call_id="1", name="Bash", arguments={"command": "ls"})], loop=False) as shown:
        assert "Bash  ls" in shown.text()
        assert shown.app.list.size.width == 0


async def test_keys_are_handled_while_events_stream_in() -> None:
    async with opened() as shown:
        assert shown.control is not None
        presses = 11

        async def stream() -> None:
            for number in range(5000):
                shown.screen.sink(AssistantText(at=NOW, text=f"text {number}"))
                if number % 50 == 0:
                    await asyncio.sleep(0)

        streaming = asyncio.ensure_future(stream())
        for number in range(presses):
            await shown.pilot.press("p")
            assert shown.control.paused == (number % 2 == 0)
        await streaming


async def test_only_rows_that_have_changed_are_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as shown:
        refreshed: list[Region] = []
        monkeypatch.setattr(shown.app.transcript, "refresh", lambda *regions, **_: refreshed.extend(regions))
        shown.app.tick()
        assert refreshed == []  # nothing has happened
        shown.time += 0.1
        shown.app.tick()
        assert [(region.y, region.height) for region in refreshed] == [(_row(shown.text(), RUNNING), 1)]  # the spinner
        refreshed.clear()
        for number in range(1000):
            shown.screen.sink(AssistantTextDelta(at=NOW, text=f"{number} "))
        assert refreshed == []  # folded, and painted with the next tick
        shown.app.tick()
        assert 0 < len(refreshed) <= shown.app.transcript.size.height + 1  # all of it, because it has scrolled


def _row(text: str, words: str) -> int:
    return next(y for y, line in enumerate(text.splitlines()) if words in line)


def test_the_keys_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "screen.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([^`]+)`", page[page.index("## Keys") : page.index("## Limits")]))
    keys = {key for keys, _ in HELP for key in keys.split()}
    assert keys <= documented
