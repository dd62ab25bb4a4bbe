"""Streams as the first descriptions of the format have them: no version of the CLI prints these."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from small_clis import small_cli
from stream_samples import log_of

from systems import posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.log.model import Usage, YouBenchaLog

pytestmark = posix_only("the small CLI is a shell script")

CALL = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
TOTAL = {"input_tokens": 30, "output_tokens": 9}
RESULT = {"type": "result", "result": "Done.", "usage": TOTAL}


async def run(
    directory: Path, *records: dict[str, Any], version: str = "2.1.325"
) -> tuple[AgentExecutionResult, YouBenchaLog]:
    (directory / "stream").write_text("".join(json.dumps(record) + "\n" for record in records))
    cli = small_cli(directory / "claude", version, rest=f'cat "{directory}/stream"')
    context = AgentExecutionContext(
        workspace_dir=directory,
        repo_dir=directory,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "Do it.", "executable": str(cli)},
        env={"ANTHROPIC_API_KEY": "sk-ant-dummy", "IS_SANDBOX": "1"},
    )
    adapter = ClaudeCodeAdapter(env={"PATH": os.environ["PATH"], "HOME": str(directory)})
    result = await adapter.execute(context)
    return result, adapter.normalize_log(result, context)


def numbers(usage: Usage | None) -> tuple[int | None, int | None, float | None, bool | None]:
    assert usage is not None
    return usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.partial


@pytest.mark.parametrize("known", [{}, {"is_error": False}, {"subtype": "success"}])
async def test_a_minimal_result_is_a_success_with_its_usage(tmp_path: Path, known: dict[str, Any]) -> None:
    result, log = await run(tmp_path, {**RESULT, **known})
    assert (result.status, result.errors) == ("success", ())
    assert numbers(log.usage) == (30, 9, None, False)


async def test_a_result_without_a_subtype_may_be_an_error(tmp_path: Path) -> None:
    result, _ = await run(tmp_path, {**RESULT, "is_error": True, "result": "It went wrong."})
    assert [error.code for error in result.errors] == ["CLAUDE_EXECUTION_ERROR"]
    assert "It went wrong." in result.errors[0].message


async def test_usage_alone_is_the_total_of_the_session(tmp_path: Path) -> None:
    call = {"type": "assistant", "message": {**CALL, "id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 3}}}
    _, log = await run(tmp_path, call, {**RESULT, "total_cost_usd": 0.5})
    assert numbers(log.usage) == (30, 9, 0.5, False)


@pytest.mark.parametrize(
    ("version", "cost_usd"), [("1.0.60", None), ("1.0.87", None), ("1.0.88", 0.5), ("1.0.112", 0.5)]
)
async def test_totals_that_a_version_gets_wrong_are_not_believed(
    tmp_path: Path, version: str, cost_usd: float | None
) -> None:
    call = {"type": "assistant", "message": {**CALL, "id": "msg_1", "usage": {"input_tokens": 15, "output_tokens": 4}}}
    _, log = await run(tmp_path, call, {**RESULT, "subtype": "success", "total_cost_usd": 0.5}, version=version)
    assert numbers(log.usage) == (15, 4, cost_usd, True)


@pytest.mark.parametrize(
    "calls",
    [
        [{"message": {**CALL, "id": id}, "usage": {"input_tokens": 10, "output_tokens": 3}} for id in "ab"],
        [{"message": {**CALL, "usage": {"input_tokens": 10, "output_tokens": 3}}}] * 2,
        [{"message": CALL, "usage": {"input_tokens": 10, "output_tokens": 3}}] * 2,
    ],
    ids=["beside the message", "without an id", "both"],
)
def test_usage_of_each_call_counts(calls: list[dict[str, Any]]) -> None:
    stream = [{"type": "assistant", **call} for call in calls] + [{"type": "result", "is_error": False}]
    log = log_of("\n".join(map(json.dumps, stream)))
    assert numbers(log.usage) == (20, 6, None, True)  # not the agent's own total
    assert log.turns == 2


def test_init_without_a_subtype_names_the_model_and_the_session() -> None:
    init = {"type": "system", "tools": ["Bash"], "model": "claude-x", "session_id": "s1"}
    log = log_of("\n".join(map(json.dumps, (init, RESULT))))
    assert (log.model_info.name, log.session_id) == ("claude-x", "s1")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([RESULT], ["Done."]),
        ([RESULT, RESULT], ["Done."]),
        ([{"type": "assistant", "message": CALL, "parent_tool_use_id": "t1"}, RESULT], ["Done.", "Done."]),
        ([{"type": "assistant", "message": CALL}, {**RESULT, "result": "Done. Again."}], ["Done."]),
        ([{**RESULT, "is_error": True}], []),
        ([{**RESULT, "result": ""}], []),
    ],
)
def test_the_text_of_a_result_is_the_answer_where_no_message_has_one(
    records: list[dict[str, Any]], said: list[str]
) -> None:
    log = log_of("\n".join(map(json.dumps, records)))
    assert [message.content for message in log.messages if message.role == "assistant"] == said


@pytest.mark.parametrize(
    ("output", "known"),
    [
        ("Done.", False),
        (json.dumps({**RESULT, "num_turns": 3}), False),
        (json.dumps({"type": "assistant", "message": CALL}), True),
    ],
    ids=["text", "only a result", "a conversation"],
)
def test_without_a_conversation_tool_calls_are_unknown(output: str, known: bool) -> None:
    log = log_of(output)
    assert (log.tool_calls, log.tool_calls_known) == ((), known)
