"""How we talk to the CLI: print mode, or its control protocol by one of two ways."""

from __future__ import annotations

from typing import Literal

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import one_problem
from youbencha.adapters.claude_code.versions import CliVersion, Feature, first_version, last_version, supports

Transport = Literal["websocket", "stdio", "print"]

_ASKS_BEFORE = frozenset({"default", "ask", "manual"})
"""Modes in which the CLI would ask somebody: with a tool policy, there is somebody."""


def choose_transport(config: ClaudeCodeConfig, version: CliVersion, *, is_boundary: bool) -> Transport:
    """Raises where this version cannot do what was asked for."""
    if config.transport == "print":
        return "print"
    if config.transport == "auto" and config.tool_policy is None:
        usable = supports(version, Feature.ASKS_ABOUT_TOOLS) and not config.print_only
        return _by_version(version) if is_boundary and usable else "print"
    key = "tool_policy" if config.transport == "auto" else "transport"
    if not supports(version, Feature.ASKS_ABOUT_TOOLS):
        first = first_version(Feature.ASKS_ABOUT_TOOLS)
        message = f"Claude Code {version} has no {Feature.ASKS_ABOUT_TOOLS.value}"
        raise one_problem(key, message, f"use {first} or later")
    if config.transport == "websocket" and not supports(version, Feature.SDK_URL):
        window = f"{first_version(Feature.SDK_URL)} to {last_version(Feature.SDK_URL)}"
        raise one_problem(key, f"Claude Code {version} takes no WebSocket of ours", f"use {window}, or stdio")
    return _by_version(version) if config.transport == "auto" else config.transport


def policy_decides(config: ClaudeCodeConfig) -> bool:
    """Whether what the policy allows is allowed; otherwise the CLI's own mode has the last word."""
    mode = config.permission_mode
    return mode in (None, "bypassPermissions") or (config.tool_policy is not None and mode in _ASKS_BEFORE)


def _by_version(version: CliVersion) -> Transport:
    return "websocket" if supports(version, Feature.SDK_URL) else "stdio"
