"""Events of a loop and of trials, as the screen gets them, with times that are always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    ContextUsed,
    EvaluatorFinished,
    Event,
    GuidanceGiven,
    IterationEnded,
    IterationStarted,
    LoopStarted,
    LoopWaiting,
    ModelCalled,
    PhaseStarted,
    SessionStarted,
    ToolCalled,
    ToolReturned,
    ToolStarted,
    TopicPublished,
    UsageReported,
    WarningRaised,
)
from youbencha.tui.screen import Screen

START = 1_790_000_000.0
NOW = START + 754.3
"""What the clock of the screen shows."""


class Story:
    """Events with times that grow."""

    def __init__(self, at: float = START) -> None:
        self.at = at
        self.events: list[Event] = []
        self.calls = 0

    def add(self, kind: type[Event], after: float = 0.5, /, **values: Any) -> None:
        self.at += after
        self.events.append(kind(at=self.at, **values))

    def call(self, name: str, result: str | None, took: float = 0.4, *, error: bool = False, **arguments: Any) -> None:
        """A tool call; without a result, it is still running."""
        self.calls += 1
        call_id = f"call-{self.calls}"
        self.add(ToolStarted, 0.2, call_id=call_id, name=name)
        self.add(ToolCalled, 0.1, call_id=call_id, name=name, arguments=arguments)
        if result is not None:
            self.add(ToolReturned, took, call_id=call_id, content=result, is_error=error)

    def say(self, text: str) -> None:
        half = len(text) // 2
        self.add(AssistantTextDelta, 0.5, text=text[:half])
        self.add(AssistantTextDelta, 0.5, text=text[half:])
        self.add(AssistantText, 0.1, text=text)


FAILURE = """\
============================= test session starts ==============================
collected 14 items

tests/test_report.py ..F...........                                       [100%]

    def test_week_starts_on_monday():
>       assert week_of(date(2026, 3, 1)) == date(2026, 2, 23)
E       AssertionError: assert datetime.date(2026, 3, 1) == datetime.date(2026, 2, 23)

tests/test_report.py:31: AssertionError
1 failed, 13 passed in 0.31s
"""

SOURCE = "\n".join(f"{number:>4}  line {number} of the report" for number in range(1, 121))


def loop_story() -> list[Event]:
    """Two finished iterations, a third that is running a tool."""
    story = Story()
    story.add(
        LoopStarted, 0, loop_id="calm-otter", directory="/src/time-tracker", backend="claude", model="claude-opus-4-5",
        max_iterations=20, max_runtime_s=14400.0, max_cost_usd=5.0,
    )  # fmt: skip
    _iteration(story, 1, "planner")
    story.say(
        "I will read the specification first, and then split the work into tasks.\n\n## Plan\n\n"
        "1. `timetracker/report.py`: weekly report\n2. `timetracker/cli.py`: the command `report --week`"
    )
    story.call("Read", SOURCE, file_path="specs/report.md")
    story.call("Bash", "task-1 created", command='ralph tools task add "weekly report" -p 1')
    story.call("Bash", "published", command='ralph emit plan.ready "2 tasks"')
    story.add(TopicPublished, topic="plan.ready", payload="2 tasks", source="agent")
    _end(story, 1, 61.0, 18_204, 1_930, 0.1312, 1)
    _iteration(story, 2, "builder")
    story.add(AssistantThinking, text="The week has to start on Monday.\nISO weeks do, so isocalendar() is enough.")
    story.call("Read", SOURCE, file_path="timetracker/report.py")
    story.call(
        "Edit", "The file was updated.", file_path="timetracker/report.py",
        old_string="def report(day):\n    ...", new_string="def report(day, *, week=False):\n    first = week_of(day)",
    )  # fmt: skip
    story.call("Bash", FAILURE, 2.1, error=True, command="python -m pytest -q tests/test_report.py")
    story.add(WarningRaised, code="OUTPUT", message="a line that is not JSON was skipped: [red]Warning[/red] …")
    _end(story, 2, 312.0, 402_118, 9_311, 1.2044, 3, outcome="failed", reason="the agent reported an error")
    story.add(GuidanceGiven, 20, text="Weeks start on Monday. Do not change the tests.")
    _iteration(story, 3, "builder", attempt=2)
    story.say("`week_of` returned the day itself on Sundays. I will use `isocalendar()`, which begins on **Monday**.")
    story.call("Grep", "timetracker/report.py:12\ntests/test_report.py:31", pattern="week_of")
    story.call(
        "Edit", "The file was updated.", file_path="timetracker/report.py",
        old_string="    return day", new_string="    return day - timedelta(days=day.isocalendar().weekday - 1)",
    )  # fmt: skip
    story.call("Bash", FAILURE, 2.4, error=True, command="python -m pytest -q tests/test_report.py")
    story.add(AssistantThinking, text="The failure is at the change of the year.\nWeek 1 of 2026 begins in 2025.")
    story.say("One test is left: it covers the change of the year 🎉 (年末). A second opinion, while I look at it:")
    story.add(ToolCalled, call_id="task", name="Task", arguments={"description": "Find code that assumes Sunday"})
    for name, argument in (("Glob", "**/*.py"), ("Grep", "weekday|isoweekday|calendar")):
        story.add(ToolCalled, call_id=name, name=name, arguments={"pattern": argument}, parent="task")
        story.add(ToolReturned, 0.3, call_id=name, content="a.py\nb.py\nc.py", is_error=False, parent="task")
    story.add(AssistantText, text="Only `week_of` does; the calendar of the shell is not used.", parent="task")
    story.add(ToolReturned, 0.4, call_id="task", content="Only `week_of` does.", is_error=False)
    story.call("Read", SOURCE, file_path="tests/test_report.py")
    story.call("TodoWrite", "ok", todos=[{"content": "weekly report", "status": "in_progress"}])
    story.say(
        "The year belongs to the week, not to the day:\n\n```python\nyear, week, _ = day.isocalendar()\n```\n\n"
        "- `report --week` prints `2026-W01`\n- days before the first Monday are of the week before"
    )
    story.call("Edit", "The file was updated.", file_path="timetracker/cli.py", old_string="week", new_string="iso")
    story.add(ContextUsed, tokens=86_400, window=200_000)
    story.add(UsageReported, input_tokens=211_930, output_tokens=4_102, cost_usd=0.7119)
    story.at = NOW - 12.4
    story.call("Bash", None, command="python -m pytest -q && ruff check . && mypy --strict timetracker")
    return story.events


def _iteration(story: Story, number: int, hat: str, attempt: int = 1) -> None:
    story.add(IterationStarted, iteration=number, backend="claude", model="claude-opus-4-5", hat=hat, attempt=attempt)
    story.add(SessionStarted, 1.5, session_id=f"s-{number}", model="claude-opus-4-5", agent_version="2.1.30")


def _end(
    story: Story, number: int, took: float, given: int, written: int, cost: float, files: int, *,
    outcome: str = "completed", reason: str | None = None,
) -> None:  # fmt: skip
    story.add(EvaluatorFinished, 2.0, evaluator="tests", status="failed" if reason else "passed", message="14 tests")
    story.at += took
    story.add(
        IterationEnded, iteration=number, outcome=outcome, reason=reason, duration_ms=int(took * 1000),
        input_tokens=given, output_tokens=written, cost_usd=cost, files_changed=files,
    )  # fmt: skip


def waiting_story() -> list[Event]:
    """The third iteration ended at a usage limit; the loop waits."""
    story = Story(NOW - 3)
    _end(story, 3, 0.0, 211_930, 4_102, 0.7119, 2, outcome="usage_limit", reason="five hour limit")
    story.add(LoopWaiting, 0.1, reason="usage limit (five hour)", until=NOW + 1390, kind="usage_limit")
    return [*loop_story(), *story.events]


def show_trials(screen: Screen) -> None:
    """A matrix of six trials: three have ended, two are running."""
    statuses = ("solved", "unsolved", "infra_error", None, None)
    for number, status in enumerate(statuses):
        agent, trial = ("claude-code" if number % 2 == 0 else "codex"), number // 2 + 1
        key = f"{agent} · bench-time-tracker · trial {trial}"
        screen.begin(key, key)
        session = screen.model.sessions[-1]
        session.started_at = NOW - 300 + 50 * number
        story = Story(session.started_at)
        story.add(PhaseStarted, 0, phase="checkout", detail="bench-time-tracker at v1")
        story.add(PhaseStarted, 1, phase="agent", detail=agent)
        story.add(SessionStarted, session_id="s", model=f"{agent}-model", agent_version="2.1.30")
        story.say("I will run the tests first.")
        story.call("Bash", FAILURE, 2.0, error=True, command="make test")
        story.add(ModelCalled, model="m", status=200, input_tokens=41_200, output_tokens=900, cost_usd=0.031 * trial)
        story.call("Read", SOURCE if status else None, file_path="timetracker/report.py")
        for event in story.events:
            screen.take(key, event)
        if status is not None:
            screen.end(key, status)
            session.ended_at = NOW - 20 + number


DIFF = """\
diff --git a/timetracker/report.py b/timetracker/report.py
index 1b2c3d4..5e6f7a8 100644
--- a/timetracker/report.py
+++ b/timetracker/report.py
@@ -10,6 +10,9 @@ def total(entries):

-def week_of(day):
-    return day
+def week_of(day: date) -> date:
+    \"\"\"The Monday of this week.\"\"\"
+    return day - timedelta(days=day.isocalendar().weekday - 1)

diff --git a/timetracker/cli.py b/timetracker/cli.py
index 2b2c3d4..6e6f7a8 100644
--- a/timetracker/cli.py
+++ b/timetracker/cli.py
@@ -1,3 +1,4 @@
 import argparse
+from timetracker.report import week_of
"""


def many_events(number: int) -> Iterator[Event]:
    """A long session: texts in small pieces, and tool calls."""
    for index in range(number):
        at = START + index / 100
        match index % 10:
            case 0:
                yield ToolCalled(at=at, call_id=str(index), name="Bash", arguments={"command": f"make part-{index}"})
            case 1:
                yield ToolReturned(at=at, call_id=str(index - 1), content=f"built {index}\n" * 20, is_error=False)
            case 9:
                yield AssistantText(at=at, text=f"Part {index} is built; " + "the next one follows. " * 8)
            case _:
                yield AssistantTextDelta(at=at, text="the next one follows. ")
