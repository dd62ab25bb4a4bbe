"""Which of the harness's own environment variables Claude Code gets to see, beside those that all agents get."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.adapters.claude_code.gateway import CREDENTIALS, gateway_env
from youbencha.adapters.cli_agent.environment import started_from
from youbencha.gateway.access import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE

_CLAUDE = {
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_GIT_BASH_PATH", "IS_SANDBOX",
}  # fmt: skip

_QUIET = {
    # Fewer connections that have nothing to do with the task, and no update in the middle of a trial.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


_CONTAINED = {"IS_SANDBOX": "1"}
"""What lets Claude Code run with all tools allowed as root. Only ever said where it is true."""


def agent_environment(
    harness: Mapping[str, str],
    given: Mapping[str, str],
    gateway: GatewayAccess | None = None,
    sandbox: Sandbox = HERE,
) -> dict[str, str]:
    """What Claude Code runs with. What the test case gives wins over everything but a gateway."""
    contained = _CONTAINED if sandbox.is_boundary else {}
    env = {**started_from(sandbox, harness, _CLAUDE), **_QUIET, **contained, **given}
    if gateway is None:
        return env
    from youbencha.adapters.cli_agent.through_gateway import behind_gateway

    return behind_gateway(env, gateway, gateway_env(gateway), given=given, own=CREDENTIALS)
