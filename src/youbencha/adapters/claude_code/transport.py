"""How we talk to the CLI: print mode, or its control protocol by one of two ways. Policy as a table, by version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.adapters.claude_code.errors import invalid_config
from youbencha.adapters.claude_code.versions import CliVersion, Feature, first_version, last_version, supports
from youbencha.errors import Problem

Transport = Literal["websocket", "stdio", "print"]

_ASKS_BEFORE = frozenset({"default", "ask", "manual"})
"""Modes in which the CLI would ask somebody: with a tool policy, there is somebody."""


def choose_transport(config: ClaudeCodeConfig, version: CliVersion, *, is_boundary: bool) -> Transport:
    """Raises where what was asked for cannot be had: a policy that is not kept would be worse than none."""
    wanted = config.transport
    if wanted == "print" or (wanted == "auto" and config.tool_policy is None and not is_boundary):
        if config.tool_policy is not None:
            raise invalid_config([Problem("transport", "print cannot keep a tool_policy", "leave out one of the two")])
        return "print"
    problems = list(_against_control(config, version, wanted))
    if wanted == "auto" and config.tool_policy is None and problems:
        return "print"
    if problems:
        raise invalid_config(problems)
    if wanted == "auto":
        return "websocket" if supports(version, Feature.SDK_URL) else "stdio"
    return wanted


def policy_decides(config: ClaudeCodeConfig) -> bool:
    """Whether what the policy allows is allowed; otherwise the CLI's own mode has the last word."""
    mode = config.permission_mode
    return mode in (None, "bypassPermissions") or (config.tool_policy is not None and mode in _ASKS_BEFORE)


def _against_control(config: ClaudeCodeConfig, version: CliVersion, wanted: str) -> Iterator[Problem]:
    key = "tool_policy" if wanted == "auto" else "transport"
    if not supports(version, Feature.ASKS_ABOUT_TOOLS):
        first = first_version(Feature.ASKS_ABOUT_TOOLS)
        yield Problem(key, f"Claude Code {version} has no {Feature.ASKS_ABOUT_TOOLS.value}", f"use {first} or later")
    elif wanted == "websocket" and not supports(version, Feature.SDK_URL):
        window = f"{first_version(Feature.SDK_URL)} to {last_version(Feature.SDK_URL)}"
        yield Problem(key, f"Claude Code {version} takes no WebSocket of ours", f"use {window}, or stdio")
    for option, value in _PRINT_ONLY.items():
        if getattr(config, option) == value:
            yield Problem(option, f"{value} is possible in print mode only", f"leave it out, or leave out {key}")


_PRINT_ONLY = {"output_format": "text", "pty": "always", "prompt_delivery": "argument"}
