"""Facts from the CLI's own session file that its output lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters.claude_code.own_files import with_session_file
from youbencha.log.session import SessionFacts, SessionRecord
from youbencha.usage import SessionUsage, Tokens

ID = "9de3ddb1-7c81-4804-9edf-c3e22697644e"


def said(key: str, output: int, model: str = "claude-x", stop: str | None = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": output, "cache_read_input_tokens": 7}
    return {"type": "assistant", "message": {"id": key, "model": model, "stop_reason": stop, "usage": usage}}


def record(config: Path, *records: object, name: str = ID) -> None:
    place = config / "projects" / "-some-where"
    place.mkdir(parents=True, exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each) for each in records]
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
