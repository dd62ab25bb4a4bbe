"""The Messages API: what Claude Code speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.gateway.routes import Action
from youbencha.gateway.script.asked import Asked, Incoming, Required, Said, asked, complaint, mappings, texts_of
from youbencha.gateway.script.format import Answer
from youbencha.gateway.script.tokens import Tokens
from youbencha.gateway.script.wires.anthropic_errors import error_body
from youbencha.gateway.script.wires.anthropic_message import message_events, message_json
from youbencha.gateway.script.wires.wire import MODEL_WITHOUT_NAME, Event, Message, Wire

_COUNTED: tuple[Required, ...] = (("model", (str,), "text"), ("messages", (list,), "a list"))
_ANSWERED: tuple[Required, ...] = (_COUNTED[0], ("max_tokens", (int,), "a whole number"), _COUNTED[1])
"""To count tokens, a client need not say how many it wants back."""


class AnthropicMessages(Wire):
    name = "anthropic-messages"
    request_id_header = "request-id"
    bad_key = "invalid x-api-key"

    def complaint(self, request: Incoming, action: Action) -> str | None:
        if wrong := complaint(request.body, _ANSWERED if action is Action.ANSWER else _COUNTED):
            return wrong
        return None if request.body["messages"] else "messages: at least one message is required"

    def asked(self, request: Incoming) -> Asked:
        body = request.body
        talk = [Said(str(m.get("role")), tuple(texts_of(m.get("content")))) for m in mappings(body["messages"])]
        first = next((said for said in talk if said.role == "user"), None)
        return asked(
            session=session_of(request),
            model=body["model"],
            stream=body.get("stream") is True,
            has_tools=bool(body.get("tools")),
            system="\n".join(texts_of(body.get("system"))),
            prompt="\n".join(first.texts if first else ()),
            talk=talk,
        )

    def message(self, answer: Answer, model: str, tokens: Tokens, request: Incoming) -> Message:
        return message_json(answer, model, tokens)

    def events(self, message: Message, request: Incoming) -> list[Event]:
        return list(message_events(message))

    def is_delta(self, event: Event) -> bool:
        return bool(event["type"] == "content_block_delta")

    def error_body(self, status: int, message: str | None, kind: str | None, request_id: str | None) -> Message:
        return error_body(status, message, kind, request_id)

    def error_event(self, body: Message, begun: list[Event]) -> Event:
        return body

    def models(self, name: str | None) -> Message:
        shown = name or MODEL_WITHOUT_NAME
        model = {"type": "model", "id": shown, "display_name": shown, "created_at": "2025-01-01T00:00:00Z"}
        return {"data": [model], "has_more": False, "first_id": shown, "last_id": shown}

    def counted(self, tokens: int) -> Message:
        return {"input_tokens": tokens}


def session_of(request: Incoming) -> str:
    """Who is asking. Claude Code sends the header from 2.1.86 on, and has its session in the user id before."""
    metadata: Any = request.body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    return request.headers.get("x-claude-code-session-id") or (user if isinstance(user, str) else "") or request.key
