"""A model is unknown only if its provider shows that it is: it lists others, and finds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from youbencha.errors import ConfigError
from youbencha.gateway import model_check
from youbencha.gateway.access import Provider
from youbencha.gateway.model_check import check_models
from youbencha.gateway.upstreams import ConfiguredModel, KeyHeader, Upstream
from youbencha.scripted_model import ScriptedModel, parse_script

HEADERS: Mapping[Provider, KeyHeader] = {
    "anthropic": "x-api-key",
    "openai": "authorization",
    "gemini": "x-goog-api-key",
}
SCRIPT = "models: [claude-opus-5, claude-sonnet-5, gpt-6, gemini-4-pro]\nrequire_key: sk-real\nturns: [{text: a}]"


def use(url: str, model: str, provider: Provider = "anthropic", user: str = "agent") -> ConfiguredModel:
    return ConfiguredModel(Upstream(provider, url, "sk-real", HEADERS[provider]), model, user)


async def test_unknown_models_are_one_error() -> None:
    async with ScriptedModel(parse_script(SCRIPT)) as model:
        own_path = Upstream("openai", f"{model.url}/other/v1", "sk-real", "authorization", versioned=True)
        uses = [
            use(model.url, "claude-sonet-5", user="first"),
            use(model.url, "claude-sonet-5", user="second"),
            use(model.url, "anthropic/nothing-like-it"),
            ConfiguredModel(own_path, "gpt-66", "agent"),
            use(model.url, "gemini-pro-4", "gemini"),
            *(use(model.url, name) for name in ("claude-opus-5", "anthropic/claude-opus-5", "claude-opus-5[1m]")),
            use(model.url, "gemini/gemini-4-pro", "gemini"),
        ]
        with pytest.raises(ConfigError) as raised:
            await check_models(uses)
        asked = [request.path for request in model.requests]
    assert raised.value.code == "MODEL_UNUSABLE"
    assert [(problem.path, problem.hint) for problem in raised.value.problems] == [
        ("first, second", "did you mean 'claude-sonnet-5'?"),
        ("agent", "it knows claude-opus-5, claude-sonnet-5, gpt-6, gemini-4-pro"),
        ("agent", "did you mean 'gpt-6'?"),
        ("agent", "did you mean 'gemini-4-pro'?"),
    ]
    assert raised.value.problems[0].message == f"{uses[0].upstream.url} does not know the model claude-sonet-5"
    assert "sk-real" not in str(raised.value)
    assert asked.count("/v1/models/claude-sonet-5") == 1
    assert "/other/v1/models/gpt-66" in asked


LIST = {"data": [{"id": "claude-opus-5"}]}
NOT_UNKNOWN: dict[str, dict[str, Any]] = {
    "no routes": {},
    "no list": {"claude-opus-5": 200},
    "a list, and no route for one model": {"list": LIST},
    "an empty list": {"list": {"data": []}},
    "a list that is not one": {"list": {"data": {"id": 1}}, "claude-opus-5": 200},
    "a page that is not JSON": {"list": "<html>", "claude-opus-5": 200},
    "a pattern in the list": {"list": {"data": [{"id": "*"}]}, "*": 200},
    "a pattern with a prefix": {"list": {"data": [{"id": "anthropic/*"}]}, "anthropic/*": 200},
    "a rejected key": {"list": LIST, "claude-opus-5": 200, "claude-nope": 401},
    "a redirect": {"list": LIST, "claude-opus-5": 200, "claude-nope": 302},
    "an error": {"list": LIST, "claude-opus-5": 200, "claude-nope": 500},
    "silence": {"list": LIST, "claude-opus-5": 200, "claude-nope": "hang"},
}


@asynccontextmanager
async def provider(answers: Mapping[str, Any]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        match answers.get(request.match_info.get("name", "list"), 404):
            case int(status):
                return web.json_response({}, status=status, headers={"Location": "/elsewhere"})
            case "hang":
                await asyncio.sleep(3600)
                raise AssertionError
            case str(text):
                return web.Response(text=text)
            case body:
                return web.json_response(body)

    app = web.Application()
    app.router.add_get("/v1/models", answer)
    app.router.add_get("/v1/models/{name:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("answers", NOT_UNKNOWN.values(), ids=list(NOT_UNKNOWN))
async def test_what_proves_nothing(answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if "hang" in answers.values():
        monkeypatch.setattr(model_check, "_DEADLINE_S", 0.1)
    async with provider(answers) as url:
        await check_models([use(url, "anthropic/claude-nope")])


async def test_a_provider_that_cannot_be_reached() -> None:
    await check_models([use("http://127.0.0.1:9", "claude-nope"), use("http://no.invalid", "claude-nope")])


async def test_the_provider_of_these_tests_can_show_that_a_model_is_unknown() -> None:
    async with provider({"list": LIST, "claude-opus-5": 200}) as url:
        with pytest.raises(ConfigError):
            await check_models([use(url, "anthropic/claude-nope")])
