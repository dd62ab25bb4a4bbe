"""Events are values: they say what they hold, and refuse what they do not know."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from youbencha.events import AssistantText, Event, ProgressNote, SessionResult, ToolCalled, event_type


def test_what_is_given_and_what_is_not() -> None:
    before = time.time()
    text = AssistantText(text="Hello", parent="p")
    assert (text.text, text.parent, text.sent_at) == ("Hello", "p", None)
    assert before <= text.at <= time.time()
    assert AssistantText(text="x", at=5.0).at == 5.0


def test_what_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        ToolCalled(call_id="1", arguments={})  # type: ignore[call-arg]


def test_what_is_not_known() -> None:
    with pytest.raises(TypeError, match="txet"):
        ProgressNote(text="x", txet="y")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ProgressNote("x")  # type: ignore[arg-type,call-arg]


def test_an_event_with_something_else_in_it() -> None:
    note = ProgressNote(text="x")
    assert replace(note, text="y") == ProgressNote(text="y", at=note.at)
    assert note.text == "x"


def test_equal_is_what_holds_the_same() -> None:
    assert ProgressNote(text="x", at=1.0) == ProgressNote(text="x", at=1.0)
    assert ProgressNote(text="x", at=1.0) != ProgressNote(text="x", at=2.0)
    assert ProgressNote(text="x", at=1.0) != AssistantText(text="x", at=1.0)


def test_a_kind_of_a_kind_holds_all_of_it() -> None:
    @event_type
    class OwnResult(SessionResult):
        rounds: int = 0

    result = OwnResult(subtype="success", is_error=False, text="t", turns=1, duration_ms=2, rounds=3)
    assert isinstance(result, SessionResult)
    assert (result.turns, result.rounds) == (1, 3)
    assert "rounds=3" in repr(result)


def test_matching_by_what_is_in_it() -> None:
    match ProgressNote(text="x"):
        case Event(at=float()) as event:
            assert event.at > 0
        case _:
            raise AssertionError("not matched")
