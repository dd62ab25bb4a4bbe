"""Real transcripts and small builders, shared by the tests of the output side."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.cli_agent.stream import OutputReader
from youbencha.events import Event, WarningRaised
from youbencha.log.model import YouBenchaLog
from youbencha.log.session import SessionFacts, SessionRecord

TRANSCRIPTS = Path(__file__).parent.parent / "data" / "transcripts"
AT = "2026-01-01T00:00:00.000Z"
VERSIONS = ("1.0.128", "2.1.30", "2.1.197", "2.1.325")


def transcript(name: str) -> bytes:
    return (TRANSCRIPTS / f"{name}.ndjson").read_bytes()


def line(**record: Any) -> bytes:
    return json.dumps(record).encode()


def assistant(*blocks: Any, id: str = "msg_1", model: str = "claude-x", **more: Any) -> bytes:
    message = {"id": id, "model": model, "role": "assistant", "content": list(blocks), **more.pop("message", {})}
    return line(type="assistant", message=message, **more)


def user(*blocks: Any, **more: Any) -> bytes:
    return line(type="user", message={"role": "user", "content": list(blocks)}, **more)


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


def tool_use(id: str | None = "t1", name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def tool_result(content: Any, id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "done"}
INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-x", "tools": ["Bash"]}


def feed(data: bytes) -> tuple[OutputReader, list[Event]]:
    """A reader that has read all of it, and what it passed on."""
    events: list[Event] = []
    reader = OutputReader(ClaudeCode, ClaudeStreamReader(), on_event=events.append)
    for one in data.split(b"\n"):
        reader.line(one)
    reader.finish()
    return reader, events


def facts_of(data: bytes) -> SessionFacts:
    return feed(data)[0].facts()


def session_of(data: bytes) -> SessionRecord:
    return feed(data)[0].session()


def lines(*parts: bytes) -> bytes:
    return b"\n".join(parts) + b"\n"


def ended(output: str = "", **more: Any) -> AgentExecutionResult:
    given: dict[str, Any] = {
        "exit_code": 0,
        "status": "success",
        "started_at": "2025-11-25T10:00:00Z",
        "completed_at": "2025-11-25T10:01:00Z",
        "duration_ms": 60_000,
        **more,
    }
    return AgentExecutionResult(output=output, **given)


def context(**config: Any) -> AgentExecutionContext:
    here = Path("workspace")
    return AgentExecutionContext(workspace_dir=here, repo_dir=here, artifacts_dir=here, config=config)


def log_of(output: str | bytes, *, config: dict[str, Any] | None = None, **result: Any) -> YouBenchaLog:
    text = output if isinstance(output, str) else output.decode("utf-8", "replace")
    return ClaudeCodeAdapter({}).normalize_log(ended(text, **result), context(**(config or {})))


def parse_line(line: bytes | str) -> list[Event]:
    """What one complete line says, as the first of its session."""
    return parse_lines([line])


def parse_lines(lines: Iterable[bytes | str]) -> list[Event]:
    events: list[Event] = []
    reader = _AllEvents(events)
    for line in lines:
        reader.line(line)
    return events


class _AllEvents(OutputReader):
    """Notes the events of the stream as they are read, and warnings about lines that are none."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__(ClaudeCode, ClaudeStreamReader(), on_event=self._on_warning)
        self._events = events

    def on_event(self, event: Event) -> None:
        self._events.append(event)

    def _on_warning(self, event: Event) -> None:
        if isinstance(event, WarningRaised):
            self._events.append(event)
