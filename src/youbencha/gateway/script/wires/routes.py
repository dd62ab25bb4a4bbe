"""Which path belongs to which API. Prefixes of a path do not matter: base URLs have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from youbencha.gateway.script.wires.anthropic import AnthropicMessages
from youbencha.gateway.script.wires.gemini import Gemini
from youbencha.gateway.script.wires.openai_chat import OpenAIChat
from youbencha.gateway.script.wires.openai_responses import OpenAIResponses
from youbencha.gateway.script.wires.wire import Action, Wire

ANTHROPIC = AnthropicMessages()
"""Also what is spoken to a client whose path tells nothing."""
_CHAT = OpenAIChat()
_GEMINI = Gemini()


class Endpoint(NamedTuple):
    method: str
    path: str
    wire: Wire
    action: Action


_ENDPOINTS = (
    Endpoint("POST", r"/v1/messages", ANTHROPIC, Action.ANSWER),
    Endpoint("POST", r"/v1/messages/count_tokens", ANTHROPIC, Action.COUNT),
    Endpoint("POST", r"/v1/chat/completions", _CHAT, Action.ANSWER),
    Endpoint("POST", r"/v1/responses", OpenAIResponses(), Action.ANSWER),
    Endpoint("POST", r"/v1(?:alpha|beta)?/models/[^/:]+:(?:g|streamG)enerateContent", _GEMINI, Action.ANSWER),
    Endpoint("POST", r"/v1(?:alpha|beta)?/models/[^/:]+:countTokens", _GEMINI, Action.COUNT),
    Endpoint("GET", r"/v1/models", ANTHROPIC, Action.MODELS),
    Endpoint("GET", r"/v1(?:alpha|beta)/models", _GEMINI, Action.MODELS),
)


def endpoint_of(method: str, path: str, headers: Mapping[str, str]) -> Endpoint | None:
    fitting = (each for each in _ENDPOINTS if each.method == method and re.search(f"{each.path}/?$", path))
    found = next(fitting, None)
    if found and found.action is Action.MODELS and found.wire is ANTHROPIC:
        return found._replace(wire=_of_client(headers))
    return found


def _of_client(headers: Mapping[str, str]) -> Wire:
    """Three APIs list their models under one path: then the client's own headers tell."""
    if "x-goog-api-key" in headers:
        return _GEMINI
    bearer_only = "authorization" in headers and "anthropic-version" not in headers
    return _CHAT if bearer_only else ANTHROPIC
