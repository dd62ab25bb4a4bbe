"""What a request asks for: its model, streaming, and the maximum length of the answer."""

from __future__ import annotations

from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.gateway.wires import WIRES, RequestSize, WireName
from youbencha.gateway.wires.base import DEFAULT_MAX_OUTPUT

WIRE_NAMES: tuple[WireName, ...] = get_args(WireName)
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"


def max_output(wire: WireName, body: object) -> int | None:
    return WIRES[wire].measure(GEMINI, body, 10).max_output


def test_anthropic_messages() -> None:
    body = {"model": "claude-opus-4-5", "max_tokens": 1024, "stream": True, "n": 7}
    assert WIRES["anthropic-messages"].measure("/v1/messages", body, 99) == RequestSize(
        "claude-opus-4-5", True, 1024, 99
    )


def test_openai_chat_prefers_the_limit_that_includes_reasoning() -> None:
    body = {"model": "gpt-5", "max_tokens": 5, "max_completion_tokens": 50}
    assert WIRES["openai-chat"].measure("/v1/chat/completions", body, 1) == RequestSize("gpt-5", False, 50, 1)
    assert max_output("openai-chat", {"max_tokens": 5, "max_completion_tokens": None}) == 5


def test_openai_responses() -> None:
    body = {"model": "gpt-5", "max_output_tokens": 300, "max_tokens": 5, "stream": False}
    assert WIRES["openai-responses"].measure("/v1/responses", body, 1) == RequestSize("gpt-5", False, 300, 1)


@pytest.mark.parametrize(("action", "stream"), [("generateContent", False), ("streamGenerateContent", True)])
def test_gemini_has_the_model_and_streaming_in_the_path(action: str, stream: bool) -> None:
    path = f"/v1beta/models/gemini-2.5-pro:{action}"
    body = {"model": "another", "stream": True, "generationConfig": {"maxOutputTokens": 64}}
    assert WIRES["gemini"].measure(path, body, 7) == RequestSize("gemini-2.5-pro", stream, 64, 7)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("openai-chat", {"n": 3, "max_tokens": 100}),
        ("gemini", {"generationConfig": {"candidateCount": 3, "maxOutputTokens": 100}}),
        ("gemini", {"generation_config": {"candidate_count": 3, "max_output_tokens": 100}}),
    ],
)
def test_the_limit_is_for_each_answer(wire: WireName, body: object) -> None:
    assert max_output(wire, body) == 300


def test_several_answers_without_a_limit_are_still_bounded() -> None:
    assert max_output("openai-chat", {"n": 4}) == 4 * DEFAULT_MAX_OUTPUT


@pytest.mark.parametrize(("n", "answers"), [(0, 1), (1, 1), (None, 1), ("5", 5), (True, 128), (-2, 128), (10**12, 128)])
def test_an_invalid_number_of_answers_is_the_highest(n: Any, answers: int) -> None:
    assert max_output("openai-chat", {"n": n, "max_tokens": 100}) == answers * 100
    assert max_output("openai-chat", {"n": n}) == (None if answers == 1 else answers * DEFAULT_MAX_OUTPUT)


@pytest.mark.parametrize(
    ("wire", "body", "expected"),
    [
        ("openai-chat", {"max_completion_tokens": 1, "max_tokens": 9000}, 9000),
        ("openai-chat", {"max_completion_tokens": 1, "max_tokens": "many"}, None),
        ("gemini", {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 9000}}, 9000),
        ("gemini", {"generationConfig": {"maxOutputTokens": 1}, "generation_config": {"maxOutputTokens": "90"}}, 90),
        ("gemini", {"generationConfig": {"maxOutputTokens": 10, "candidateCount": "8"}}, 80),
    ],
)
def test_of_several_limits_the_highest_counts(wire: WireName, body: dict[str, Any], expected: int | None) -> None:
    assert max_output(wire, body) == expected


@pytest.mark.parametrize(("model", "most"), [("gpt-5", 128_000), ("gpt-5-pro-2025-10-06", 272_000), (None, 128_000)])
def test_the_longest_answer_of_a_model(model: str | None, most: int) -> None:
    assert RequestSize(model, False, None, 200).worst_tokens == 200 + most


@pytest.mark.parametrize("limit", [True, None, -1, 10**30, 1.5, float("nan"), float("inf"), [1], {"a": 1}])
def test_an_invalid_limit_is_ignored(limit: Any) -> None:
    assert max_output("anthropic-messages", {"max_tokens": limit}) is None


def test_a_limit_may_be_written_with_a_point() -> None:
    assert repr(max_output("anthropic-messages", {"max_tokens": 1024.0})) == "1024"


@pytest.mark.parametrize("model", ["", 5, None, True, ["claude"], "x" * 300, "two\nlines", "\ud800"])
def test_an_invalid_model_name_is_ignored(model: Any) -> None:
    assert WIRES["anthropic-messages"].measure("/v1/messages", {"model": model}, 1).model is None


@pytest.mark.parametrize("stream", ["true", 1, None, {}])
def test_only_true_streams(stream: Any) -> None:
    assert WIRES["anthropic-messages"].measure("/v1/messages", {"stream": stream}, 1).stream is False


def test_the_worst_case_of_a_call_in_tokens() -> None:
    assert RequestSize("m", False, 30, 200).worst_tokens == 230
    assert RequestSize("m", False, 0, 200).worst_tokens == 200
    assert RequestSize("m", False, None, 200).worst_tokens == 200 + DEFAULT_MAX_OUTPUT


_keys = st.sampled_from(
    ["model", "stream", "n", "max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig",
     "generation_config", "maxOutputTokens", "candidateCount"]
)  # fmt: skip
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=6),
    max_leaves=12,
)


@given(wire=st.sampled_from(WIRE_NAMES), path=st.text() | st.just(GEMINI), body=_values)
def test_no_body_raises(wire: WireName, path: str, body: object) -> None:
    asked = WIRES[wire].measure(path, body, 5)
    assert type(asked.stream) is bool
    assert asked.max_output is None or (type(asked.max_output) is int and asked.max_output >= 0)
    orjson.dumps(asked.model)
