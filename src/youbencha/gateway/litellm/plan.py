"""All that a start of LiteLLM needs but the port: with a configuration of ours, or with the user's own."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm.config import AUTH_TOKEN, MASTER_KEY, Backend, configuration
from youbencha.gateway.litellm.environment import litellm_environment
from youbencha.gateway.litellm.own_config import read_own_config
from youbencha.gateway.upstreams import Upstream


class StartPlan(NamedTuple):
    config_file: Path
    cwd: Path
    env: Mapping[str, str]
    master_key: str


def plan_of_ours(upstreams: Sequence[Upstream], models: Sequence[str], env: Mapping[str, str], home: Path) -> StartPlan:
    """Writes the configuration into `home`, which is LiteLLM's own."""
    backends = [Backend(upstream.provider, upstream.url, _variable(upstream)) for upstream in upstreams]
    config_file = home / "config.yaml"
    # JSON is YAML, too.
    config_file.write_text(json.dumps(configuration(backends, models), indent=2), encoding="utf-8")
    master_key = _new_key()
    given = {**{_variable(upstream): upstream.key for upstream in upstreams}, MASTER_KEY: master_key}
    return StartPlan(config_file, home, litellm_environment(env, given, home=home, as_user=False), master_key)


def plan_of_user(config_file: Path, env: Mapping[str, str], home: Path) -> StartPlan:
    own = read_own_config(config_file)
    missing = sorted(name for name in own.variables if not env.get(name))
    if missing:
        raise YouBenchaError(
            "LITELLM_CONFIG_INVALID",
            f"{config_file} names variables that are not set: {', '.join(missing)}",
            hint="Export them, or write them into the file that `gateway.secrets_file` names.",
        )
    master_key = own.master_key or _new_key()
    given = {**{name: env[name] for name in own.variables}, own.master_key_env: master_key}
    theirs = litellm_environment(env, given, home=home, as_user=True)
    # Paths in it are relative to where people start it, and that is where it lies.
    return StartPlan(config_file, config_file.parent, theirs, master_key)


def _variable(upstream: Upstream) -> str:
    bearer = upstream.provider == "anthropic" and upstream.key_header == "authorization"
    return AUTH_TOKEN if bearer else f"UPSTREAM_{upstream.provider.upper()}_API_KEY"


def _new_key() -> str:
    return f"sk-{secrets.token_urlsafe(32)}"
