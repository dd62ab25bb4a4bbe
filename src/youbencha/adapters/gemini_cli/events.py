"""Read the events of Gemini CLI (`--output-format stream-json`, as of 0.61)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from youbencha.adapters.cli_agent import CallFailed, CallMetered, Handler, StreamReader, codes
from youbencha.adapters.cli_agent.causes import read_api_body
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    Event,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    UsageReported,
    WarningRaised,
)
from youbencha.json_lines import Record, as_count, as_mapping, as_str
from youbencha.usage import Tokens

_API_ERROR = re.compile(r"^\[API Error: (?P<body>.*)\]\s*$", re.DOTALL)


class GeminiCliReader(StreamReader):
    """A text arrives in pieces without an end marker: it ends where something else begins."""

    def __init__(self) -> None:
        self._draft: list[str] = []
        self._sent_at: str | None = None
        self._tools: dict[str, str] = {}

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "init": self._started,
            "message": self._message,
            "tool_use": self._tool_called,
            "tool_result": self._tool_returned,
            "error": self._error,
            "result": self._result,
        }

    def finish(self) -> Iterable[Event]:
        return self._ended_text()

    def _started(self, record: Record) -> Iterator[Event]:
        yield SessionStarted(
            session_id=as_str(record.get("session_id")), model=as_str(record.get("model")), agent_version=None
        )

    def _message(self, record: Record) -> Iterator[Event]:
        """Read a message of the model; the repeated prompt is skipped."""
        if record.get("role") != "assistant":
            return
        content = as_str(record.get("content")) or ""
        if record.get("delta") is True:
            self._sent_at = self._sent_at or as_str(record.get("timestamp"))
            self._draft.append(content)
            yield AssistantTextDelta(text=content)
        else:
            yield from self._ended_text()
            yield AssistantText(text=content, sent_at=as_str(record.get("timestamp")))

    def _tool_called(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        call_id, name = as_str(record.get("tool_id")), as_str(record.get("tool_name")) or "unknown"
        if call_id is not None:
            self._tools[call_id] = name
        yield ToolCalled(call_id=call_id, name=name, arguments=as_mapping(record.get("parameters")))

    def _tool_returned(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        call_id, error = as_str(record.get("tool_id")), as_mapping(record.get("error"))
        name = self._tools.pop(call_id or "", "unknown")
        if error.get("type") == "policy_violation":
            yield ToolDenied(call_id=call_id, name=name)
        output = as_str(record.get("output"))
        content = output if output is not None else as_str(error.get("message")) or ""
        yield ToolReturned(call_id=call_id, content=content, is_error=record.get("status") == "error")

    def _error(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        message = as_str(record.get("message")) or ""
        if record.get("severity") == "error":
            yield CallFailed(kind=None, status=None, text=message)
        else:
            yield WarningRaised(code=f"GEMINI_{codes.NOTICE}", message=message)

    def _result(self, record: Record) -> Iterator[Event]:
        yield from self._ended_text()
        stats, message = as_mapping(record.get("stats")), as_str(as_mapping(record.get("error")).get("message"))
        if stats:
            yield _usage(stats)
            # Only for the model: the tokens are in the sum.
            yield CallMetered(tokens=Tokens(), model=_model(as_mapping(stats.get("models"))))
        if message and (api := _API_ERROR.match(message)):
            body = read_api_body(api["body"])
            yield CallFailed(kind=None, status=body.status, text=body.message)
        yield SessionResult(
            subtype=as_str(record.get("status")),
            is_error=record.get("status") != "success",
            text=message,
            turns=None,
            duration_ms=as_count(stats.get("duration_ms")),
        )

    def _ended_text(self) -> Iterator[Event]:
        if self._draft:
            yield AssistantText(text="".join(self._draft), sent_at=self._sent_at)
        self._draft, self._sent_at = [], None


def _usage(stats: Record) -> UsageReported:
    """Read tokens. Thinking is only in the total; it counts as output, and is billed as such."""
    whole, prompt = as_count(stats.get("total_tokens")), as_count(stats.get("input_tokens"))
    written = whole - prompt if whole is not None and prompt is not None and whole >= prompt else None
    return UsageReported(
        input_tokens=as_count(stats.get("input")),
        output_tokens=written if written is not None else as_count(stats.get("output_tokens")),
        cache_read_tokens=as_count(stats.get("cached")),
    )


def _model(models: Record) -> str | None:
    """The model with the most tokens: the CLI also makes side requests to smaller ones."""
    return max(models, key=lambda name: as_count(as_mapping(models[name]).get("total_tokens")) or 0, default=None)
