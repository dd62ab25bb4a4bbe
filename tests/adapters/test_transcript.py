"""Which parts of a conversation are kept for the log while an agent runs."""

from __future__ import annotations

import tracemalloc

from youbencha.adapters.cli_agent.transcript import Conversation
from youbencha.events import AssistantText, Event, ToolCalled, ToolReturned, UserText
from youbencha.log.session import LeftOut

LIMIT = 80_000


def kept(*events: Event) -> Conversation:
    transcript = Conversation(LIMIT)
    for event in events:
        transcript.add(event)
    return transcript


def call(call_id: str | None, **arguments: str) -> ToolCalled:
    return ToolCalled(call_id=call_id, name="Bash", arguments=arguments)


def returned(call_id: str | None, content: str) -> ToolReturned:
    return ToolReturned(call_id=call_id, content=content, is_error=False)


def said(letter: str, thousands: int = 10, parent: str | None = None) -> AssistantText:
    return AssistantText(text=letter * 1000 * thousands, parent=parent)


def first_letters(transcript: Conversation) -> str:
    return "".join(message.content[0] for message in transcript.messages())


def test_calls_are_joined_with_their_results() -> None:
    found = kept(call("a"), call("b"), returned("b", "two"), returned("c", "of none"), call("a"), returned("a", "one"))
    assert [(call.id, call.result) for call in found.tool_calls()] == [("a", "one"), ("b", "two")]


def test_calls_without_an_id_are_all_kept() -> None:
    found = kept(call(None), call(None), returned(None, "whose"))
    assert [(call.id, call.result) for call in found.tool_calls()] == [(None, None)] * 2


def test_what_fits_is_kept_whole() -> None:
    for texts in (map(said, "abcdefg"), [said("a"), said("b", 60)], [said("a", 75)]):
        found = kept(*texts, call("a", command="ls"), returned("a", "x"))
        assert found.left_out() == LeftOut()
        assert len("".join(message.content for message in found.messages())) in (70_000, 75_000)


def test_the_beginning_and_the_end_are_kept_with_a_note_between_them() -> None:
    found = kept(*map(said, "abcdefghijkl"))
    assert first_letters(found) == "abc[ijkl"
    note = found.messages()[3]
    assert (note.role, note.content) == ("system", "[5 messages and 50,000 characters left out here]")
    assert found.left_out() == LeftOut(messages=5, characters=50_000)


def test_the_last_answer_outlives_whatever_follows_it() -> None:
    subagent = [said(letter, parent="task") for letter in "stuvwxyz"]
    found = kept(*map(said, "abcdefgh"), UserText(text="u" * 9_000), *subagent)
    assert first_letters(found) == "abc[hxyz"
    assert found.left_out().messages == 10
    newer = kept(*map(said, "abcdefgh"), *subagent, said("n"))
    assert first_letters(newer) == "abc[xyzn"


def test_a_text_that_is_too_long_loses_its_middle_and_nothing_else() -> None:
    last = "begin " + "x" * 500_000 + " end"
    found = kept(said("a"), AssistantText(text=last), said("b"))
    assert first_letters(found) == "abb"
    content = found.messages()[1].content
    assert content.startswith("begin x")
    assert content.endswith("x end")
    assert "[480,010 characters left out here]" in content
    assert found.left_out() == LeftOut(characters=480_010)


def test_a_long_answer_is_kept_beside_a_long_result() -> None:
    found = kept(*map(said, "abc"), call("z"), said("d", 39), returned("z", "r" * 39_000))
    assert first_letters(found) == "abcd"
    assert [len(message.content) // 1000 for message in found.messages()] == [10, 10, 10, 20]
    assert [len(call.result or "") // 1000 for call in found.tool_calls()] == [20]


def test_calls_lose_their_results_first_and_say_so() -> None:
    early = [call("a", command="early"), *map(said, "abc")]
    found = kept(
        *early, returned("a", "r" * 10_000), *map(said, "defgh"), call("z", command="late"), returned("z", "k")
    )
    assert [(call.id, call.result, call.is_error) for call in found.tool_calls()] == [
        ("a", "[10,000 characters left out here]", None),
        ("z", "k", False),
    ]


def test_calls_that_are_dropped_are_counted_with_their_results() -> None:
    calls = [event for each in map(str, range(40)) for event in (call(each, command="c"), returned(each, "r" * 5_000))]
    found = kept(*map(said, "abcd"), *calls)
    left_out, calls_kept = found.left_out(), found.tool_calls()
    assert left_out.tool_calls == 40 - len(calls_kept)
    assert left_out.characters == left_out.tool_calls * (5_000 + len('{"command":"c"}'))
    assert all(each.result == "r" * 5_000 for each in calls_kept)


def test_what_is_cut_takes_no_memory() -> None:
    transcript = Conversation(LIMIT)
    tracemalloc.start()
    for letter in "abcdefgh":
        transcript.add(said(letter, 1000))
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 200_000


def test_empty_entries_are_bounded_too() -> None:
    found = kept(*(AssistantText(text="") for _ in range(10_000)), said("z", 1))
    assert len(found.messages()) < 1_000
    assert found.messages()[-1].content[0] == "z"
