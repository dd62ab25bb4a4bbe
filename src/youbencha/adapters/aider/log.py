"""A log's conversation: what the model said, without what Aider said between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from youbencha.adapters.aider.session import EDIT, AiderFacts
from youbencha.log import Message, ToolCall, YouBenchaLog


def with_conversation(log: YouBenchaLog, details: Mapping[str, Any]) -> YouBenchaLog:
    """The output stands in a log as one message where nothing more is known of it."""
    session = details.get("session")
    if session is None:
        return log
    facts = AiderFacts.model_validate(session)
    asked = [message for message in log.messages if message.role == "user"]
    said = [Message(role="assistant", content=answer) for answer in facts.answers]
    return log.model_copy(update={"messages": (*asked, *said), "tool_calls": tuple(map(_edit, facts.edited))})


def _edit(path: str) -> ToolCall:
    return ToolCall(name=EDIT, arguments=orjson.dumps({"path": path}).decode(), is_error=False)
