"""Which transport is chosen, and which options are refused."""

from __future__ import annotations

from typing import Any

import pytest
from claude_config import parse_config

from youbencha.adapters.base import parse_version
from youbencha.adapters.claude_code.command import choose_transport
from youbencha.errors import ConfigError


def chosen(version: str, *, is_boundary: bool = False, **config: Any) -> str:
    parsed = parse_version(version)
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


def test_a_version_without_the_control_protocol() -> None:
    assert chosen("1.0.85", is_boundary=True) == "print"
    with pytest.raises(ConfigError, match=r"transport: Claude Code 1\.0\.85 has no control protocol"):
        chosen("1.0.85", transport="stdio")


@pytest.mark.parametrize("option", [{"output_format": "text"}, {"pty": "always"}, {"prompt_delivery": "argument"}])
def test_options_of_print_mode_only(option: dict[str, Any]) -> None:
    assert chosen("2.1.325", is_boundary=True, **option) == "print"
    with pytest.raises(ConfigError, match="print mode only"):
        chosen("2.1.325", transport="stdio", **option)


def test_unsupported_transports_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"1\.0\.124 to 2\.1\.120"):
        chosen("2.1.325", transport="websocket")


def test_a_tool_policy_names_its_replacement() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({"prompt": "x", "tool_policy": {"deny": ["Bash"]}, "effort": "huge"})
    assert [problem.path for problem in refused.value.problems] == ["effort", "tool_policy"]
    assert "`disallowed_tools`" in refused.value.problems[1].message
