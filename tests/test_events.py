"""Events are values with known fields."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from youbencha.events import AssistantText, Event, ProgressNote, SessionResult, ToolCalled, event_type


def test_given_and_default_fields() -> None:
    before = time.time()
    text = AssistantText(text="Hello", parent="p")
    assert (text.text, text.parent, text.sent_at) == ("Hello", "p", None)
    assert before <= text.at <= time.time()
    assert AssistantText(text="x", at=5.0).at == 5.0


def test_required_fields() -> None:
    with pytest.raises(TypeError, match="name"):
        ToolCalled(call_id="1", arguments={})  # type: ignore[call-arg]


def test_unknown_fields() -> None:
    with pytest.raises(TypeError, match="txet"):
        ProgressNote(text="x", txet="y")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ProgressNote("x")  # type: ignore[arg-type,call-arg]


def test_replacing_a_field() -> None:
    note = ProgressNote(text="x")
    assert replace(note, text="y") == ProgressNote(text="y", at=note.at)
    assert note.text == "x"


def test_equality() -> None:
    assert ProgressNote(text="x", at=1.0) == ProgressNote(text="x", at=1.0)
    assert ProgressNote(text="x", at=1.0) != ProgressNote(text="x", at=2.0)
    assert ProgressNote(text="x", at=1.0) != AssistantText(text="x", at=1.0)


def test_subclasses_inherit_fields() -> None:
    @event_type
    class OwnResult(SessionResult):
        rounds: int = 0

    result = OwnResult(subtype="success", is_error=False, text="t", turns=1, duration_ms=2, rounds=3)
    assert isinstance(result, SessionResult)
    assert (result.turns, result.rounds) == (1, 3)
    assert "rounds=3" in repr(result)


def test_pattern_matching() -> None:
    match ProgressNote(text="x"):
        case Event(at=float()) as event:
            assert event.at > 0
        case _:
            raise AssertionError("not matched")
