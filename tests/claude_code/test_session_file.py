"""Facts from the CLI's own session file that its output lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stream_samples import (
    INIT,
    RESULT,
    VERSIONS,
    assistant,
    facts_of,
    feed,
    line,
    lines,
    log_of,
    text,
    tool_use,
    transcript,
)

from youbencha.adapters.claude_code.own_files import with_session_file
from youbencha.adapters.cli_agent.stream import MALFORMED_WARNINGS
from youbencha.events import ToolDenied, WarningRaised
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.usage import SessionUsage, Tokens, base_model

ID = "9de3ddb1-7c81-4804-9edf-c3e22697644e"


def said(key: str, output: int, model: str = "claude-x", stop: str | None = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": output, "cache_read_input_tokens": 7}
    return {"type": "assistant", "message": {"id": key, "model": model, "stop_reason": stop, "usage": usage}}


def record(config: Path, *records: object, name: str = ID) -> None:
    place = config / "projects" / "-some-where"
    place.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (place / f"{name}.jsonl").write_text("\n".join(lines))


def completed(facts: SessionFacts, session_id: str | None, config: Path | None) -> SessionFacts:
    return with_session_file(SessionRecord(facts), session_id, config).facts


def test_each_call_counts_once(tmp_path: Path) -> None:
    synthetic = said("c", 99, model="<synthetic>")
    record(
        tmp_path, {"type": "user"}, said("a", 20), said("a", 20), said("b", 3), synthetic, '{"type": "assistant", "me'
    )
    facts = completed(SessionFacts(), ID, tmp_path)
    assert (facts.model, facts.turns) == ("claude-x", 2)
    assert facts.usage is not None
    assert facts.usage.tokens[:3] == (200, 23, 14)
    assert facts.usage.partial
    assert facts.usage.cost_usd is None


def test_subagents_count_and_do_not_name_the_model(tmp_path: Path) -> None:
    """2.0.24 warms up one with another model, whose answer may come after the last one."""
    record(tmp_path, said("a", 20), {**said("b", 3, model="claude-small"), "isSidechain": True})
    facts = completed(SessionFacts(), ID, tmp_path)
    assert (facts.model, facts.turns) == ("claude-x", 1)
    assert facts.usage is not None
    assert facts.usage.tokens[:3] == (200, 23, 14)


def test_numbers_that_are_not_final_stay_unknown(tmp_path: Path) -> None:
    """2.1.30 writes what a call begins with: one output token."""
    record(tmp_path, said("a", 1, stop=None), said("b", 1, stop=None))
    facts = completed(SessionFacts(), ID, tmp_path)
    assert facts.usage == (Tokens(200, None, 14), None, True)


def test_a_failed_call_is_reported_only_if_it_was_the_last(tmp_path: Path) -> None:
    failed = said("c", 0, model="<synthetic>")
    failed["message"]["content"] = [{"type": "text", "text": "API Error: 529"}]
    answer = said("d", 5)
    answer["message"]["content"] = [{"type": "text", "text": "Done."}]
    record(tmp_path, said("a", 20), failed)
    facts = completed(SessionFacts(), ID, tmp_path)
    assert facts.failure is not None
    assert facts.failure.text == "API Error: 529"
    assert completed(SessionFacts(stream_seen=True), ID, tmp_path).failure is None
    record(tmp_path, said("a", 20), failed, answer)
    assert completed(SessionFacts(), ID, tmp_path).failure is None


def test_reported_totals_are_kept(tmp_path: Path) -> None:
    record(tmp_path, said("a", 20))
    reported = SessionFacts(usage=SessionUsage(Tokens(1, 1)), model="other", turns=7)
    assert completed(reported, ID, tmp_path) == reported


def test_the_larger_numbers_of_stream_and_file_count(tmp_path: Path) -> None:
    record(tmp_path, said("a", 20))
    further = SessionFacts(usage=SessionUsage(Tokens(300, 5, 9), 0.5, partial=True), turns=3)
    usage = SessionUsage(Tokens(300, 20, 9), 0.5, partial=True)
    assert completed(further, ID, tmp_path) == further._replace(model="claude-x", usage=usage)


@pytest.mark.parametrize("name", [None, "../../secret", "*", ""])
def test_an_invalid_session_id_opens_no_file(tmp_path: Path, name: str | None) -> None:
    record(tmp_path, said("a", 20))
    assert completed(SessionFacts(), name, tmp_path) == SessionFacts()
    assert completed(SessionFacts(), ID, None) == SessionFacts()


def test_a_link_to_another_directory_is_not_followed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    record(tmp_path / "elsewhere", said("a", 20))
    place = config / "projects" / "-some-where"
    place.mkdir(parents=True)
    (place / f"{ID}.jsonl").symlink_to(tmp_path / "elsewhere" / "projects" / "-some-where" / f"{ID}.jsonl")
    assert completed(SessionFacts(), ID, config).usage is None


def test_tools_are_known_without_a_stream(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    answer = said("msg_1", 5)
    answer["message"]["content"] = [call]
    record(tmp_path, answer, {"type": "user", "message": {"role": "user", "content": [result]}})
    (found,) = with_session_file(SessionRecord(), ID, tmp_path).tool_calls
    assert (found.name, found.result) == ("Bash", "a.txt")
    streamed = SessionRecord(SessionFacts(stream_seen=True), tool_calls=())
    assert with_session_file(streamed, ID, tmp_path).tool_calls == ()


MODELS = {
    "1.0.128": "claude-sonnet-4-20250514",
    "2.1.30": "claude-sonnet-4-5-20250929",
    "2.1.197": "claude-opus-4-8",
    "2.1.325": "claude-opus-5-5",
}

# input, output, cache read, cache creation, cost, partial
USAGE = {
    "simple-1.0.128": (1000, 25, 700, 50, 0.0037725000000000002, False),
    "simple-2.1.30": (1000, 25, 700, 50, 0.0037725000000000002, False),
    "simple-2.1.197": (1000, 25, 700, 50, 0.0062875, False),
    "simple-2.1.325": (1000, 25, 700, 50, 0.004890000000000001, False),
    # 1.0.128 and 2.1.30 ask a side model to check commands: only modelUsage has its tokens.
    "tool_use-1.0.128": (3000, 75, 2100, 150, 0.008551, False),
    "tool_use-2.1.30": (3000, 75, 2100, 150, 0.008802500000000001, False),
    "tool_use-2.1.197": (2000, 50, 1400, 100, 0.012575, False),
    "tool_use-2.1.325": (2000, 50, 1400, 100, 0.009780000000000002, False),
    # Subagents: the last result's own `usage` says 1000 input tokens only.
    "subagent-2.1.197": (11000, 275, 7700, 550, 0.0691625, False),
    "subagent-2.1.325": (8000, 200, 5600, 400, 0.03912000000000001, False),
    # Two results; modelUsage is cumulative.
    "bg20-2.1.325": (3000, 75, 2100, 150, 0.014670000000000002, False),
    # A call repeated without streaming: its usage is missing in the result, present in the message.
    "errmid-2.1.30": (1000, 25, 700, 50, None, True),
    "fb-1.0.128": (1000, 25, 700, 50, None, True),
    "errmid-1.0.128": (1000, 25, 700, 50, 0.0034125, True),  # the call that broke, with one output token
    # No result at all: what the messages said. Output tokens are unknown on 2.1.x.
    "killed_SIGINT-1.0.128": (1000, 25, 700, 50, None, True),
    "killed_SIGINT-2.1.30": (1000, None, 700, 50, None, True),
    "killed_SIGTERM-2.1.325": (1000, None, 700, 50, None, True),
    # Interrupted, but with a result.
    "killed_SIGINT-2.1.325": (1000, 25, 700, 50, 0.004890000000000001, False),
    # Zeros that were reported.
    "noauth_stream-2.1.325": (0, 0, 0, 0, 0.0, False),
}


def numbers(facts: SessionFacts):
    usage = facts.usage
    assert usage is not None
    return (*usage.tokens, usage.cost_usd, usage.partial)


@pytest.mark.parametrize("name", USAGE)
def test_usage_of_real_sessions(name):
    assert numbers(facts_of(transcript(name))) == USAGE[name]
    usage = log_of(transcript(name)).usage
    both = None not in USAGE[name][:2]
    assert usage.total_tokens == (sum(number or 0 for number in USAGE[name][:4]) if both else None)
    assert usage.cost_source == ("agent" if USAGE[name][4] is not None else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_identity_of_each_version(version):
    facts = facts_of(transcript(f"tool_use-{version}"))
    assert facts.stream_seen
    assert facts.model == MODELS[version]
    assert facts.agent_version == (version if version != "1.0.128" else None)  # reported from 2.0.19 on
    assert facts.key_source == "ANTHROPIC_API_KEY"
    assert facts.session_id
    assert facts.results == 1
    assert facts.turns == {"1.0.128": 3}.get(version, 2)
    assert facts.result.text == "Done: wrote hello.txt"


def test_message_model_beats_init_model():
    facts = facts_of(transcript("simple-2.1.197"))
    assert (facts.model, facts.init_model) == ("claude-opus-4-8", "claude-opus-4-8[1m]")
    assert base_model(facts.init_model) == facts.model


def test_the_synthetic_model_is_ignored():
    assert facts_of(transcript("noauth_stream-2.1.197")).model == "claude-opus-4-8[1m]"


def test_model_of_a_subagent_does_not_name_the_run():
    sub = assistant(text("x"), model="claude-small", parent_tool_use_id="t1", id="m2")
    assert facts_of(lines(line(**INIT), assistant(text("x")), sub)).model == "claude-x"


def test_turns_of_several_results_add_up():
    """2.1.325 tells a second result when background work ends; each counts its own turns only."""
    facts = facts_of(transcript("bg20-2.1.325"))
    assert (facts.results, facts.turns) == (2, 3)


def test_the_last_result_counts():
    facts = facts_of(lines(line(**RESULT), line(**{**RESULT, "subtype": "error_max_turns"})))
    assert facts.result.subtype == "error_max_turns"


def test_a_repeated_init_keeps_earlier_values():
    again = {"type": "system", "subtype": "init"}
    facts = facts_of(lines(line(**INIT, claude_code_version="2.1.0", apiKeySource="none"), line(**again)))
    assert (facts.session_id, facts.model, facts.agent_version, facts.key_source) == ("s1", "claude-x", "2.1.0", "none")


def test_session_id_from_the_result_alone():
    """--output-format json prints nothing but the result."""
    assert facts_of(transcript("noauth_json-2.1.325")).session_id == "2d6cf003-81f6-41c4-a9aa-73f976d624d2"


def test_retries_are_counted_by_kind():
    (retry,) = facts_of(transcript("err_429-2.1.325")).retries
    assert (retry.status, retry.reason, retry.times) == (429, "rate_limit", 10)


def test_failed_call():
    failure = facts_of(transcript("err_401_retries0-2.1.325")).failure
    assert (failure.kind, failure.status) == ("authentication_failed", 401)
    assert failure.text.startswith("Invalid API key")
    assert facts_of(transcript("err_401_retries0-1.0.128")).failure.kind is None


def test_rate_limit_fallback_refusal():
    limit = facts_of(transcript("ratelimit_oauth-2.1.325")).rate_limit
    assert (limit.status, limit.resets_at, limit.kind) == ("allowed", 1794775561.0, "five_hour")
    (switch,) = facts_of(transcript("fb-2.1.325")).switches
    assert (switch.original, switch.fallback) == ("claude-sonnet-4-5-20250929", "claude-haiku-4-5")
    assert facts_of(transcript("refusal-2.1.325")).refused
    assert not facts_of(transcript("simple-2.1.325")).refused


def test_a_denial_reported_twice_counts_once():
    session, events = feed(transcript("automode_risky-2.1.325"))
    assert session.facts().denied_tools == {"Bash": 1}
    assert len([event for event in events if isinstance(event, ToolDenied)]) == 1


def test_denials_without_id_are_all_counted():
    denials = [{"tool_name": "Bash"}, {"tool_name": "Bash"}, {"tool_name": "Edit", "tool_use_id": "t"}]
    assert facts_of(line(**RESULT, permission_denials=denials)).denied_tools == {"Bash": 2, "Edit": 1}


def test_failed_mcp_servers():
    servers = [{"name": "files", "status": "failed"}, {"name": "web", "status": "connected"}]
    init = line(**INIT, mcp_servers=servers)
    assert facts_of(lines(init, init)).failed_mcp_servers == ("files",)


def test_malformed_lines_are_counted_and_reported_a_few_times():
    session, warned = feed(b"\n".join(b"bad %d" % number for number in range(1000)))
    assert len(warned) == MALFORMED_WARNINGS
    assert all(isinstance(event, WarningRaised) for event in warned)
    facts = session.facts()
    assert facts.malformed_lines == 1000
    assert "bad 0" in facts.malformed_example
    assert not facts.stream_seen


def test_a_stream_starts_with_a_known_event():
    assert not facts_of(line(type="log", level="info")).stream_seen
    assert facts_of(line(type="system", subtype="hook_started")).stream_seen


def test_calls_from_partial_messages():
    """The only place where 2.1.x says how many tokens a call has put out, should no result follow."""
    data = transcript("partial-2.1.325")
    cut = b"\n".join(one for one in data.split(b"\n") if b'"type":"result"' not in one)
    assert numbers(facts_of(cut)) == (2000, 50, 1400, 100, None, True)


@pytest.mark.parametrize("version", ["1.0.128", "2.1.30", "2.1.197"])
def test_calls_from_partial_messages_without_their_ids(version):
    data = transcript(f"partial-{version}")
    cut = b"\n".join(one for one in data.split(b"\n") if b'"type":"result"' not in one)
    assert numbers(facts_of(cut)) == (2000, 50, 1400, 100, None, True)


def test_partial_messages_of_parallel_subagents_do_not_mix():
    def start(id, parent):
        message = {"id": id, "model": "m", "usage": {"input_tokens": 10, "output_tokens": 1}}
        event = {"type": "message_start", "message": message}
        return line(type="stream_event", event=event, parent_tool_use_id=parent)

    def end(parent, tokens):
        event = {"type": "message_delta", "usage": {"output_tokens": tokens}}
        return line(type="stream_event", event=event, parent_tool_use_id=parent)

    facts = facts_of(lines(start("a", "p1"), start("b", "p2"), end("p1", 5), end("p2", 7), end("p3", 100)))
    assert numbers(facts)[:2] == (20, 12)


def test_1_0_0_reports_only_the_cost():
    old = {"type": "result", "subtype": "success", "is_error": False, "cost_usd": 0.1, "total_cost": 0.2}
    final = {"usage": {"input_tokens": 3, "output_tokens": 4}, "stop_reason": "end_turn"}
    facts = facts_of(lines(assistant(text("x"), message=final), line(**old)))
    assert numbers(facts) == (3, 4, None, None, 0.2, True)
    assert numbers(facts_of(line(**old))) == (None, None, None, None, 0.2, True)


def test_an_answer_after_a_failed_call_clears_the_failure():
    failed = assistant(text("Overloaded"), model="<synthetic>", error="server_error", id="m0")
    assert facts_of(failed).failure.text == "Overloaded"
    assert facts_of(lines(failed, assistant(text("hello")))).failure is None


def test_without_a_result_turns_are_the_answers_of_the_main_conversation():
    sub = assistant(text("x"), id="s", parent_tool_use_id="t1")
    first = [assistant(text("a"), id="m1"), assistant(text("b"), id="m1")]
    assert facts_of(lines(*first, sub, assistant(text("c"), id="m2"))).turns == 2


def test_a_tool_that_was_denied_was_not_used():
    calls = assistant(tool_use("t1", "Bash"), tool_use("t2", "Read"), tool_use("t2", "Read"), tool_use(None, "Edit"))
    denied = {**RESULT, "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t1"}]}
    assert facts_of(lines(calls, line(**denied))).tools_used == {"Read": 1, "Edit": 1}


def test_no_output_means_unknown():
    assert facts_of(b"").usage is None
    assert facts_of(line(type="result")).usage is None
