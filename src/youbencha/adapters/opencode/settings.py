"""Where opencode finds the model's API, told by a configuration of ours.

As the content of a variable it stands above the repository's own `opencode.json`: a repository must not send a key to
an address of its choice. No key is in it: opencode takes that from the environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from youbencha.adapters.cli_agent import Task
from youbencha.adapters.opencode.config import OpenCodeConfig
from youbencha.gateway.access import GatewayAccess
from youbencha.gateway.routes import PROVIDER_OF_PREFIX

if TYPE_CHECKING:
    from youbencha.gateway.routes import Provider

CONTENT, FILE, DATABASE = "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG", "OPENCODE_DB"
_BASE_URLS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
_KEYS: Mapping[Provider, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GOOGLE_GENERATIVE_AI_API_KEY",
}
_VERSIONS: Mapping[Provider, str] = {"gemini": "/v1beta"}


def with_settings(task: Task[OpenCodeConfig]) -> dict[str, str]:
    """The agent's environment, with our configuration in it."""
    # Two that share one make its tables at the same time, and one of them ends with that (1.18.33).
    own_database = {DATABASE: task.seen(task.scratch / "opencode.db")}
    if task.gateway is not None:
        return {**own_database, **task.env, CONTENT: _at_gateway(task, task.gateway)}
    return {**own_database, **_settings(task), **task.env}


def pointing_at(access: GatewayAccess, provider: Provider | None) -> dict[str, str]:
    """The key alone: where it is good, the configuration says. A provider that we do not know has OpenAI's API."""
    return {_KEYS[provider or "openai"]: access.key}


def _at_gateway(task: Task[OpenCodeConfig], access: GatewayAccess) -> str:
    """No other provider is there, and this one takes the gateway's key, whatever login is stored (1.18.33)."""
    name = task.config.chosen_provider
    provider = PROVIDER_OF_PREFIX.get(name, "openai")
    url = access.url + _VERSIONS.get(provider, "/v1")
    at = _provider(task, {"baseURL": url, "apiKey": f"{{env:{_KEYS[provider]}}}"})
    only = {"provider": {name: at}, "enabled_providers": [name], "disabled_providers": []}
    return json.dumps({**_read(task.env.get(CONTENT)), **only})


def _read(content: str | None) -> dict[str, Any]:
    """What the person configures beside providers; nothing where it is more than JSON."""
    try:
        read = json.loads(content or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _settings(task: Task[OpenCodeConfig]) -> dict[str, str]:
    url = _base_url(task)
    if url is None:
        return {}
    text = json.dumps({"provider": {task.config.chosen_provider: _provider(task, {"baseURL": url})}})
    if CONTENT not in task.env:
        return {CONTENT: text}
    path = task.scratch / "opencode.json"
    path.write_text(text, encoding="utf-8")
    return {FILE: task.seen(path)}


def _provider(task: Task[OpenCodeConfig], options: Mapping[str, str]) -> dict[str, Any]:
    model = task.config.full_model
    # So that it takes names that only a gateway knows.
    models: dict[str, Any] = {"models": {model.partition("/")[2]: {}}} if model else {}
    return {"options": options, **models}


def _base_url(task: Task[OpenCodeConfig]) -> str | None:
    provider = task.config.chosen_provider
    url = task.config.base_url or task.env.get(_BASE_URLS.get(provider, ""))
    if not url:
        return None
    # Anthropic's own convention leaves out the version, and opencode wants it.
    bare = url.rstrip("/")
    return f"{bare}/v1" if provider == "anthropic" and not bare.endswith("/v1") else bare
