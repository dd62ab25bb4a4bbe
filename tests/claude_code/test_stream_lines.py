"""One line -> events."""

from __future__ import annotations

import json

import pytest
from stream_samples import (
    INIT,
    RESULT,
    VERSIONS,
    assistant,
    line,
    parse_line,
    parse_lines,
    text,
    tool_result,
    tool_use,
    transcript,
    user,
)

from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    AssistantThinking,
    ContextUsed,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    UsageReported,
    UserText,
    WarningRaised,
)
from youbencha.json_lines import EXCERPT_CHARS
from youbencha.log.session import CallFailed, CallMetered, McpServerFailed, ModelRefused, ModelSwitched, TotalsByModel
from youbencha.usage import Tokens


def kinds(events):
    return [type(event).__name__ for event in events]


def only(events, kind):
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, kinds(events)
    return found[0]


def test_init_starts_the_session():
    record = {**INIT, "apiKeySource": "none", "claude_code_version": "2.1.325", "mcp_servers": []}
    (started,) = parse_line(line(**record))
    assert started == SessionStarted(
        at=started.at,
        session_id="s1",
        model="claude-x",
        agent_version="2.1.325",
        tools=("Bash",),
        key_source="none",
    )


def test_init_of_1_0_0_has_fewer_fields():
    (started,) = parse_line(line(type="system", subtype="init", session_id="s", tools=[], mcp_servers=[]))
    assert (started.model, started.agent_version, started.key_source) == (None, None, None)


def test_mcp_server_that_failed():
    servers = [{"name": "a", "status": "connected"}, {"name": "b", "status": "failed"}, {"status": "failed"}]
    servers += [{"name": "c", "status": "pending"}, {"name": "d"}]
    events = parse_line(line(**INIT, mcp_servers=servers))
    assert [event.name for event in events if isinstance(event, McpServerFailed)] == ["b", "(unnamed)"]


def test_tool_call_is_visible_the_moment_its_line_arrives():
    call = only(parse_line(assistant(tool_use("t7", "Write", path="a.txt"))), ToolCalled)
    assert (call.call_id, call.name, call.arguments, call.parent) == ("t7", "Write", {"path": "a.txt"}, None)


def test_every_block_of_a_message_is_an_event():
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "x"}, text("hello"), tool_use()]
    events = parse_line(assistant(*blocks, parent_tool_use_id="p1", timestamp="2026-11-15T18:28:58.895Z"))
    assert kinds(events) == ["CallMetered", "AssistantThinking", "AssistantText", "ToolCalled"]
    said = only(events, AssistantText)
    assert (said.text, said.parent, said.sent_at) == ("hello", "p1", "2026-11-15T18:28:58.895Z")
    assert only(events, AssistantThinking).text == "hm"
    assert only(events, ToolCalled).parent == "p1"


def test_content_may_be_a_string():
    assert only(parse_line(line(type="assistant", message={"content": "hi"})), AssistantText).text == "hi"
    assert only(parse_line(line(type="user", message={"content": "go on"})), UserText).text == "go on"


def test_empty_blocks_are_skipped():
    events = parse_line(assistant(text(""), {"type": "thinking", "thinking": ""}, {"type": "redacted_thinking"}))
    assert kinds(events) == ["CallMetered", "TurnTaken"]
    assert parse_line(user(text(""))) == []


def test_server_side_tools_count_too():
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result"}]}
    events = parse_line(assistant(call, found))
    assert only(events, ToolCalled).name == "web_search"
    assert only(events, ToolReturned).content == "[web_search_result]"


@pytest.mark.parametrize(
    ("given", "seen"),
    [({"a": 1}, {"a": 1}), (None, {}), ("raw", {"input": "raw"}), ([1], {"input": [1]}), (0, {"input": 0})],
)
def test_tool_input_of_any_shape_is_kept(given, seen):
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": given}
    assert only(parse_line(assistant(call)), ToolCalled).arguments == seen


def test_tool_result_as_string_or_blocks():
    blocks = [text("one"), {"type": "image", "source": {}}, text("two"), "junk", {"no": "type"}]
    assert only(parse_line(user(tool_result("plain"))), ToolReturned).content == "plain"
    assert only(parse_line(user(tool_result(blocks))), ToolReturned).content == "one\n[image]\ntwo\n[unknown]"
    assert only(parse_line(user(tool_result(None))), ToolReturned).content == ""


@pytest.mark.parametrize(("given", "seen"), [(True, True), (False, False), (None, False), ("yes", False)])
def test_tool_result_is_error(given, seen):
    assert only(parse_line(user(tool_result("x", is_error=given))), ToolReturned).is_error is seen


def test_usage_of_a_call():
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}
    first = parse_line(assistant(message={"usage": usage, "stop_reason": None}))[0]
    final = parse_line(assistant(message={"usage": usage, "stop_reason": "end_turn"}))[0]
    assert isinstance(first, CallMetered)
    assert isinstance(final, CallMetered)
    assert (first.tokens, first.message_id, first.model, first.final) == (
        Tokens(10, 1, 7, 5),
        "msg_1",
        "claude-x",
        False,
    )
    assert final.final


def test_synthetic_message_is_a_failed_call_and_still_text():
    record = assistant(text("Overloaded"), model="<synthetic>", error="server_error", api_error_status=529)
    events = parse_line(record)
    failed = only(events, CallFailed)
    assert (failed.kind, failed.status, failed.text) == ("server_error", 529, "Overloaded")
    assert only(events, AssistantText).text == "Overloaded"
    assert kinds(events)[-1] == "CallFailed"  # text after a failure would mean that it was overcome


def test_result_has_usage_denials_and_the_status():
    record = {
        **RESULT,
        "usage": {"input_tokens": 1},
        "modelUsage": {
            "a": {"inputTokens": 100, "outputTokens": 10, "cacheReadInputTokens": 3},
            "b": {"inputTokens": 1, "outputTokens": 2},
            "c": "junk",
        },
        "total_cost_usd": 0.5,
        "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {}}, {}],
        "errors": ["e1", 2],
        "duration_ms": 12,
        "api_error_status": 400,
        "terminal_reason": "completed",
    }
    models, answer, usage, denied, unnamed, closing = parse_line(line(**record))
    assert answer == AssistantText(at=answer.at, text="done")
    assert isinstance(models, TotalsByModel)
    assert models.tokens == {"a": (100, 10, 3, None), "b": (1, 2, None, None)}
    assert isinstance(usage, UsageReported)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (101, 12, 3)
    assert (usage.cache_creation_tokens, usage.cost_usd) == (None, 0.5)
    assert denied == ToolDenied(at=denied.at, call_id="t1", name="Bash")
    assert unnamed.name == "(unnamed)"
    assert isinstance(closing, SessionResult)
    assert (closing.subtype, closing.is_error, closing.text, closing.turns) == ("success", False, "done", 1)
    assert (closing.errors, closing.status, closing.duration_ms) == (("e1",), 400, 12)


@pytest.mark.parametrize(
    ("costs", "seen"),
    [
        ({"total_cost_usd": 0.3, "cost_usd": 0.1}, 0.3),
        ({"cost_usd": 0.1, "total_cost": 0.2}, 0.2),
        ({"cost_usd": 0.1}, 0.1),
        ({"total_cost_usd": 0}, 0.0),
        ({"total_cost_usd": -1}, None),
        ({"total_cost_usd": "0.3"}, None),
        ({}, None),
    ],
)
def test_cost_by_version(costs, seen):
    assert only(parse_line(line(**RESULT, **costs)), UsageReported).cost_usd == seen


def test_result_without_model_usage_falls_back_to_usage():
    for empty in ({}, None, []):
        record = {**RESULT, "modelUsage": empty, "usage": {"input_tokens": 4, "output_tokens": 2}}
        usage = only(parse_line(line(**record)), UsageReported)
        assert (usage.input_tokens, usage.output_tokens) == (4, 2)


@pytest.mark.parametrize(("given", "seen"), [(False, False), (True, True), (None, True), ("false", True), (0, True)])
def test_is_error_is_false_only_if_it_says_so(given, seen):
    assert only(parse_line(line(**{**RESULT, "is_error": given})), SessionResult).is_error is seen


def test_is_error_may_be_absent():
    assert not only(parse_line(line(type="result", subtype="success")), SessionResult).is_error


def test_partial_messages():
    start = {"type": "message_start", "message": {"id": "m1", "model": "claude-x", "usage": {"input_tokens": 9}}}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "He"}}
    stop = {"type": "message_delta", "usage": {"output_tokens": 25}}
    (call,) = parse_line(line(type="stream_event", event=start, parent_tool_use_id="p"))
    (said,) = parse_line(line(type="stream_event", event=delta, parent_tool_use_id="p"))
    (end,) = parse_line(line(type="stream_event", event=stop, api_message_id="m1"))
    assert (call.message_id, call.tokens, call.final, call.parent) == ("m1", Tokens(input=9), False, "p")
    assert said == AssistantTextDelta(at=said.at, text="He", parent="p")
    assert (end.message_id, end.tokens, end.final) == ("m1", Tokens(output=25), True)


def test_partial_messages_without_text():
    tool = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}
    assert parse_line(line(type="stream_event", event=tool)) == []
    assert parse_line(line(type="stream_event", event={"type": "message_stop"})) == []
    assert parse_line(line(type="stream_event", event={"type": ["unhashable"]})) == []


def test_retry_rate_limit_denial_fallback_refusal():
    (retry,) = parse_line(
        line(type="system", subtype="api_retry", attempt=2, error_status=529, error="overloaded", retry_delay_ms=1141.5)
    )
    assert retry == RequestRetried(at=retry.at, attempt=2, status=529, reason="overloaded", delay_ms=1141.5)
    (network,) = parse_line(line(type="system", subtype="api_retry", attempt=1, error_status=None, error="unknown"))
    assert network.status is None
    info = {"status": "rejected", "resetsAt": 1794775561, "rateLimitType": "five_hour"}
    (limit,) = parse_line(line(type="rate_limit_event", rate_limit_info=info))
    assert limit == RateLimitSeen(at=limit.at, status="rejected", resets_at=1794775561.0, kind="five_hour")
    (denied,) = parse_line(line(type="system", subtype="permission_denied", tool_name="Bash", tool_use_id="t"))
    assert denied == ToolDenied(at=denied.at, call_id="t", name="Bash")
    (switch,) = parse_line(
        line(type="system", subtype="model_fallback", original_model="a", fallback_model="b", trigger="overloaded")
    )
    assert switch == ModelSwitched(at=switch.at, original="a", fallback="b", trigger="overloaded")
    (refused,) = parse_line(line(type="system", subtype="model_refusal_no_fallback"))
    assert isinstance(refused, ModelRefused)


@pytest.mark.parametrize(
    ("info", "used"),
    [
        ({}, None),
        ({"utilization": 0.5}, 0.5),
        ({"unifiedWindows": {"five_hour": {"utilization": 0.2}, "seven_day": {"utilization": 0.85}, "x": None}}, 0.85),
        ({"utilization": "much", "unifiedWindows": []}, None),
    ],
)
def test_the_used_share_of_a_quota(info, used):
    (limit,) = parse_line(line(type="rate_limit_event", rate_limit_info={"status": "allowed", **info}))
    assert limit.utilization == used


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_call_begins_before_its_arguments_are_complete(version):
    events = parse_lines(transcript(f"partial-{version}").split(b"\n"))
    started, called = only(events, ToolStarted), only(events, ToolCalled)
    assert (started.call_id, started.name, started.parent) == (called.call_id, "Bash", None)
    assert events.index(started) < events.index(called)


def test_other_blocks_are_no_tool_calls():
    for block in ({"type": "text", "text": ""}, {"type": "thinking"}, {}, None):
        event = {"type": "content_block_start", "index": 0, "content_block": block}
        assert parse_line(line(type="stream_event", event=event)) == []


def sized(size, **more):
    usage = {"input_tokens": 10, "cache_read_input_tokens": size - 30, "cache_creation_input_tokens": 20}
    return assistant(text("a"), id=f"m{size}", message={"usage": usage}, **more)


def test_the_size_of_the_main_conversation():
    result = {**RESULT, "modelUsage": {"claude-x[1m]": {"contextWindow": 1_000_000}, "side": {"contextWindow": 5}}}
    stream = [sized(100), sized(100), sized(250), sized(999, parent_tool_use_id="t"), line(**result)]
    used = [event for event in parse_lines(stream) if isinstance(event, ContextUsed)]
    assert [(event.tokens, event.window) for event in used] == [(100, None), (250, None), (250, 1_000_000)]


def test_a_message_of_the_cli_itself_has_no_size():
    zeros = dict.fromkeys(("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), 0)
    events = parse_lines([assistant(text("a"), message={"usage": zeros}), line(**RESULT)])
    assert not any(isinstance(event, ContextUsed) for event in events)


def test_unknown_types_are_skipped_silently():
    assert parse_line(line(type="control_response", response={})) == []
    assert parse_line(line(type="system", subtype="ui_invalidate")) == []
    assert parse_line(line(type="system", subtype={"un": "hashable"})) == []


@pytest.mark.parametrize("empty", [b"", b"\r", b"   ", b"\x1b[?25h\r", b"\x1b7\x1b]9;4;0;\x07\x1b[<u"])
def test_empty_lines(empty):
    assert parse_line(empty) == []


@pytest.mark.parametrize(
    "wrapped",
    [b"%b\r", b"\x1b[?25h%b", b"\x1b7%b\x1b8\x1b[?1004l\x1b]9;4;0;\x07\r", b"  \t%b  ", b"\x1b[<u\x1b[>4m%b\x1b[?25h"],
)
def test_terminal_sequences_are_stripped(wrapped):
    dressed = wrapped.replace(b"%b", assistant(text("hi")))
    assert only(parse_line(dressed), AssistantText).text == "hi"
    assert only(parse_line(dressed.decode()), AssistantText).text == "hi"


@pytest.mark.parametrize(
    "broken",
    [b"plain words", b'{"type":"assistant","mess', b"[]", b"null", b"17", b'"text"', b"{}", b'{"type":5}', b"\xff\xfe"],
)
def test_malformed_line_is_one_warning(broken):
    (warned,) = parse_line(broken)
    assert isinstance(warned, WarningRaised)
    assert warned.code == "CLAUDE_MALFORMED_LINE"
    assert broken.decode("utf-8", "replace") in warned.message


def test_malformed_line_is_quoted_in_part():
    (warned,) = parse_line(b"x" * 1_000_000)
    assert warned.message.count("x") == EXCERPT_CHARS - 1
    assert len(warned.message) < EXCERPT_CHARS + 100


def test_a_lone_surrogate_does_not_lose_the_line():
    """JavaScript cuts strings between surrogates and writes the half as an escape; orjson refuses that."""
    raw = rb'{"type":"assistant","message":{"content":[{"type":"text","text":"cut \ud83d, whole \ud83d\ude00"}]}}'
    assert only(parse_line(raw), AssistantText).text == "cut ?, whole \N{GRINNING FACE}"


def test_raw_surrogates_and_bad_utf8_do_not_lose_the_line():
    good = json.dumps({"type": "assistant", "message": {"content": "a@b"}})
    assert only(parse_line(good.replace("@", "\udcff")), AssistantText).text == "a?b"
    assert only(parse_line(good.encode().replace(b"@", b"\xff")), AssistantText).text == "a\N{REPLACEMENT CHARACTER}b"


def test_endless_nesting_is_malformed():
    half = rb'"\ud83d"'
    for deep in (b"[" * 100_000, b'{"a":' * 100_000 + half, b'{"a":' * 100_000 + half + b"}" * 100_000):
        (warned,) = parse_line(deep)
        assert isinstance(warned, WarningRaised)


def test_str_and_bytes_give_the_same_events():
    for name in ("multi_tool-2.1.325", "partial-2.1.30", "automode_risky-2.1.325"):
        for one in transcript(name).split(b"\n"):
            assert kinds(parse_line(one)) == kinds(parse_line(one.decode()))


@pytest.mark.parametrize("version", VERSIONS)
def test_key_order_does_not_matter(version):
    for one in transcript(f"multi_tool-{version}").split(b"\n"):
        if one:
            turned = json.dumps(dict(reversed(json.loads(one).items()))).encode()
            assert kinds(parse_line(turned)) == kinds(parse_line(one))


@pytest.mark.parametrize("version", VERSIONS)
def test_real_stream_of_each_version(version):
    events = kinds(parse_lines(transcript(f"multi_tool-{version}").split(b"\n")))
    assert events == [
        "SessionStarted",
        *["CallMetered", "ContextUsed", "TurnTaken", "AssistantThinking"],
        *["CallMetered", "AssistantText"],
        *["CallMetered", "ToolCalled"] * 2,
        *["ToolReturned"] * 2,
        *["CallMetered", "TurnTaken", "ToolCalled", "ToolReturned"],
        *["CallMetered", "TurnTaken", "AssistantText"],
        *["ContextUsed", "TotalsByModel", "UsageReported", "SessionResult"],
    ]
