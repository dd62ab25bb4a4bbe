"""Which transport is chosen, and which options are refused."""

from __future__ import annotations

from typing import Any

import pytest
from claude_config import parse_config

from youbencha.adapters.claude_code.command import choose_transport, policy_decides
from youbencha.adapters.cli_agent.versions import CliVersion
from youbencha.errors import ConfigError

POLICY = {"tool_policy": {"deny": ["Bash(rm *)"]}}


def chosen(version: str, *, is_boundary: bool = False, **config: Any) -> str:
    parsed = CliVersion.parse(version)
    assert parsed is not None
    return choose_transport(parse_config({"prompt": "x", **config}), parsed, is_boundary=is_boundary)


@pytest.mark.parametrize(
    ("version", "transport"),
    [
        ("1.0.86", "stdio"),
        ("1.0.123", "stdio"),
        ("1.0.124", "websocket"),
        ("2.1.120", "websocket"),
        ("2.1.121", "stdio"),
        ("2.1.325", "stdio"),
    ],
)
def test_auto_by_version(version: str, transport: str) -> None:
    assert chosen(version) == "print"
    assert chosen(version, is_boundary=True) == transport
    assert chosen(version, **POLICY) == transport


def test_a_version_without_permission_requests() -> None:
    assert chosen("1.0.85", is_boundary=True) == "print"
    with pytest.raises(
        ConfigError, match=r"tool_policy: Claude Code 1\.0\.85 has no requests for approval of every tool"
    ):
        chosen("1.0.85", **POLICY)


@pytest.mark.parametrize("option", [{"output_format": "text"}, {"pty": "always"}, {"prompt_delivery": "argument"}])
def test_options_of_print_mode_only(option: dict[str, Any]) -> None:
    assert chosen("2.1.325", is_boundary=True, **option) == "print"
    with pytest.raises(ConfigError, match="print mode only"):
        chosen("2.1.325", **POLICY, **option)
    with pytest.raises(ConfigError, match="print mode only"):
        chosen("2.1.325", transport="stdio", **option)


def test_unsupported_transports_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"1\.0\.124 to 2\.1\.120"):
        chosen("2.1.325", transport="websocket")
    with pytest.raises(ConfigError, match="cannot enforce a tool_policy"):
        chosen("2.1.325", transport="print", **POLICY)
    with pytest.raises(ConfigError, match=r"tool_policy\.deny"):
        parse_config({"prompt": "x", "tool_policy": {"deny": ["Bash(rm"]}})


@pytest.mark.parametrize(
    ("config", "decides"),
    [
        ({}, True),
        ({"permission_mode": "bypassPermissions"}, True),
        ({"permission_mode": "default"}, False),
        ({"permission_mode": "plan"}, False),
        ({"permission_mode": "default", **POLICY}, True),
        ({"permission_mode": "plan", **POLICY}, False),
    ],
)
def test_when_the_policy_decides(config: dict[str, Any], decides: bool) -> None:
    assert policy_decides(parse_config({"prompt": "x", **config})) is decides
