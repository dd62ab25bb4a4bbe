"""A result -> YouBenchaLog: the contract CR-3.1 to CR-3.11, on text, on real streams, on broken ones."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from stream_samples import (
    AT,
    INIT,
    RESULT,
    TRANSCRIPTS,
    VERSIONS,
    assistant,
    line,
    lines,
    log_of,
    session_of,
    text,
    tool_result,
    tool_use,
    transcript,
    user,
)

from youbencha.adapters.claude_code.control import ControlProtocol
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.control import SessionMetrics
from youbencha.json_lines import decode
from youbencha.log.model import ErrorRecord, Usage, YouBenchaLog

SEED = "Model: claude-sonnet-4\nInput tokens: 100\nOutput tokens: 200\n[TOOL: read_file] test.ts"
MARKER = "\n[OUTPUT TRUNCATED: the limit of 10MB (10485760 bytes) was reached]\n"
ALL = sorted(path.stem for path in TRANSCRIPTS.glob("*.ndjson"))


def messages(log: YouBenchaLog):
    return [(message.role, message.content) for message in log.messages]


def calls(log: YouBenchaLog):
    return [(call.name, json.loads(call.arguments), call.result, call.is_error) for call in log.tool_calls]


@pytest.mark.parametrize("name", ALL)
def test_cr_3_1_every_transcript_gives_a_valid_log(name):
    log = log_of(transcript(name), config={"prompt": "go"})
    assert YouBenchaLog.model_validate(log.model_dump()) == log
    assert YouBenchaLog.model_validate_json(log.model_dump_json()) == log


def test_cr_3_2_agent_info():
    log = log_of(transcript("simple-2.1.325"), agent_version="2.0.1")
    assert (log.agent_info.name, log.agent_info.version) == ("claude-code", "2.1.325")
    assert log.agent_info.adapter_version == "1.0.0"
    assert log_of("Claude Code v1.2.3\nhello").agent_info.version == "1.2.3"
    assert log_of("hello", agent_version="2.0.1").agent_info.version == "2.0.1"
    assert log_of(transcript("simple-1.0.128"), agent_version="1.0.128").agent_info.version == "1.0.128"
    assert log_of("hello").agent_info.version == "unknown"


def test_cr_3_3_model_from_the_output():
    for output, model in ((SEED, "claude-sonnet-4"), (transcript("simple-2.1.197"), "claude-opus-4-8")):
        log = log_of(output, config={"model": "claude-other"})
        assert (log.model_info.name, log.model_info.provider) == (model, "anthropic")


def test_a_byte_order_mark_is_skipped():
    assert log_of("\ufeffModel: gpt-5\nDone.").model_info.name == "gpt-5"
    assert log_of(b"\xef\xbb\xbf" + transcript("simple-2.1.197")).model_info.name == "claude-opus-4-8"


def test_cr_3_4_model_from_the_configuration():
    assert log_of("hello", config={"model": "claude-haiku-4-5"}).model_info.name == "claude-haiku-4-5"
    assert log_of("hello").model_info.name == "unknown"
    assert log_of("hello", config={"model": ""}).model_info.name == "unknown"


def test_cr_3_5_execution():
    times = {"started_at": AT, "completed_at": "2026-01-01T00:00:05Z", "duration_ms": 5000}
    log = log_of("x", exit_code=-1, status="timeout", **times)
    assert log.execution.model_dump() == {**times, "exit_code": -1, "status": "timeout"}


def test_cr_3_6_messages_of_a_stream():
    log = log_of(transcript("multi_tool-2.1.325"), config={"prompt": "Write two files"})
    assert messages(log) == [
        ("user", "Write two files"),
        ("assistant", "I will write two files at once."),
        ("assistant", "All files written and checked."),
    ]
    assert log.messages[1].timestamp == "2026-11-15T18:28:50.552Z"


def test_cr_3_6_messages_of_a_text():
    log = log_of("\x1b[32mIt is done.\x1b[0m\r\nReally.\n", config={"prompt": "Do it"})
    assert messages(log) == [("user", "Do it"), ("assistant", "It is done.\nReally.")]
    assert messages(log_of("  \n")) == []
    assert messages(log_of("", config={"prompt_file": "task.md"})) == []
    assert messages(log_of("", config={"prompt": 7})) == []


def test_cr_3_6_messages_of_subagents_name_their_parent():
    log = log_of(transcript("subagent-2.1.197"))
    said = [(message.role, message.content, message.parent is not None) for message in log.messages]
    assert ("user", "do the sub thing", True) in said
    assert said[-1] == ("assistant", "Sub or main done.", False)
    assert any(call.parent for call in log.tool_calls)


def test_cr_3_6_prompt_that_was_replayed_is_not_doubled():
    log = log_of(lines(line(**INIT), user(text("Do it")), assistant(text("Done"))), config={"prompt": "Do it"})
    assert messages(log) == [("user", "Do it"), ("assistant", "Done")]


def test_cr_3_7_tool_calls_of_a_text():
    (call,) = log_of(SEED).tool_calls
    assert (call.name, call.arguments, call.result) == ("read_file", "test.ts", None)


@pytest.mark.parametrize("version", VERSIONS)
def test_cr_3_7_tool_calls_of_a_stream(version):
    found = calls(log_of(transcript(f"multi_tool-{version}")))
    assert [(name, arguments) for name, arguments, _, _ in found] == [
        ("Write", {"file_path": "/workspace/a.txt", "content": "alpha\n"}),
        ("Bash", {"command": "echo beta > b.txt", "description": "Write b.txt"}),
        ("Read", {"file_path": "/workspace/a.txt"}),
    ]
    assert found[0][2].startswith("File created successfully at: /workspace/a.txt")
    assert "alpha" in found[2][2]
    assert not any(failed for _, _, _, failed in found)


def test_cr_3_7_failed_calls():
    found = calls(log_of(transcript("malformed_tool-2.1.325")))
    assert [(name, failed) for name, _, _, failed in found] == [
        ("NoSuchTool", True),
        ("Bash", True),
        ("Bash", True),
        ("Bash", True),
    ]
    assert found[2][1] == {"__unparsedToolInput": {"raw": '{"command": "echo tru', "len": 21}}
    assert found[3][2] == "Exit code 3"


def test_cr_3_7_results_find_their_calls_in_any_order():
    log = log_of(
        lines(
            line(**INIT),
            assistant(tool_use("a", "One"), tool_use("b", "Two"), tool_use("c", "Three"), tool_use(None, "Four")),
            user(tool_result("for b", "b"), tool_result("for nobody", "zzz"), tool_result("for a", "a")),
            assistant(tool_use("a", "One")),
        )
    )
    assert [(call.id, call.name, call.result) for call in log.tool_calls] == [
        ("a", "One", "for a"),
        ("b", "Two", "for b"),
        ("c", "Three", None),
        (None, "Four", None),
    ]
    assert log.tool_calls[2].is_error is None


def test_cr_3_8_usage_of_a_text():
    usage = log_of("Input tokens: 1234\nOutput tokens: 5678").usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1234, 5678, 6912)
    assert (usage.cost_usd, usage.partial) == (None, False)
    assert log_of("Input tokens: 1234").usage.total_tokens is None
    assert log_of("no numbers").usage is None


def test_cr_3_8_usage_of_a_stream():
    log = log_of(transcript("bg20-2.1.325"))
    usage = log.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3000, 75, 5325)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (2100, 150)
    assert (usage.cost_usd, usage.cost_source) == (0.014670000000000002, "agent")
    assert log.turns == 3
    assert log.session_id == "4d526519-bc70-4e68-b0d8-19a40729cf3c"
    assert log.environment == {"api_key_source": "ANTHROPIC_API_KEY"}


def test_cr_3_8_partial_messages_count_only_without_a_result():
    whole = transcript("partial-2.1.325").decode()
    cut = "\n".join(one for one in whole.split("\n") if '"type":"result"' not in one)
    assert (log_of(whole).usage.output_tokens, log_of(whole).usage.partial) == (50, False)
    assert (log_of(cut).usage.output_tokens, log_of(cut).usage.partial) == (50, True)
    assert log_of(cut).tool_calls == log_of(whole).tool_calls
    assert messages(log_of(cut)) == messages(log_of(whole)) == [("assistant", "Done: wrote hello.txt")]


@pytest.mark.parametrize("version", VERSIONS)
def test_unfinished_text_at_the_end_is_kept(version):
    whole = transcript(f"partial-{version}").decode().split("\n")
    last = max(index for index, one in enumerate(whole) if '"text_delta"' in one)
    log = log_of("\n".join(whole[: last + 1]))
    assert messages(log) == [("assistant", "Done: wrote hello.txt")]
    assert messages(log_of("\n".join(whole[:last]))) == [("assistant", "Done: wrote hell")]


def test_cr_3_9_ansi_is_removed_everywhere():
    red = "\x1b[31mred\x1b[0m\x1b[?25h"
    log = log_of(
        lines(line(**INIT), assistant(text(red), tool_use()), user(tool_result(red)), user(text(red))),
        config={"prompt": red},
    )
    assert messages(log) == [("user", "red"), ("assistant", "red"), ("user", "red")]
    assert log.tool_calls[0].result == "red"


def test_cr_3_10_errors_and_warnings_of_the_result():
    error = ErrorRecord(code="CLAUDE_TIMEOUT", message="timeout", timestamp=AT)
    warning = ErrorRecord(code="CLAUDE_TOOL_DENIED", message="denied", timestamp=AT)
    log = log_of("x", errors=(error,), warnings=(warning,), status="timeout")
    assert (log.errors, log.warnings) == ((error,), (warning,))


@pytest.mark.parametrize(
    "output",
    [
        "some text" + MARKER,
        "some text [OUTPUT TRUNCATED - exceeded 10MB limit]",
        "[OUTPUT TRUNCATED]",
        transcript("simple-2.1.325").decode()[:3000] + MARKER,
        transcript("simple-2.1.325").decode()[:3000] + MARKER.strip(),
        "a" + MARKER + "late stderr\n",
    ],
)
def test_cr_3_11_truncation(output):
    (error,) = log_of(output).errors
    assert error.code == "CLAUDE_OUTPUT_TRUNCATED"
    assert "10MB" in error.message
    assert "truncated" in error.message
    assert log_of(output).warnings == ()


def test_cr_3_11_truncation_is_reported_once():
    error = ErrorRecord(code="CLAUDE_OUTPUT_TRUNCATED", message="truncated at 10MB", timestamp=AT)
    assert log_of("text" + MARKER, errors=(error,)).errors == (error,)


def test_cr_3_11_an_agent_that_quotes_the_marker_is_not_truncated():
    said = "prints [OUTPUT TRUNCATED: ...] at the end\n[OUTPUT TRUNCATED"
    output = lines(line(**INIT), assistant(text(said)), line(**{**RESULT, "result": said})).decode()
    assert log_of(output).errors == ()
    assert log_of(output.rstrip("\n")).errors == ()


def test_a_truncated_stream_keeps_what_came_before():
    whole = transcript("multi_tool-2.1.325").decode()
    log = log_of(whole[: whole.index('"name":"Read"')] + MARKER)
    assert [call.name for call in log.tool_calls] == ["Write", "Bash"]
    assert messages(log) == [("assistant", "I will write two files at once.")]
    assert log.usage.partial


def test_the_live_session_has_what_truncation_removed():
    whole = transcript("multi_tool-2.1.325")
    log = log_of(whole[:4000] + MARKER.encode(), session=session_of(whole))
    complete = log_of(whole)
    assert (log.messages, log.tool_calls) == (complete.messages, complete.tool_calls)
    assert (log.usage.output_tokens, log.usage.partial, log.turns) == (75, False, 4)
    assert log.model_info.name == "claude-opus-5-5"
    assert log.agent_info.version == "2.1.325"


PRINTED = sorted(
    path.name.removesuffix(".ndjson")
    for path in TRANSCRIPTS.glob("*.ndjson")
    if not path.name.endswith(".bidi.ndjson") and not path.name.startswith("noauth_text")
)


@pytest.mark.parametrize("name", PRINTED)
def test_the_log_is_the_same_from_the_live_session_and_from_the_output(name):
    data = transcript(name)
    assert log_of(data, session=session_of(data)) == log_of(data)


@pytest.mark.parametrize("name", PRINTED)
def test_the_metrics_sidecar_agrees_with_the_log(name):
    metrics = SessionMetrics()
    for one in transcript(name).split(b"\n"):
        if (record := decode(one)) is not None:
            metrics.on_record(record)
    sidecar = metrics.sidecar(ControlProtocol("go", now=0.0))
    log = log_of(transcript(name))
    usage = log.usage or Usage(partial=True)
    kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "partial")
    assert [sidecar[kind] for kind in kinds] == [getattr(usage, kind) for kind in kinds]
    assert (sidecar["turns"], sidecar["session_id"]) == (log.turns, log.session_id)
    assert (sidecar["model"] or "unknown", sidecar["total_cost_usd"]) == (log.model_info.name, usage.cost_usd)
    called = {call.name for call in log.tool_calls}
    assert set(sidecar["tools_used"]) <= called
    if "deny" not in name and "automode" not in name:
        assert set(sidecar["tools_used"]) == called


def test_unfinished_text_is_kept_unless_it_is_restarted():
    def piece(said):
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": said}}
        return line(type="stream_event", event=delta, parent_tool_use_id=None)

    retry = line(type="system", subtype="api_retry", attempt=1, error_status=529, error="overloaded")
    cut = lines(line(**INIT), piece("Hel"), piece("lo"))
    assert messages(log_of(cut)) == [("assistant", "Hello")]
    assert messages(log_of(lines(cut, retry, piece("Hi"), piece(" there")))) == [("assistant", "Hi there")]
    assert messages(log_of(lines(cut, assistant(tool_use())))) == []


@pytest.mark.parametrize(
    "output",
    [
        SEED,
        lines(line(type="assistant", message={"content": [text(SEED)]}), line(type="result", subtype="success")),
    ],
)
@pytest.mark.parametrize("live", [True, False])
def test_what_nothing_measured_is_taken_from_the_text_and_marked(output, live):
    data = output if isinstance(output, bytes) else b""
    log = log_of(output, session=session_of(data) if live else None, config={"model": "claude-configured"})
    assert messages(log) == [("assistant", SEED)]
    assert log.model_info.name == "claude-sonnet-4"
    assert (log.usage.input_tokens, log.usage.output_tokens, log.usage.cost_usd) == (100, 200, None)
    assert [(call.name, call.arguments) for call in log.tool_calls] == [("read_file", "test.ts")]
    (warning,) = log.warnings
    assert (warning.code, log.claims) == ("CLAUDE_TAKEN_FROM_TEXT", ("model", "usage", "tool_calls"))
    without = log.without_claims()
    assert (without.usage, without.tool_calls_known, without.warnings) == (None, False, ())
    assert without.model_info.name == "claude-configured"


def test_what_was_measured_always_wins():
    said = assistant(text(SEED + "\nClaude Code v9.9.9"))
    measured = lines(line(**INIT), said, line(**{**RESULT, "usage": {"input_tokens": 5, "output_tokens": 6}}))
    log = log_of(measured, agent_version="2.1.325")
    assert (log.model_info.name, log.agent_info.version) == ("claude-x", "2.1.325")
    assert (log.usage.input_tokens, log.usage.output_tokens) == (5, 6)
    assert (log.tool_calls, log.warnings) == ((), ())
    assert log_of("Claude Code v9.9.9", agent_version="2.1.325").agent_info.version == "2.1.325"


def test_a_claim_is_dropped_when_it_is_measured_after_all():
    log = log_of(SEED).without_claims(("usage", "model"))
    assert (log.usage, log.model_info.name, len(log.tool_calls)) == (None, "unknown", 1)
    assert log.claims == ("tool_calls",)
    assert "tool calls" in log.warnings[0].message
    assert "tokens" not in log.warnings[0].message


def test_stderr_between_the_lines_of_a_stream():
    parts = transcript("tool_use-2.1.325").decode().split("\n")
    clean = log_of("\n".join(parts))
    mixed = "warning: x\n" + "\n[claude-code:unrecognized_model] {}\n\x1b[33mnote\x1b[0m\n".join(parts)
    assert log_of(mixed) == clean


def test_lines_of_a_terminal():
    whole = transcript("tool_use-2.1.197").decode()
    dressed = "\x1b7" + whole.replace("\n", "\r\n") + "\x1b[?25h\x1b[<u\r\n"
    assert log_of(dressed) == log_of(whole)
    assert log_of(" " + whole) == log_of(whole)


def test_line_separators_inside_a_text_do_not_split_a_line():
    said = "one\u2028two\u2029three\x85four\x0bfive\x0csix"
    raw = json.dumps({"type": "assistant", "message": {"content": said}}, ensure_ascii=False)
    assert messages(log_of(line(**INIT).decode() + "\n" + raw)) == [("assistant", said)]


def test_malformed_events_are_a_warning():
    output = lines(line(**INIT), b'{"type":"assist', b"{broken", line(**RESULT))
    (warning,) = log_of(output).warnings
    assert (warning.code, warning.context["lines"]) == ("CLAUDE_MALFORMED_LINE", 2)
    assert log_of(output, warnings=(warning,)).warnings == (warning,)


def test_unrelated_json_is_text():
    output = '{"type":"log","level":"info"}\n{"a":1}'
    assert messages(log_of(output)) == [("assistant", output)]
    assert log_of(output).warnings == ()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-11-15T18:28:50.552Z", True),
        ("2026-11-15T18:28:50+02:00", True),
        ("2026-13-15T18:28:50Z", False),
        ("2026-11-15T18:28:50", False),
        ("yesterday", False),
        (17, False),
    ],
)
def test_valid_and_invalid_timestamps(given, kept):
    log = log_of(lines(line(**INIT), assistant(text("x"), timestamp=given)))
    assert log.messages[0].timestamp == (given if kept else None)


def test_lone_surrogates_do_not_break_the_log():
    for output in ("text \udcff", lines(line(**INIT), assistant(text("@"))).decode().replace("@", "\udcff")):
        log = log_of(output, config={"prompt": "half \ud83d"})
        assert log.model_dump_json()
        assert log.messages[0].content == "half ?"


USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 700, "output_tokens": 1}
WORDS = 'def run(self):\n    return "value"  # path/to/file.py\n'
REST = {"session_id": "7d5f1d1e-1111-2222-3333-444444444444", "parent_tool_use_id": None, "uuid": "u" * 36}


def compact(**record) -> str:
    return json.dumps(record, separators=(",", ":"))


def turn(number: int) -> list[str]:
    """One call to the model with partial messages: many short lines, three long ones."""
    said = WORDS * (4, 20, 60, 160)[number % 4]
    seen = WORDS * (2, 200, 20, 100)[number % 4]
    head = {"id": f"msg_{number}", "role": "assistant", "model": "claude-x", "usage": USAGE, "stop_reason": None}

    def partial(**event):
        return compact(type="stream_event", event=event, **REST)

    def block(**content):
        return compact(type="assistant", message={**head, "content": [content]}, **REST)

    pieces = (said[at : at + 40] for at in range(0, len(said), 40))
    deltas = [partial(type="content_block_delta", delta={"type": "text_delta", "text": piece}) for piece in pieces]
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": seen}
    return [
        partial(type="message_start", message=head),
        *deltas,
        block(type="text", text=said),
        block(type="tool_use", id=f"t{number}", name="Bash", input={"command": WORDS}),
        partial(type="message_delta", usage={"output_tokens": 25}),
        compact(type="user", message={"content": [result]}, tool_use_result={"stdout": seen}, **REST),
    ]


def stream(size: int) -> tuple[str, int]:
    parts, length, turns = [compact(**INIT)], 0, 0
    while length < size:
        added = turn(turns)
        turns += 1
        length += sum(map(len, added))
        parts += added
    return "\n".join([*parts, compact(**RESULT), ""]), turns


def test_a_long_session_is_normalized_completely():
    output, turns = stream(10_000_000)
    log = log_of(output)
    assert (len(log.messages), len(log.tool_calls)) == (turns, turns)
    assert all(call.result for call in log.tool_calls)


def test_the_end_of_an_endless_text_is_kept():
    reader = OutputReader(ClaudeCode, ClaudeStreamReader())
    tracemalloc.start()
    for piece in [*["x" * 1_000_000] * 100, "the end"]:
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
        reader.line(compact(type="stream_event", event=delta, **REST))
    reader.finish()
    session = reader.session()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (message,) = session.messages
    assert message.content.startswith("[80,")
    assert message.content.endswith("the end")
    assert session.left_out.characters
    assert peak < 80_000_000


def test_nfr_1_memory():
    output, _ = stream(10_000_000)
    log_of(output[:100_000])
    tracemalloc.start()
    log = log_of(output)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.messages
    assert peak < 20_000_000
