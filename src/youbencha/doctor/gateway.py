"""Which models a gateway could reach from here: whose keys there are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.doctor.finding import Finding
from youbencha.errors import YouBenchaError
from youbencha.gateway.upstreams import find_upstreams, read_secrets
from youbencha.spec.settings import LoadedSettings


def check_gateway(settings: LoadedSettings, env: Mapping[str, str]) -> Finding:
    spec = settings.gateway
    try:
        secrets = read_secrets(Path(spec.secrets_file)) if spec.secrets_file else {}
        keys = find_upstreams(spec, {**env, **secrets})
    except YouBenchaError as error:
        return Finding(group="system", name="gateway", state="failed", detail=error.message, fix=error.hint)
    if spec.type == "none":
        return Finding(group="system", name="gateway", state="ok", detail="none, as the settings say")
    if keys:
        served = ", ".join(f"{name} ({upstream.url})" for name, upstream in keys.items())
        return Finding(group="system", name="gateway", state="ok", detail=f"{spec.type}; has keys for {served}")
    return Finding(
        group="system",
        name="gateway",
        state="note",
        detail=f"{spec.type}; has no key, so that agents reach their models by themselves",
        fix="For budgets, exact counts and cassettes, export ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
    )
