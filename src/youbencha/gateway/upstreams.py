"""Upstreams: the providers' addresses and keys, from the environment, a secrets file, or the configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from youbencha.errors import YouBenchaError
from youbencha.gateway.access import Provider
from youbencha.gateway.wires import PROVIDERS, KeyHeader
from youbencha.spec.gateway import GatewaySpec, UpstreamSpec


class Upstream(NamedTuple):
    provider: Provider
    url: str
    """Without `/v1`: the API's own path is appended."""
    key: str
    key_header: KeyHeader
    versioned: bool = False
    """The URL already has a version or a path (`…/v1beta/openai`): then the appended path has no `/v1`."""
    is_litellm: bool = False
    """The upstream is LiteLLM, which wraps the errors of providers."""
    secrets: tuple[str, ...] = ()
    """Keys of the providers behind it."""

    @property
    def is_default_address(self) -> bool:
        """Whether requests go to the provider's own address."""
        return self.url == without_version(PROVIDERS[self.provider].url)

    def full_url(self, path: str) -> str:
        return self.url + (path.removeprefix("/v1") if self.versioned else path)

    def __repr__(self) -> str:
        return f"Upstream(provider={self.provider!r}, url={self.url!r}, key=…)"

    def credentials(self) -> dict[str, str]:
        return {self.key_header: f"Bearer {self.key}" if self.key_header == "authorization" else self.key}


class ConfiguredModel(NamedTuple):
    """A model that a run will request from a provider."""

    upstream: Upstream
    name: str
    """As configured."""
    user: str
    """The agent or evaluator for which it is configured."""


def find_upstreams(spec: GatewaySpec, env: Mapping[str, str]) -> dict[Provider, Upstream]:
    """Return an upstream for every provider that has a key. `env` includes the secrets file."""
    upstreams = {provider: _upstream(provider, getattr(spec.upstreams, provider), env) for provider in PROVIDERS}
    return {provider: upstream for provider, upstream in upstreams.items() if upstream is not None}


def _upstream(provider: Provider, spec: UpstreamSpec, env: Mapping[str, str]) -> Upstream | None:
    defaults = PROVIDERS[provider]
    keys = defaults.keys
    if spec.key_env is not None:
        header = next((header for name, header in defaults.keys if name == spec.key_env), defaults.keys[0][1])
        keys = ((spec.key_env, header),)
        if not env.get(spec.key_env, "").strip():
            raise YouBenchaError(
                "GATEWAY_KEY_MISSING",
                f"gateway.upstreams.{provider}.key_env: {spec.key_env} is not set",
                hint=f"Export {spec.key_env}, or add it to the `gateway.secrets_file`.",
            )
    # A key that was read from a file often ends with a line end.
    key_and_header = next(((key, header) for name, header in keys if (key := env.get(name, "").strip())), None)
    if key_and_header is None:
        return None
    url = spec.url or next((env[name] for name in defaults.url_variables if env.get(name)), defaults.url)
    bare = without_version(url)
    return Upstream(provider, bare, *key_and_header, versioned=provider == "openai" and _has_own_path(url, bare))


def same_for_all(
    url: str, key: str, *, is_litellm: bool = False, secrets: tuple[str, ...] = ()
) -> dict[Provider, Upstream]:
    """Return the same upstream for every API, such as LiteLLM, with each API's own header."""
    bare = without_version(url)
    return {
        provider: Upstream(provider, bare, key, defaults.keys[0][1], is_litellm=is_litellm, secrets=secrets)
        for provider, defaults in PROVIDERS.items()
    }


def key_names(provider: Provider) -> tuple[str, ...]:
    """Return the variables that may contain a provider's key."""
    return tuple(name for name, _ in PROVIDERS[provider].keys)


def _has_own_path(url: str, bare: str) -> bool:
    """Whether a URL includes a path. OpenAI's clients append only the API's name to it, without a version."""
    return url.strip().rstrip("/") == bare and urlsplit(bare).path.strip("/") != ""


def without_version(url: str) -> str:
    """Remove the version, which base URLs have or not, depending on the API."""
    return re.sub(r"(?<!/)/v1(?:beta|alpha)?/?$", "", url.strip()).rstrip("/")


_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def read_secrets(path: Path) -> dict[str, str]:
    """Read lines of NAME=VALUE, as in shells and `.env` files, without expanding or running anything."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise YouBenchaError(
            "SECRETS_FILE_UNREADABLE",
            f"The secrets file cannot be read: {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}",
            hint="`gateway.secrets_file` is relative to the test case's file.",
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise YouBenchaError(
            "SECRETS_FILE_OPEN", f"The secrets file is readable by other users: {path}", hint=f"Run `chmod 600 {path}`."
        )
    secrets: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:  # the line itself is not shown: it may contain a key
            raise YouBenchaError("SECRETS_FILE_INVALID", f"{path}:{number} is not of the form NAME=VALUE.")
        secrets[match[1]] = _unquoted(match[2])
    return secrets


def _unquoted(value: str) -> str:
    """Remove quotes and a comment; within quotes, or without a space before it, `#` is part of the value."""
    quoted = re.fullmatch(r"""(["'])(.*?)\1(?:\s+#.*)?""", value)
    return quoted[2] if quoted else re.split(r"(?:^|\s+)#", value, maxsplit=1)[0].strip()
