"""Which parts of a conversation are kept for the log while an agent runs."""

from __future__ import annotations

from youbencha.adapters.cli_agent.stream import Transcript
from youbencha.events import AssistantText, Event, ToolCalled, ToolReturned, UserText


def kept(*events: Event, limit: int = 1000) -> Transcript:
    transcript = Transcript(limit)
    for event in events:
        transcript.add(event)
    return transcript


def call(call_id: str | None, **arguments: str) -> ToolCalled:
    return ToolCalled(call_id=call_id, name="Bash", arguments=arguments)


def returned(call_id: str | None, content: str) -> ToolReturned:
    return ToolReturned(call_id=call_id, content=content, is_error=False)


def test_calls_are_joined_with_their_results() -> None:
    found = kept(call("a"), call("b"), returned("b", "two"), returned("c", "of none"), call("a"), returned("a", "one"))
    assert [(each.id, each.result) for each in found.tool_calls()] == [("a", "one"), ("b", "two")]


def test_calls_without_an_id_are_all_kept() -> None:
    found = kept(call(None), call(None), returned(None, "whose"))
    assert [(each.id, each.result) for each in found.tool_calls()] == [(None, None)] * 2


def test_entries_after_the_limit_are_dropped() -> None:
    messages = [AssistantText(text="x" * 600), UserText(text="y" * 300), AssistantText(text="z" * 200)]
    found = kept(*messages, AssistantText(text="later"), call("late", command="x" * 90), limit=1000)
    assert [message.content[0] for message in found.messages] == ["x", "y"]
    assert found.tool_calls() == []


def test_a_result_beyond_the_limit_keeps_its_call() -> None:
    found = kept(call("a"), returned("a", "x" * 2000), returned("a", "too late"), limit=1000)
    assert [(each.id, each.result, each.is_error) for each in found.tool_calls()] == [("a", None, None)]
