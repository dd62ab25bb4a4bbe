"""Answers of LiteLLM 1.106.2, and the provider's original answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from youbencha.gateway.litellm.translate import ErrorAnswer, provider_error, provider_headers

MORE = "\n\nLiteLLM: model group 'm' failed with the error above. No fallback was attempted."


def wrapped(kind: str, said: str) -> bytes:
    return json.dumps({"error": {"message": f"litellm.{kind} - {said}{MORE}", "type": "api_error"}}).encode()


@pytest.mark.parametrize(
    ("given", "kind", "status"),
    [
        (500, "overloaded_error", 529),
        (400, "request_too_large", 413),
        (429, "rate_limit_error", 429),
        (500, "api_error", 500),
        (400, "invalid_request_error", 400),
    ],
)
def test_an_error_is_unwrapped_with_its_status(given: int, kind: str, status: int) -> None:
    original = {"type": "error", "error": {"type": kind, "message": "say “{”"}, "request_id": "req_1"}
    restored = provider_error(given, wrapped("XError: AnthropicException", json.dumps(original)))
    assert (restored.status, json.loads(restored.body)) == (status, original)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Internal Server Error",
        b"[]",
        b'{"error": "no"}',
        b'{"error": {"message": 3}}',
        wrapped("RateLimitError: OpenAIException", "as shown"),
        wrapped("RateLimitError: OpenAIException", "{not json"),
        wrapped("APIError: X", '{"no": "error in here"}'),
        json.dumps({"error": {"message": 'the model said {"error": {"type": "overloaded_error"}}'}}).encode(),
    ],
)
def test_other_errors_are_unchanged(body: bytes) -> None:
    assert provider_error(500, body) == ErrorAnswer(500, body)


def test_provider_headers_get_their_names_back() -> None:
    given: dict[str, Any] = {
        "llm_provider-retry-after": "7",
        "llm_provider-x-ratelimit-remaining-requests": "3",
        "llm_provider-content-type": "text/html",
        "llm_provider-transfer-encoding": "chunked",
        "x-litellm-model-api-base": "http://inside",
        "Content-Type": "application/json",
    }
    assert provider_headers(given.items()) == {
        "retry-after": "7",
        "x-ratelimit-remaining-requests": "3",
        "Content-Type": "application/json",
    }
