"""Aider's adapter on recorded sessions: the log, the files that are kept, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aider_bench import DONE, MODEL, event
from recorded_cli import AIDER_FILES, Played, RecordedCli, files_of, transcript

from systems import posix_only
from youbencha.adapters.aider import AiderAdapter

pytestmark = posix_only("the recorded CLI is a shell script")

EDIT, FILES = transcript("aider_edit-0.86.2.txt"), files_of("aider_edit-0.86.2")
KEY = "sk-recorded-0123456789abcdef"


@pytest.fixture
def cli(tmp_path: Path) -> RecordedCli:
    return RecordedCli(tmp_path, AiderAdapter)


async def play(cli: RecordedCli, stdout: str = EDIT, files: dict[str, str] = FILES, **more: Any) -> Played:
    return await cli.play(stdout, before=more.pop("before", AIDER_FILES), files=files, model=MODEL, **more)


def analytics(*events: dict[str, Any]) -> dict[str, str]:
    return {"analytics.jsonl": "".join(json.dumps(each) + "\n" for each in (event("launched"), *events))}


async def test_a_complete_session(cli: RecordedCli) -> None:
    files = {name: text.replace("I write.", f"I write {KEY}.") for name, text in FILES.items()}
    played = await play(cli, EDIT.replace("I write.", f"I write {KEY}."), files, env={"ANTHROPIC_API_KEY": KEY})
    result, log = played.result, played.log
    assert (result.status, result.errors, result.warnings) == ("success", (), ())
    assert [message.role for message in log.messages] == ["user", "assistant"]
    assert log.messages[1].content.startswith("I write [REDACTED].\n\nhello.txt\n```\n<<<<<<< SEARCH")
    assert [(call.name, json.loads(call.arguments)) for call in log.tool_calls] == [("edit", {"path": "hello.txt"})]
    assert (log.model_info.name, log.model_info.provider, log.turns) == (MODEL, "anthropic", 1)
    assert log.usage is not None
    assert log.usage.model_dump(exclude_none=True) == {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "cache_read_tokens": 0,
        "cache_creation_tokens": 0,
        "cost_usd": pytest.approx(0.0006),
        "cost_source": "agent",
        "partial": False,
    }
    kept = {path.name: path.read_text() for path in (cli.artifacts / "aider-logs").iterdir()}
    assert {"analytics.jsonl", "calls.jsonl", "llm-history.txt"} < set(kept)
    assert not [name for name, content in kept.items() if KEY in content]


async def test_the_last_answer_of_a_long_conversation_is_kept(cli: RecordedCli) -> None:
    """Aider records every request in full, so that its file grows with the square of the session."""
    request = "TO LLM 2026-01-01T00:00:00\n" + f"USER {'x' * 1000}\n" * 12_000
    last = "LLM RESPONSE 2026-01-01T00:00:01\nASSISTANT Nothing is left\nASSISTANT to do.\n"
    played = await play(cli, files={**FILES, "llm-history.txt": FILES["llm-history.txt"] + request + last})
    first, second = (message.content for message in played.log.messages if message.role == "assistant")
    assert first.startswith("I write.")
    assert second == "Nothing is left\nto do."


async def test_unwritable_logs_do_not_fail_the_run(cli: RecordedCli) -> None:
    """There is something else in the place of one of them."""
    (cli.artifacts / "aider-logs" / "llm-history.txt").mkdir(parents=True)
    played = await play(cli)
    assert played.result.status == "success"
    assert played.log.usage is not None


async def test_an_unguarded_aider(cli: RecordedCli) -> None:
    played = await play(cli, before=AIDER_FILES.replace('touch "$scratch/guarded"; ', ""))
    assert (played.result.status, played.codes()) == ("failed", ["AIDER_EXECUTION_ERROR"])
    assert (played.result.errors[0].context or {})["kind"] == "not_guarded"


async def test_an_exception_is_the_error(cli: RecordedCli) -> None:
    """Where Aider said nothing that is known."""
    raised = event("message_send_exception", exception="LLM Provider NOT provided")
    played = await play(cli, "Something.\n", analytics(event("message_send_starting"), raised, DONE))
    assert (played.result.status, played.codes()) == ("failed", ["AIDER_API_ERROR"])
    assert (played.result.errors[0].context or {})["kind"] == "model_not_found"


async def test_an_aider_without_an_exit_event(cli: RecordedCli) -> None:
    files = {**FILES, **analytics(event("message_send_starting"), event("message_send"))}
    played = await play(cli, files=files)
    assert (played.result.status, played.codes()) == ("failed", ["AIDER_NO_RESULT"])
    assert played.log.usage is not None
    assert played.log.usage.partial


async def test_a_crash(cli: RecordedCli) -> None:
    played = await play(cli, ending="kill -9 $$")
    assert (played.result.status, played.codes()) == ("failed", ["AIDER_CRASHED"])
