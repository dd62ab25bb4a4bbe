"""LiteLLM's configuration and environment, from the upstreams of a run. No key is ever written to a file.

Every setting was tried with LiteLLM 1.106.2 and real agents; docs/litellm.md lists what LiteLLM still changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from youbencha.errors import YouBenchaError
from youbencha.gateway.access import Provider
from youbencha.gateway.upstreams import Upstream
from youbencha.process.environment import PROGRAM, PROXY, TEMPORARY, select

MASTER_KEY = "LITELLM_MASTER_KEY"
"""The variable with LiteLLM's own key."""

AUTH_TOKEN = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable
"""LiteLLM sends its value as `Authorization: Bearer`, unless it has a key, which it sends as `x-api-key`."""

FROM_ENVIRONMENT = "os.environ/"
"""The prefix of a variable's name in place of a value in its configuration."""


class LiteLlmBackend(NamedTuple):
    """One provider behind LiteLLM."""

    provider: Provider
    url: str | None = None
    """With or without a version at its end. None for the provider's own."""
    key_env: str | None = None
    """The variable in LiteLLM's environment with the key. None if it needs none."""


class _Kind(NamedTuple):
    models: tuple[str, ...]
    """Patterns of its models' names."""
    version: str
    """The version that LiteLLM expects at the end of a base URL."""
    parameters: Mapping[str, Any] = {}


_KINDS: Mapping[Provider, _Kind] = {
    "anthropic": _Kind(("claude-*",), ""),
    "openai": _Kind(
        ("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*"),
        "/v1",
        # It refuses parameters that its list does not have for a model, and its list has no newer models.
        {"allowed_openai_params": ["reasoning_effort", "verbosity"]},
    ),
    "gemini": _Kind(("gemini-*",), "/v1beta"),
}

_NO_KEY = "none"  # LiteLLM does not call a provider without one

_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "general_settings": {
        "master_key": FROM_ENVIRONMENT + MASTER_KEY,
        # Otherwise only the agent's header anthropic-beta is passed on; Claude Code sends its session id in another.
        "forward_client_headers_to_llm_api": True,
    },
    "litellm_settings": {
        "telemetry": False,
        # The agent decides whether to retry, so that it sees each error, and the ledger each request.
        "num_retries": 0,
        # What it cannot pass on is an error: if it were dropped silently, another configuration would be measured.
        "drop_params": False,
    },
    "router_settings": {
        "num_retries": 0,
        # Otherwise, after some errors, it answers 429 for a while without asking the provider.
        "disable_cooldowns": True,
    },
}


def configuration(backends: Sequence[LiteLlmBackend], models: Sequence[str] = ()) -> dict[str, Any]:
    """Return LiteLLM's configuration. A model whose name matches no pattern goes to the first backend.

    `models` are those that will be requested, as far as known: LiteLLM delays OpenAI's responses to the end for a model
    that is neither in its own list nor in this one.
    """
    rows = [_model(name, target, backend) for backend in backends for name, target in model_patterns(backend.provider)]
    if backends:
        rows.append(_model("*", f"{backends[0].provider}/*", backends[0]))
        rows += [_named(name, backends) for name in models]
    return {"model_list": rows, **{section: dict(values) for section, values in _SETTINGS.items()}}


def _named(name: str, backends: Sequence[LiteLlmBackend]) -> dict[str, Any]:
    backend = next((backend for backend in backends if _belongs_to(name, backend.provider)), backends[0])
    return _model(name, f"{backend.provider}/{name.removeprefix(f'{backend.provider}/')}", backend)


def _belongs_to(name: str, provider: Provider) -> bool:
    return any(fnmatchcase(name, pattern) for pattern, _ in model_patterns(provider))


def model_patterns(provider: Provider) -> list[tuple[str, str]]:
    """Names that agents use, and LiteLLM's names for them: `claude-*` and `anthropic/*`."""
    plain = [(name, f"{provider}/{name}") for name in _KINDS[provider].models]
    return [*plain, (f"{provider}/*", f"{provider}/*")]


def _model(name: str, target: str, backend: LiteLlmBackend) -> dict[str, Any]:
    kind = _KINDS[backend.provider]
    bare = (backend.url or "").rstrip("/").removesuffix("/v1").removesuffix("/v1beta")
    base = {"api_base": bare + kind.version} if backend.url else {}
    return {"model_name": name, "litellm_params": {"model": target, **_key(backend), **base, **kind.parameters}}


def _key(backend: LiteLlmBackend) -> dict[str, str]:
    if backend.key_env == AUTH_TOKEN:
        return {}
    return {"api_key": FROM_ENVIRONMENT + backend.key_env if backend.key_env else _NO_KEY}


class OwnConfig(NamedTuple):
    """What the user's configuration requires."""

    variables: frozenset[str]
    """The environment variables that it refers to."""
    master_key: str | None
    """The key, if it is in the file."""
    master_key_env: str = MASTER_KEY
    """The variable with the key, otherwise."""


def read_own_config(path: Path) -> OwnConfig:
    try:
        return parse_own_config(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise YouBenchaError(
            "LITELLM_CONFIG_INVALID",
            f"{path} cannot be used as LiteLLM's configuration: {reason}",
            hint="Give a file for `litellm --config`. Without `config_file`, youBencha writes one.",
        ) from error


def parse_own_config(text: str) -> OwnConfig:
    """Parse LiteLLM's configuration. Raises ValueError if it is invalid."""
    document = _load(text)
    general = document.get("general_settings")
    key = general.get("master_key") if isinstance(general, dict) else None
    variables = frozenset(_variables(document))
    if not isinstance(key, str):
        return OwnConfig(variables, None)
    if key.startswith(FROM_ENVIRONMENT):
        name = key.removeprefix(FROM_ENVIRONMENT)
        return OwnConfig(variables - {name}, None, name)
    return OwnConfig(variables, key)


def _load(text: str) -> dict[str, Any]:
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except YAMLError as error:
        raise ValueError("it is not valid YAML") from error
    if not isinstance(document, dict):
        raise ValueError("it has no settings, such as `model_list`")
    return document


def _variables(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _variables(item)
    elif isinstance(value, str) and value.startswith(FROM_ENVIRONMENT):
        yield value.removeprefix(FROM_ENVIRONMENT)


# LiteLLM's environment has what the system and a company's network need, its keys, and nothing else.

_PASSED_ON = PROGRAM | TEMPORARY | PROXY | {
    "LANG", "LC_ALL", "TZ", "SYSTEMDRIVE", "WINDIR", "PROGRAMDATA", "NUMBER_OF_PROCESSORS",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
}  # fmt: skip

_USER_VARIABLES = frozenset({"HOME", "USER", "LOGNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME"})
"""For cloud credentials, which the user's configuration may need."""

_LOOPBACK = "127.0.0.1,localhost,::1"

QUIET: Mapping[str, str] = MappingProxyType(
    {
        # Use its bundled lists, so that only the agent's requests leave this computer. (Without a network, the first of
        # these also saves six seconds of retries.)
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
        "LITELLM_LOCAL_BLOG_POSTS": "True",
        "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
        "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
        # Otherwise it reads a `.env` in its directory.
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "WARNING",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }
)


def litellm_environment(
    env: Mapping[str, str], keys: Mapping[str, str], *, home: Path, as_user: bool
) -> dict[str, str]:
    """Return the variables of the process. With `as_user`, it gets the user's own home directory."""
    passed_on = select(env, _PASSED_ON | _USER_VARIABLES if as_user else _PASSED_ON)
    homes = {} if as_user else dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return {**passed_on, **homes, **_without_proxy_for_loopback(passed_on), **QUIET, **keys}


def _without_proxy_for_loopback(env: Mapping[str, str]) -> dict[str, str]:
    """Add this computer to NO_PROXY."""
    if not any(name.upper().endswith("_PROXY") for name in env):
        return {}
    excluded = next((env[name] for name in ("no_proxy", "NO_PROXY") if env.get(name)), "")
    exceptions = f"{excluded},{_LOOPBACK}" if excluded else _LOOPBACK
    return {"NO_PROXY": exceptions, "no_proxy": exceptions}


class StartPlan(NamedTuple):
    """Everything that is needed to start LiteLLM, except the port."""

    config_file: Path
    cwd: Path
    env: Mapping[str, str]
    master_key: str


def plan_of_ours(upstreams: Sequence[Upstream], models: Sequence[str], env: Mapping[str, str], home: Path) -> StartPlan:
    """Write our own configuration into `home`, a directory only for LiteLLM."""
    backends = [LiteLlmBackend(upstream.provider, upstream.url, _variable(upstream)) for upstream in upstreams]
    config_file = home / "config.yaml"
    # JSON is valid YAML.
    config_file.write_text(json.dumps(configuration(backends, models), indent=2), encoding="utf-8")
    master_key = _new_key()
    keys = {**{_variable(upstream): upstream.key for upstream in upstreams}, MASTER_KEY: master_key}
    return StartPlan(config_file, home, litellm_environment(env, keys, home=home, as_user=False), master_key)


def plan_of_user(config_file: Path, env: Mapping[str, str], home: Path) -> StartPlan:
    """Check the user's configuration and its variables."""
    own = read_own_config(config_file)
    missing = sorted(name for name in own.variables if not env.get(name))
    if missing:
        raise YouBenchaError(
            "LITELLM_CONFIG_INVALID",
            f"{config_file} names unset variables: {', '.join(missing)}",
            hint="Export them, or add them to the `gateway.secrets_file`.",
        )
    master_key = own.master_key or _new_key()
    keys = {**{name: env[name] for name in own.variables}, own.master_key_env: master_key}
    # Paths in the file are relative to its directory.
    environment = litellm_environment(env, keys, home=home, as_user=True)
    return StartPlan(config_file, config_file.parent, environment, master_key)


def _variable(upstream: Upstream) -> str:
    bearer = upstream.provider == "anthropic" and upstream.key_header == "authorization"
    return AUTH_TOKEN if bearer else f"UPSTREAM_{upstream.provider.upper()}_API_KEY"


def _new_key() -> str:
    return f"sk-{secrets.token_urlsafe(32)}"
