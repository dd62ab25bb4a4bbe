"""An answer as the Messages API would write it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from talking import parse_events, together
from youbencha.scripted_model import ScriptedAnswer, ScriptedUsage
from youbencha.scripted_model.anthropic import message_events, message_json
from youbencha.scripted_model.format import substitute
from youbencha.scripted_model.wire import ClaimedTokens, claimed_tokens, event_bytes
from youbencha.spec.variables import list_names

ANSWER = ScriptedAnswer.model_validate(
    {
        "thinking": "Hm.",
        "text": ["I write.", "Then I look."],
        "tools": [{"name": "Write", "input": {"a": [1, "ü"]}, "id": "toolu_own"}, {"name": "Bash"}],
        "usage": {"output_tokens": 7},
    }
)


def message(answer: ScriptedAnswer) -> dict[str, Any]:
    return message_json(answer, "claude-test", claimed_tokens(answer, ScriptedUsage(input_tokens=5)))


def test_a_message_has_its_blocks_in_order() -> None:
    built = message(ANSWER)
    signature = built["content"][0]["signature"]
    second_call = built["content"][4]["id"]
    assert built["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": signature},
        {"type": "text", "text": "I write."},
        {"type": "text", "text": "Then I look."},
        {"type": "tool_use", "id": "toolu_own", "name": "Write", "input": {"a": [1, "ü"]}},
        {"type": "tool_use", "id": second_call, "name": "Bash", "input": {}},
    ]
    assert signature
    assert second_call.startswith("toolu_")
    assert (built["type"], built["role"], built["model"]) == ("message", "assistant", "claude-test")
    assert (built["stop_reason"], built["stop_sequence"]) == ("tool_use", None)


def test_usage_comes_from_the_turn_then_the_script_then_a_small_default() -> None:
    said = claimed_tokens(ANSWER, ScriptedUsage(input_tokens=5, output_tokens=6, cache_read_input_tokens=9))
    assert said == ClaimedTokens(input=5, output=7, cache_read=9, cache_creation=0, reasoning=0)
    created = ScriptedAnswer(text="a", usage=ScriptedUsage(cache_creation_input_tokens=11))
    assert message(created)["usage"]["cache_creation"] == {
        "ephemeral_5m_input_tokens": 11,
        "ephemeral_1h_input_tokens": 0,
    }


def test_the_stop_reason() -> None:
    assert message(ScriptedAnswer(text="a"))["stop_reason"] == "end_turn"
    assert message(ScriptedAnswer(text="a", stop_reason="max_tokens"))["stop_reason"] == "max_tokens"


def test_the_events_of_a_stream_are_those_of_the_real_api() -> None:
    events = list(message_events(message(ScriptedAnswer(text="hello", usage=ScriptedUsage(output_tokens=33)))))
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start = events[0]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
    assert events[1]["content_block"] == {"type": "text", "text": ""}
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert events[-2]["usage"]["output_tokens"] == 33


def test_tool_input_and_thinking_have_their_own_deltas() -> None:
    kinds = {
        event["delta"]["type"] for event in message_events(message(ANSWER)) if event["type"] == "content_block_delta"
    }
    assert kinds == {"text_delta", "thinking_delta", "signature_delta", "input_json_delta"}
    starts = [e["content_block"] for e in message_events(message(ANSWER)) if e["type"] == "content_block_start"]
    assert starts[0] == {"type": "thinking", "thinking": "", "signature": ""}
    assert starts[3] == {"type": "tool_use", "id": "toolu_own", "name": "Write", "input": {}}


def test_ids_are_unique() -> None:
    ids = {message(ScriptedAnswer(text="a"))["id"] for _ in range(50)}
    ids |= {message(ScriptedAnswer.model_validate({"tools": [{"name": "x"}]}))["content"][0]["id"] for _ in range(50)}
    assert len(ids) == 100


plain = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=8,
)


@given(plain, st.none() | plain, st.dictionaries(plain, json_values, max_size=3))
def test_a_client_reassembles_the_same_message(text: str, thinking: str | None, arguments: Any) -> None:
    answer = ScriptedAnswer.model_validate(
        {"text": text, "thinking": thinking, "tools": [{"name": "Tool", "input": arguments}]}
    )
    whole = message(answer)
    assert together(parse_events(b"".join(event_bytes(event) for event in message_events(whole)))) == whole


def test_variables_are_filled_in_everywhere() -> None:
    value = {"${a}": ["${a}/${b}", 5, None], "x": {"y": "$a $${a} ${a b} {a}"}}
    assert substitute(value, {"a": "1", "b": "${a}"}) == {"1": ["1/${a}", 5, None], "x": {"y": "$a ${a} ${a b} {a}"}}
    assert sorted(list_names(value)) == ["a", "a", "b"]
