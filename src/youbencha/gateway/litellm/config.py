"""LiteLLM's configuration, from the upstreams that a run has. Pure; no key is ever written in it.

Every setting was tried with LiteLLM 1.106.2 and real agents; docs/litellm.md tells what still changes on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from youbencha.gateway.routes import Provider

MASTER_KEY = "LITELLM_MASTER_KEY"
"""The variable that LiteLLM takes its own key from."""
AUTH_TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable
"""LiteLLM sends what this variable holds as `Authorization: Bearer`, if it is given no key; a key as `x-api-key`."""
FROM_ENVIRONMENT = "os.environ/"
"""How its configuration names a variable instead of a value."""


class Backend(NamedTuple):
    """One provider behind LiteLLM."""

    provider: Provider
    url: str | None = None
    """With or without a version at its end. None: the provider's own."""
    key_env: str | None = None
    """The variable, in LiteLLM's environment, that holds the key. None: it needs none."""


class _Kind(NamedTuple):
    models: tuple[str, ...]
    """What its models are called."""
    version: str
    """What LiteLLM wants at the end of a base URL."""
    parameters: Mapping[str, Any] = {}


_KINDS: Mapping[Provider, _Kind] = {
    "anthropic": _Kind(("claude-*",), ""),
    "openai": _Kind(
        ("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*"),
        "/v1",
        # It refuses what its list does not know of a model, and knows no model that is newer than itself.
        {"allowed_openai_params": ["reasoning_effort", "verbosity"]},
    ),
    "gemini": _Kind(("gemini-*",), "/v1beta"),
}
_NO_KEY = "none"  # LiteLLM does not call a provider without one

_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "general_settings": {
        "master_key": FROM_ENVIRONMENT + MASTER_KEY,
        # Otherwise no header of the agent's but anthropic-beta goes on; Claude Code names its session in one.
        "forward_client_headers_to_llm_api": True,
    },
    "litellm_settings": {
        "telemetry": False,
        # Whether to try again is the agent's decision: it sees each error, and the ledger each request.
        "num_retries": 0,
        # What it cannot pass on is an error. Dropped in silence, it would be another experiment.
        "drop_params": False,
    },
    "router_settings": {
        "num_retries": 0,
        # After some errors it would answer 429 by itself for a while, and ask nobody.
        "disable_cooldowns": True,
    },
}


def configuration(backends: Sequence[Backend], models: Sequence[str] = ()) -> dict[str, Any]:
    """What LiteLLM reads at its start. A model whose name says nothing goes to the first backend.

    `models` are those that will be asked for, as far as that is known. LiteLLM holds back OpenAI's responses to the end
    for a model that neither its own list nor this one names.
    """
    rows = [_model(name, target, backend) for backend in backends for name, target in _patterns(backend.provider)]
    if backends:
        rows.append(_model("*", f"{backends[0].provider}/*", backends[0]))
        rows += [_named(name, backends) for name in models]
    return {"model_list": rows, **{section: dict(values) for section, values in _SETTINGS.items()}}


def _named(name: str, backends: Sequence[Backend]) -> dict[str, Any]:
    backend = next((each for each in backends if _is_of(name, each.provider)), backends[0])
    return _model(name, f"{backend.provider}/{name.removeprefix(f'{backend.provider}/')}", backend)


def _is_of(name: str, provider: Provider) -> bool:
    return any(fnmatchcase(name, pattern) for pattern, _ in _patterns(provider))


def _patterns(provider: Provider) -> list[tuple[str, str]]:
    """What is asked for, and what that is to LiteLLM: `claude-*` and `anthropic/*`."""
    plain = [(name, f"{provider}/{name}") for name in _KINDS[provider].models]
    return [*plain, (f"{provider}/*", f"{provider}/*")]


def _model(name: str, target: str, backend: Backend) -> dict[str, Any]:
    kind = _KINDS[backend.provider]
    place = {"api_base": _bare(backend.url) + kind.version} if backend.url else {}
    return {"model_name": name, "litellm_params": {"model": target, **_key(backend), **place, **kind.parameters}}


def _key(backend: Backend) -> dict[str, str]:
    if backend.key_env == AUTH_TOKEN:
        return {}
    return {"api_key": FROM_ENVIRONMENT + backend.key_env if backend.key_env else _NO_KEY}


def _bare(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").removesuffix("/v1beta")
