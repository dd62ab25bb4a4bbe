"""How events become what the screen shows. No terminal."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from screen_stories import NOW, START, loop_story, many_events
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    CompletionRefused,
    EvaluatorFinished,
    Event,
    IterationEnded,
    IterationStarted,
    LoopEnded,
    ModelCalled,
    PhaseStarted,
    ProcessEnded,
    ProgressNote,
    RateLimitSeen,
    SessionResult,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    UsageReported,
)
from youbencha.transcript.model import LIVE, Retention, Transcript
from youbencha.transcript.session import MAX_TEXT, Bounds, TranscriptEntry, describe_arguments


def folded(*events: Event) -> Transcript:
    model = Transcript(retention=LIVE)
    for event in events:
        model.take(event)
    return model


def entries(*events: Event) -> list[TranscriptEntry]:
    return folded(*events).sessions[0].entries


def test_a_loop() -> None:
    model = folded(*loop_story())
    assert [(session.number, session.title, session.state) for session in model.sessions] == [
        (1, "planner", "ok"),
        (2, "builder", "error"),
        (3, "builder", "running"),
    ]
    totals = model.totals(NOW)
    assert totals.elapsed_s == pytest.approx(754.3)
    assert totals.input_tokens == 18_204 + 402_118 + 211_930
    assert totals.cost_usd == pytest.approx(0.1312 + 1.2044 + 0.7119)
    assert model.sessions[2].context_window == 200_000


def test_an_iteration_that_was_killed_has_ended_when_the_loop_continues() -> None:
    model = Transcript()
    for event in loop_story():
        model.take(event)
    *_, killed = model.sessions
    assert (killed.number, killed.ended_at) == (3, None)
    assert model.loop is not None
    model.take(replace(model.loop, at=NOW + 3600, first_iteration=4))
    assert (killed.status, killed.ended_at) == ("interrupted", killed.entries[-1].at)


def test_the_time_stands_still_after_the_end() -> None:
    ended = LoopEnded(at=NOW, outcome="completed", reason="done", exit_code=0)
    assert folded(*loop_story(), ended).totals(NOW + 1000).elapsed_s == pytest.approx(754.3)


def test_text_grows_and_is_replaced_by_the_final_one() -> None:
    growing = [AssistantTextDelta(text="Hel"), AssistantTextDelta(text="lo wor")]
    (entry,) = entries(*growing)
    assert (entry.text, entry.state) == ("Hello wor", "running")
    first, second = entries(*growing, AssistantText(text="Hello world"), AssistantText(text="Next"))
    assert (first.text, first.state, second.text) == ("Hello world", "unknown", "Next")


def test_texts_of_subagents_grow_apart() -> None:
    deltas = [
        AssistantTextDelta(text="main "),
        AssistantTextDelta(text="sub ", parent="t"),
        AssistantTextDelta(text="1"),
        AssistantTextDelta(text="2", parent="t"),
    ]
    assert [(entry.text, entry.nested) for entry in entries(*deltas)] == [("main 1", False), ("sub 2", True)]


def test_a_tool_call_is_shown_from_its_start() -> None:
    started = ToolStarted(at=START, call_id="1", name="Bash")
    called = ToolCalled(at=START + 1, call_id="1", name="Bash", arguments={"command": "ls", "timeout": 5})
    returned = ToolReturned(at=START + 3, call_id="1", content="a\nb", is_error=False)
    (entry,) = entries(started)
    assert (entry.title, entry.text, entry.state) == ("Bash", "", "running")
    (entry,) = entries(started, called, returned)
    assert (entry.text, entry.detail, entry.result, entry.state) == ("ls", "command: ls\ntimeout: 5", "a\nb", "ok")
    assert (entry.at, entry.ended_at) == (START, START + 3)


def test_tool_calls_at_the_same_time_keep_their_results() -> None:
    calls = [ToolCalled(call_id=name, name=name, arguments={}) for name in "abc"]
    results = [ToolReturned(call_id=name, content=f"of {name}", is_error=name == "b") for name in "cab"]
    found = entries(*calls, *results)
    assert [(each.title, each.result, each.state) for each in found] == [
        ("a", "of a", "ok"),
        ("b", "of b", "error"),
        ("c", "of c", "ok"),
    ]


def test_a_denied_call_a_result_without_a_call_and_calls_without_ids() -> None:
    denied, lost, first, second = entries(
        ToolCalled(call_id="1", name="Bash", arguments={"command": "rm"}),
        ToolDenied(call_id="1", name="Bash"),
        ToolReturned(call_id="lost", content="?", is_error=False),
        ToolCalled(call_id=None, name="Read", arguments={"path": "a"}),
        ToolReturned(call_id=None, content="of a", is_error=False),
        ToolCalled(call_id=None, name="Read", arguments={"path": "b"}),
    )
    assert (denied.state, denied.result) == ("error", "denied")
    assert lost.state == "ok"
    assert (first.result, first.state, second.state) == ("of a", "ok", "running")


def test_a_call_that_was_denied_and_then_returned_is_one_entry() -> None:
    call = ToolCalled(call_id="1", name="Bash", arguments={"command": "rm"})
    (entry,) = entries(
        call, ToolDenied(call_id="1", name="Bash"), ToolReturned(call_id="1", content="no", is_error=True)
    )
    assert (entry.result, entry.state) == ("no", "error")


def test_nothing_runs_once_the_program_has_ended() -> None:
    ended = ProcessEnded(at=NOW, exit_code=None, signal="SIGKILL", timed_out=True)
    (entry,) = entries(ToolCalled(call_id="1", name="Bash", arguments={}), ended)
    assert (entry.state, entry.ended_at) == ("unknown", NOW)


def test_what_is_unfinished_at_the_end_of_a_session_runs_no_longer() -> None:
    model = folded(
        IterationStarted(iteration=1, backend="x", model=None),
        ToolStarted(call_id="1", name="Bash"),
        AssistantTextDelta(text="unfinished"),
    )
    model.end("iteration 1", "stopped", NOW)
    assert [(entry.state, entry.ended_at) for entry in model.sessions[0].entries] == [("unknown", NOW)] * 2
    assert model.sessions[0].state == "warning"


def test_a_trial_whose_result_was_taken_over_is_listed() -> None:
    model = Transcript()
    model.end("agent on task, trial 1", "solved", NOW)
    assert [(session.title, session.state) for session in model.sessions] == [("agent on task, trial 1", "ok")]


def test_notes_of_a_run_with_trials_are_in_a_session_of_their_own() -> None:
    model = Transcript()
    model.begin("a", "agent a", START)
    model.take(ProgressNote(text="no further trials are started"))
    assert [(session.title, len(session.entries)) for session in model.sessions] == [("agent a", 0), ("run", 1)]
    model.close(NOW)
    assert {session.state for session in model.sessions} == {"unknown"}


def test_what_comes_before_the_first_iteration_is_in_it() -> None:
    model = folded(ProgressNote(text="pulling the image"), IterationStarted(iteration=1, backend="x", model=None))
    (session,) = model.sessions
    assert (session.number, [entry.text for entry in session.entries]) == (1, ["pulling the image"])


def test_usage_of_the_gateway_is_preferred() -> None:
    model = folded(
        ModelCalled(model="m", status=200, input_tokens=10, output_tokens=1, cost_usd=0.5),
        UsageReported(input_tokens=99, output_tokens=99, cost_usd=9.0),
        ModelCalled(model="m", status=200, input_tokens=5, output_tokens=1, cost_usd=0.25),
    )
    assert model.totals(NOW)[1:4] == (15, 2, 0.75)


def test_unknown_figures_are_none() -> None:
    assert folded(AssistantText(text="x")).totals(NOW)[1:4] == (None, None, None)


def test_a_quota_that_is_not_used_up_is_no_entry() -> None:
    model = folded(RateLimitSeen(status="allowed", resets_at=None, utilization=0.4))
    assert (model.sessions[0].entries, model.sessions[0].quota) == ([], 0.4)
    model.take(RateLimitSeen(status="rejected", resets_at=None, kind="five_hour", utilization=1.0))
    assert [entry.text for entry in model.sessions[0].entries] == ["usage limit (five hour): 100% used"]


def test_phases_evaluators_and_failed_results() -> None:
    kinds = [
        (entry.kind, entry.title, entry.state)
        for entry in entries(
            PhaseStarted(phase="evaluation"),
            EvaluatorFinished(evaluator="tests", status="failed", message="2 of 3"),
            SessionResult(subtype="error", is_error=True, text="no", turns=1, duration_ms=1),
            SessionResult(subtype="success", is_error=False, text="yes", turns=1, duration_ms=1),
        )
    ]
    assert kinds == [
        ("phase", "evaluating", "unknown"),
        ("gate", "tests", "error"),
        ("note", "✗", "error"),
    ]


def test_trials() -> None:
    model = Transcript()
    model.begin("a", "agent a", START)
    model.begin("b", "agent b", START)
    model.take(AssistantText(text="from b"), "b")
    model.take(AssistantText(text="from a"), "a")
    model.end("a", "solved", NOW)
    model.end("b", "infra_error", NOW)
    assert [(session.title, session.entries[0].text, session.state) for session in model.sessions] == [
        ("agent a", "from a", "ok"),
        ("agent b", "from b", "warning"),
    ]


def test_arguments_as_lines() -> None:
    edit = {"file_path": "a.py", "old_string": "x\ny", "new_string": "z", "replace_all": True}
    assert describe_arguments(edit) == "file_path: a.py\n- x\n- y\n+ z\nreplace_all: true"
    assert describe_arguments({"command": "a\nb"}) == "command:\n  a\n  b"


def test_search_ignores_case_unless_there_is_a_capital_letter() -> None:
    model = folded(AssistantText(text="One fine Day"), ToolReturned(call_id="1", content="a day", is_error=False))
    assert [hit.entry for hit in model.search("day")] == [0, 1]
    assert [hit.entry for hit in model.search("Day")] == [0]


def test_long_texts_are_bounded_and_say_so() -> None:
    long = "x" * (MAX_TEXT + 7)
    whole, result = entries(AssistantText(text=long), ToolReturned(call_id="1", content=long, is_error=False))
    assert (len(whole.text), whole.cut) == (MAX_TEXT, 7)
    assert (len(result.result or ""), result.cut) == (MAX_TEXT, 7)
    (grown,) = entries(*(AssistantTextDelta(text=long[:30_000]) for _ in range(3)))
    assert (len(grown.text), grown.cut) == (MAX_TEXT, 90_000 - MAX_TEXT)


def test_a_session_keeps_its_newest_entries() -> None:
    model = folded(*(AssistantText(text=f"text {number}") for number in range(LIVE.running.entries + 1)))
    session = model.sessions[0]
    assert session.left_out + len(session.entries) == LIVE.running.entries + 1
    assert len(session.entries) < LIVE.running.entries
    last = session.entries[-1]
    assert last.text == f"text {last.id}"
    assert model.search(last.text)[0].entry == last.id


def test_characters_are_counted_right() -> None:
    session = folded(*islice(many_events(5_000), 5_000)).sessions[0]
    assert session.characters == sum(entry.size() for entry in session.entries)


def test_ended_sessions_keep_less_and_the_oldest_nothing() -> None:
    model = Transcript(retention=Retention(Bounds(40, 10_000), Bounds(10, 1_000), 2_000))
    for number in range(5):
        model.begin(str(number), "", START)
        for _ in range(30):
            model.take(AssistantText(text="x" * 100), str(number))
        model.end(str(number), "solved", NOW)
    assert [len(session.entries) for session in model.sessions] == [1, 1, 1, 9, 9]
    assert [session.left_out for session in model.sessions] == [29, 29, 29, 21, 21]
    assert sum(session.characters for session in model.sessions) <= 2_100


def test_a_refused_claim_and_unmetered_figures() -> None:
    model = folded(
        IterationStarted(iteration=1, backend="claude", model="m"),
        CompletionRefused(reason="the gate tests failed: 2 failed"),
        IterationEnded(
            iteration=1, outcome="completed", reason=None, duration_ms=1000, input_tokens=10, output_tokens=2,
            cost_usd=0.5, files_changed=0, usage_source="agent",
        ),
    )  # fmt: skip
    refused, ended = model.sessions[0].entries
    assert "the gate tests failed: 2 failed" in refused.text
    assert "own figures" in ended.text
    assert model.totals(NOW).own_figures
