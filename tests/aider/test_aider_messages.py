"""How Aider's files and messages are read, without Aider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aider_bench import DONE, event

from youbencha.adapters import get_adapter
from youbencha.adapters.aider.agent import api_provider, gateway_variables, missing_key, provider_name
from youbencha.adapters.aider.records import model_answers, read_analytics, read_calls, read_messages
from youbencha.gateway.access import GatewayAccess
from youbencha.usage import Tokens

ACCESS = GatewayAccess("http://127.0.0.1:1", "virtual")
ANTHROPIC_402 = '{"type": "error", "error": {"type": "billing_error", "message": "spent"}, "request_id": "r"}'


@pytest.mark.parametrize(
    ("line", "kind", "status", "said"),
    [
        (f"litellm.APIConnectionError: AnthropicException - {ANTHROPIC_402}", "APIConnectionError", 402, "spent"),
        (
            'litellm.RateLimitError: RateLimitError: GeminiException - {"error": {"code": 429, "message": "m"}}',
            "RateLimitError",
            429,
            "m",
        ),
        ("litellm.APIError: APIError: OpenAIException - no", "APIError", None, "APIError: OpenAIException - no"),
        ("litellm.Timeout: x {y} z", "Timeout", 504, "x {y} z"),
        ("litellm.NotFoundError: x", "NotFoundError", 404, "x"),
    ],
)
def test_a_failure_in_a_litellm_message(line: str, kind: str, status: int | None, said: str) -> None:
    assert read_messages(f"Aider v0.86.2\n\n{line}\n", []).failure == (kind, status, said)


def test_model_text_is_not_an_aider_message() -> None:
    answer = "litellm.RateLimitError: x\nRetrying in 0.2 seconds...\nApplied edit to a.py\n\tOnly 3 \nEnd"
    output = f"Aider v0.86.2\n\n{answer.expandtabs()}\n\nTokens: 1 sent.\nApplied edit to b.py\n"
    assert read_messages(output, [answer]) == (None, (), ("b.py",), None)
    assert read_messages(output, []).edited == ("a.py", "b.py")


def test_retries() -> None:
    again = "litellm.RateLimitError: x\nThe API provider has rate limited you.\nRetrying in 0.2 seconds...\n"
    lost = "litellm.APIConnectionError: x\nRetrying in 0.5 seconds...\n"
    assert read_messages(again + again + lost, []).retries == (
        (429, "RateLimitError", 2),
        (None, "APIConnectionError", 1),
    )


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("Only 3 reflections allowed, stopping.", "reflections"),
        ("Model openai/gpt-4o has hit a token limit!", "token_limit"),
        ("I have hit a token limit!", None),
    ],
)
def test_limits(line: str, limit: str | None) -> None:
    assert read_messages(f"x\n{line}\n", []).limit == limit


def test_model_answers() -> None:
    history = (
        "TO LLM 2026-11-16T02:37:43\n-------\nUSER LLM RESPONSE 1\nUSER ASSISTANT no\n"
        "LLM RESPONSE 2026-11-16T02:37:44\nASSISTANT one\nASSISTANT \nASSISTANT   two\n"
        "TO LLM 2026-11-16T02:37:45\nASSISTANT one\n"
        "LLM RESPONSE 2026-11-16T02:37:46\n\n"
        "LLM RESPONSE 2026-11-16T02:37:47\nASSISTANT three"
    )
    assert list(model_answers(history.encode().splitlines(keepends=True))) == ["one\n\n  two", "three"]


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "no record\n")
    return path


def test_a_call_without_an_answer(tmp_path: Path) -> None:
    asked, answered = event("message_send_starting"), event("message_send", cost=0.5)
    read = read_analytics(lines(tmp_path / "a", event("launched"), asked, answered, asked, DONE))
    assert (read.asked, read.answered, read.unanswered, read.finished, read.cost_usd) == (2, 1, True, True, 0.5)
    read = read_analytics(lines(tmp_path / "a", asked, answered, asked, event("message_send", cost=0.0)))
    assert (read.unanswered, read.finished, read.cost_usd) == (False, False, None)  # it knows no price for one
    assert read_analytics(tmp_path / "none").launched is False


def test_tokens_of_calls(tmp_path: Path) -> None:
    openai = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    calls = read_calls(lines(tmp_path / "c", {"model": "m", "usage": openai}, {"model": "weak", "usage": None}))
    assert calls == ("m", (Tokens(6, 2, 4, None),), False)
    usage = calls.usage(1.0, cut_off=False)
    assert usage is not None
    assert (usage.partial, usage.cost_usd) == (True, None)
    assert read_calls(tmp_path / "none").usage(None, cut_off=False) is None


@pytest.mark.parametrize(
    ("model", "api", "name"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic", "anthropic"),
        ("claude-new", "anthropic", "anthropic"),
        ("sonnet", "anthropic", "anthropic"),
        ("gpt-5", "openai", "openai"),
        ("4o", "openai", "openai"),
        ("openai/local", "openai", "openai"),
        ("gemini", "gemini", "google"),
        ("gemini/gemini-2.5-pro", "gemini", "google"),
        ("openrouter/anthropic/claude-sonnet-4", None, "openrouter"),
        ("deepseek", None, "deepseek"),
        ("who-knows", None, None),
    ],
)
def test_api_of_a_model(model: str, api: str | None, name: str | None) -> None:
    assert (api_provider(model, {}), provider_name(model)) == (api, name)


def test_without_a_model_the_key_decides() -> None:
    one = {"GEMINI_API_KEY": "k"}
    assert api_provider(None, one) == "gemini"
    assert api_provider(None, {**one, "OPENAI_API_KEY": "k"}) is None
    assert api_provider(None, {}) is None


def test_gateway_variables() -> None:
    assert gateway_variables(ACCESS, "anthropic") == {
        "ANTHROPIC_API_BASE": "http://127.0.0.1:1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "ANTHROPIC_API_KEY": "virtual",
    }
    assert gateway_variables(ACCESS, "openai")["OPENAI_API_BASE"] == "http://127.0.0.1:1/v1"
    assert gateway_variables(ACCESS, "gemini") == {
        "GEMINI_API_BASE": "http://127.0.0.1:1/v1beta",
        "GEMINI_API_KEY": "virtual",
    }
    adapter = get_adapter("aider")
    given = {"AIDER_SET_ENV": "X=1", "OPENAI_API_KEY": "k", "MY": "own", "GEMINI_API_KEY": ""}
    assert set(adapter.credentials_in(given)) == {"AIDER_SET_ENV", "OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("model", "env", "missing"),
    [
        (None, {}, "there is no API key of any provider."),
        (None, {"GROQ_API_KEY": "k"}, None),
        ("sonnet", {"OPENAI_API_KEY": "k"}, "the model sonnet needs ANTHROPIC_API_KEY."),
        ("sonnet", {"ANTHROPIC_API_KEY": "k"}, None),
        ("gemini", {"GOOGLE_API_KEY": "k"}, None),
        ("ollama/x", {"OLLAMA_API_BASE": "u"}, None),
    ],
)
def test_which_key_is_missing(model: str | None, env: dict[str, str], missing: str | None) -> None:
    assert missing_key(model, env) == missing
