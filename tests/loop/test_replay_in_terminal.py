"""`ralph replay` in a real terminal."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tmux import terminal
from youbencha.events import (
    AssistantText,
    Event,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    LoopStarted,
    ToolCalled,
    ToolReturned,
)
from youbencha.process import Redactor
from youbencha.transcript.recording import Recorder

RALPH = Path(sysconfig.get_path("scripts")) / "ralph"


def recording(file: Path, happened: list[Event]) -> Path:
    recorder = Recorder(file, Redactor())
    for event in happened:
        recorder(event)
    recorder.close()
    return file


LOOP = LoopStarted(
    at=1000.0,
    loop_id="1",
    directory="/home/me/project",
    backend="claude",
    model="opus",
    max_iterations=2,
    max_runtime_s=None,
    max_cost_usd=None,
)


def ended(number: int, at: float) -> IterationEnded:
    return IterationEnded(
        at=at,
        iteration=number,
        outcome="completed",
        reason=None,
        duration_ms=5000,
        input_tokens=100,
        output_tokens=10,
        cost_usd=0.01,
        files_changed=1,
    )


def session() -> list[Event]:
    events: list[Event] = [LOOP]
    for number in (1, 2):
        at = 1000.0 + number * 100
        events += [
            IterationStarted(iteration=number, backend="claude", model="opus", at=at),
            AssistantText(text=f"I am in iteration {number}.\n10%\r50%\rready\x1b[2J.", at=at + 0.1),
            ToolCalled(call_id=str(number), name="Bash", arguments={"command": f"make test-{number}"}, at=at + 0.2),
            ToolReturned(call_id=str(number), content="12 passed", is_error=False, at=at + 4.2),
            *(AssistantText(text=f"line {number}-{line}", at=at + 4.3) for line in range(60)),
            ended(number, at + 5),
        ]
    return [*events, LoopEnded(at=1300.0, outcome="max_iterations", reason="2 of 2", exit_code=2)]


def test_a_recording_is_watched_scrolled_and_left(tmp_path: Path) -> None:
    file = recording(tmp_path / "recording.jsonl", session())
    with terminal(tmp_path) as pane:
        pane.run("stty", "-g")
        before = pane.wait_for(r"^[0-9a-f:]{40,}")
        pane.run(RALPH, "replay", file.name, "--speed", "max")
        pane.wait_for(r"line 2-59")
        pane.press("g")
        shown = pane.wait_for(r"I am in iteration 2\.")
        assert "ready." in shown  # neither the percentages before it, nor an empty screen
        assert "%" not in shown
        pane.press("h")
        pane.wait_for(r"make test-1 .*4\.0s")
        pane.resize(160, 40)
        pane.wait_for(r"^.{130,}ENDED")
        pane.press("q")
        pane.wait_for(r"^\$$")
        pane.run("stty", "-g")
        after = pane.wait(lambda text: text.count("stty -g") == 2 and text.rstrip().endswith("$"), "stty again")
        states = [line for line in after.splitlines() if line.count(":") > 10]
        assert len(set(states)) == 1
        assert states[0] in before
