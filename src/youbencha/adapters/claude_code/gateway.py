"""Claude Code and the gateway: what tells it where its model is, and what it gets behind a gateway instead.

Its settings files win over its environment: with a base URL in `env` of the user's settings, or of the repository's,
it goes there, and a key helper's key is sent beside ours (measured: 1.0.128, 2.0.62, 2.1.325). Only what `--settings`
says wins over those files, so that the gateway is said there too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from youbencha.gateway.access import GatewayAccess

CREDENTIALS = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_PROFILE", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
})  # fmt: skip
"""Whoever sets one of these has decided how Claude Code reaches its model."""
_FLAG = "--settings"


def gateway_env(access: GatewayAccess) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": access.url, "ANTHROPIC_API_KEY": access.key}


def gateway_settings(access: GatewayAccess, env: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """For `--settings`, with what the person gives there."""
    nothing = dict.fromkeys(sorted(CREDENTIALS), "")
    around = {name: env[name] for name in ("NO_PROXY", "no_proxy") if name in env}
    own = given["env"] if isinstance(given.get("env"), dict) else {}
    return {**given, "apiKeyHelper": "", "env": {**own, **nothing, **around, **gateway_env(access)}}


def given_settings(extra_args: Sequence[str], workspace: Path) -> dict[str, Any]:
    """What the person says by `--settings`: of two, the CLI reads the last, and that is ours.

    A file or JSON, as the CLI takes it; what cannot be read has no effect there either.
    """
    flags = [*extra_args, ""]
    values = [
        value if equals else flags[at + 1]
        for at, (name, equals, value) in enumerate(flag.partition("=") for flag in extra_args)
        if name == _FLAG
    ]
    if not values:
        return {}
    try:
        text = values[-1]
        read = json.loads(text if text.lstrip().startswith("{") else (workspace / text).read_bytes())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
