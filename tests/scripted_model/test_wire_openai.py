"""The formats of OpenAI's two APIs."""

from __future__ import annotations

from typing import Any

import pytest

from other_wires import CHAT, RESPONSES, events
from talking import scripted

USAGE = (
    "usage: {input_tokens: 600, cache_read_input_tokens: 1400, cache_creation_input_tokens: 7, output_tokens: 50,"
    " reasoning_tokens: 10}\n"
)


async def test_a_completion() -> None:
    script = USAGE + "turns: [{text: [a, b], tools: [{name: shell, input: {x: 1}, id: call_1}]}]"
    async with scripted(script) as model:
        answer = (await CHAT.ask(model, stream=False)).json
    assert answer.pop("id").startswith("chatcmpl")
    assert answer.pop("created") > 1_000_000_000
    message = {
        "role": "assistant",
        "content": "a\nb",
        "refusal": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"x": 1}'}}],
    }
    assert answer == {
        "object": "chat.completion",
        "model": "gpt-test",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": 2007,
            "completion_tokens": 50,
            "total_tokens": 2057,
            "prompt_tokens_details": {"cached_tokens": 1400, "cache_write_tokens": 7},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
    }


async def test_the_chunks_of_a_completion() -> None:
    async with scripted("turns: [{text: hello, tools: [{name: shell, id: c}]}]") as model:
        heard = await CHAT.ask(model)
    chunks = events(heard.raw)
    assert heard.raw.endswith(b"data: [DONE]\n\n")
    assert len({chunk["id"] for chunk in chunks}) == 1
    *spoken, last, usage = chunks
    assert all(chunk["usage"] is None for chunk in (*spoken, last))
    assert [chunk["choices"][0]["delta"] for chunk in spoken] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "he"},
        {"content": "ll"},
        {"content": "o"},
        {
            "tool_calls": [
                {"index": 0, "id": "c", "type": "function", "function": {"name": "shell", "arguments": ""}},
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
    ]
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "tool_calls")
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 120)


async def test_a_stream_has_usage_only_on_request() -> None:
    async with scripted("turns: [{text: hello}]") as model:
        chunks = events((await CHAT.ask(model, stream_options=None)).raw)
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


@pytest.mark.parametrize(
    ("stop", "finish", "status", "reason"),
    [
        ("end_turn", "stop", "completed", None),
        ("max_tokens", "length", "incomplete", {"reason": "max_output_tokens"}),
        ("refusal", "content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
async def test_why_the_model_stops(stop: str, finish: str, status: str, reason: Any) -> None:
    async with scripted(f"turns: [{{text: a, stop_reason: {stop}, times: 2}}]") as model:
        completion = CHAT.heard(await CHAT.ask(model))
        response = events((await RESPONSES.ask(model)).raw)[-1]
    assert completion["choices"][0]["finish_reason"] == finish
    assert response["type"] == f"response.{status}"
    assert (response["response"]["status"], response["response"]["incomplete_details"]) == (status, reason)


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (404, "invalid_request_error", "model_not_found"),
        (418, "invalid_request_error", None),
        (429, "requests", "rate_limit_exceeded"),
        (500, "server_error", None),
        (502, "server_error", None),
        (503, "server_error", "server_is_overloaded"),
        (529, "server_error", "server_is_overloaded"),
    ],
)
async def test_errors(status: int, kind: str, code: str | None) -> None:
    async with scripted(f"turns: [{{error: {{status: {status}}}, times: 2}}]") as model:
        for client in (CHAT, RESPONSES):
            heard = await client.ask(model)
            error = heard.json["error"]
            assert (heard.status, error["type"], error["code"], error["param"]) == (status, kind, code, None)
            assert error["message"]
            assert heard.headers["x-request-id"].startswith("req_")


async def test_a_response() -> None:
    script = USAGE + "turns: [{thinking: hm, text: a, tools: [{name: shell, input: {x: 1}, id: call_1}]}]"
    async with scripted(script) as model:
        answer = (await RESPONSES.ask(model, stream=False)).json
    thought, said, call = answer["output"]
    assert (thought["type"], thought["summary"]) == ("reasoning", [{"type": "summary_text", "text": "hm"}])
    assert (said["role"], said["status"], said["content"][0]["text"]) == ("assistant", "completed", "a")
    assert (call["type"], call["call_id"], call["name"], call["arguments"]) == (
        "function_call", "call_1", "shell", '{"x": 1}',
    )  # fmt: skip
    assert (answer["object"], answer["status"], answer["error"]) == ("response", "completed", None)
    assert answer["usage"] == {
        "input_tokens": 2007,
        "input_tokens_details": {"cached_tokens": 1400, "cache_write_tokens": 7},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 2057,
    }


async def test_the_events_of_a_response() -> None:
    async with scripted("turns: [{text: hello, tools: [{name: shell}]}]") as model:
        heard = events((await RESPONSES.ask(model)).raw)
    assert [event["type"].removeprefix("response.") for event in heard] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", *["output_text.delta"] * 3, "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", *["function_call_arguments.delta"] * 2, "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]  # fmt: skip
    begun = heard[0]["response"]
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)
    assert heard[2]["item"]["content"] == []
    assert {event["output_index"] for event in heard[2:10]} == {0}
    assert heard[4]["item_id"] == heard[2]["item"]["id"]


async def test_a_failed_response_ends_with_a_failed_event() -> None:
    async with scripted("turns: [{text: hello, error_mid_stream: {status: 429}}]") as model:
        last = events((await RESPONSES.ask(model)).raw)[-1]
    assert last["type"] == "response.failed"
    assert (last["response"]["status"], last["response"]["error"]["code"]) == ("failed", "rate_limit_exceeded")


async def test_a_custom_tool_gets_text() -> None:
    """Codex offers apply_patch this way."""
    patch = {"name": "apply_patch", "type": "custom"}
    async with scripted("turns: [{tools: [{name: apply_patch, input: {input: '*** Begin'}}], times: 2}]") as model:
        free = RESPONSES.heard(await RESPONSES.ask(model, tools=[patch]))["output"][0]
        plain = RESPONSES.heard(await RESPONSES.ask(model))["output"][0]
    assert (free["type"], free["input"]) == ("custom_tool_call", "*** Begin")
    assert (plain["type"], plain["arguments"]) == ("function_call", '{"input": "*** Begin"}')


async def test_tools_may_come_in_the_conversation_and_in_a_namespace() -> None:
    """Codex does so for its newest models."""
    tools = [{"type": "custom", "name": "exec"}, {"type": "function", "name": "wait"}]
    added = {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "namespace", "name": "functions", "tools": tools}],
    }
    script = "turns: [{tools: [{name: exec, input: {input: 'text(1)'}}, {name: wait}, {name: other}]}]"
    async with scripted(script) as model:
        heard = RESPONSES.heard(await RESPONSES.ask(model, tools=None, input=[added, *RESPONSES.body["input"]]))
    free, call, unknown = heard["output"]
    assert (free["type"], free["namespace"], free["input"]) == ("custom_tool_call", "functions", "text(1)")
    assert (call["type"], call["namespace"]) == ("function_call", "functions")
    assert "namespace" not in unknown


@pytest.mark.parametrize("named", [{"headers": {"session-id": "{}"}}, {"prompt_cache_key": "{}"}, {"user": "{}"}])
async def test_sessions_are_counted_separately(named: dict[str, Any]) -> None:
    def of(session: str) -> dict[str, Any]:
        return {
            key: value.format(session) if isinstance(value, str) else {k: v.format(session) for k, v in value.items()}
            for key, value in named.items()
        }

    async with scripted("turns: [{text: a}, {text: b}]") as model:
        heard = [RESPONSES.text(await RESPONSES.ask(model, **of(session))) for session in ("s1", "s2", "s1")]
    assert heard == ["a", "a", "b"]


async def test_input_may_be_a_plain_text() -> None:
    script = "turns: [{text: main}]\nconversations: [{when: {prompt_contains: PLAIN}, turns: [{text: matched}]}]"
    async with scripted(script) as model:
        assert RESPONSES.text(await RESPONSES.ask(model, input="a PLAIN text")) == "matched"


async def test_everything_before_the_first_answer_is_the_prompt() -> None:
    def user(text: str) -> dict[str, Any]:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    script = """
turns: [{text: main, times: 2}]
conversations: [{when: {prompt_contains: WORD}, turns: [{text: "matched in ${cwd}"}]}]
"""
    context = user("<environment_context>\n  <cwd>/the/place</cwd>\n</environment_context>")
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"}
    async with scripted(script) as model:
        early = RESPONSES.text(await RESPONSES.ask(model, input=[context, user("WORD")]))
        late = RESPONSES.text(await RESPONSES.ask(model, input=[context, user("x"), call, user("WORD")]))
    assert (early, late) == ("matched in /the/place", "main")
