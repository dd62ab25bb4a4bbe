"""Where opencode finds the model's API, told by a configuration of ours.

As the content of a variable it stands above the repository's own `opencode.json`: a repository must not send a key to
an address of its choice. No key is in it: opencode takes that from the environment.
"""

from __future__ import annotations

import json

from youbencha.adapters.cli_agent import Task
from youbencha.adapters.opencode.config import OpenCodeConfig

CONTENT, FILE = "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG"
_BASE_URLS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}


def settings(task: Task[OpenCodeConfig]) -> dict[str, str]:
    url = _base_url(task)
    if url is None:
        return {}
    provider: dict[str, object] = {"options": {"baseURL": url}}
    if model := task.config.full_model:
        # So that it takes names that only a gateway knows.
        provider["models"] = {model.partition("/")[2]: {}}
    text = json.dumps({"provider": {task.config.chosen_provider: provider}})
    if CONTENT not in task.env:
        return {CONTENT: text}
    path = task.scratch / "opencode.json"
    path.write_text(text, encoding="utf-8")
    return {FILE: str(path)}


def _base_url(task: Task[OpenCodeConfig]) -> str | None:
    provider = task.config.chosen_provider
    url = task.config.base_url or task.env.get(_BASE_URLS.get(provider, ""))
    if not url:
        return None
    # Anthropic's own convention leaves out the version, and opencode wants it.
    bare = url.rstrip("/")
    return f"{bare}/v1" if provider == "anthropic" and not bare.endswith("/v1") else bare
