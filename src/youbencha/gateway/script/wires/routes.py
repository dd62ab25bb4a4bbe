"""The API that a request speaks, as the scripted model speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from youbencha.gateway.routes import Action, WireName, route_of
from youbencha.gateway.script.wires.anthropic import AnthropicMessages
from youbencha.gateway.script.wires.gemini import Gemini
from youbencha.gateway.script.wires.openai_chat import OpenAIChat
from youbencha.gateway.script.wires.openai_responses import OpenAIResponses
from youbencha.gateway.script.wires.wire import Wire

ANTHROPIC = AnthropicMessages()
"""Also what is spoken to a client whose path tells nothing."""

_WIRES: Mapping[WireName, Wire] = {wire.name: wire for wire in (ANTHROPIC, OpenAIChat(), OpenAIResponses(), Gemini())}


class Endpoint(NamedTuple):
    wire: Wire
    action: Action


def endpoint_of(method: str, path: str, headers: Mapping[str, str]) -> Endpoint | None:
    route = route_of(method, path, headers)
    return Endpoint(_WIRES[route.wire], route.action) if route else None
