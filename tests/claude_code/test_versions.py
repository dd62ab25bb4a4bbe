"""Versions of the CLI: how they are read, compared, and what each can do."""

from __future__ import annotations

import pytest
from packaging.version import Version

from youbencha.adapters.base import parse_version
from youbencha.adapters.claude_code.versions import Feature, first_version, last_version, permission_modes, supports

# First versions as they were measured.
MEASURED = {
    Feature.PERMISSION_MODE: "1.0.15",
    Feature.ADD_DIR: "1.0.21",
    Feature.BYPASS_AS_ROOT: "1.0.44",
    Feature.STRICT_MCP_CONFIG: "1.0.44",
    Feature.SESSION_ID: "1.0.53",
    Feature.SETTINGS_FLAG: "1.0.61",
    Feature.NO_PROXY: "1.0.93",
    Feature.PARTIAL_MESSAGES: "1.0.108",
    Feature.SETTING_SOURCES: "1.0.122",
    Feature.DEBUG_FILE: "1.0.122",
    Feature.SKILLS: "2.0.20",
    Feature.PLUGIN_DIR: "2.0.25",
    Feature.AGENT_FLAG: "2.1.9",
    Feature.EFFORT: "2.1.38",
    Feature.AUTH_STATUS: "2.1.40",
    Feature.RETRY_EVENTS: "2.1.77",
    Feature.CONTROL_PROTOCOL: "1.0.86",
    Feature.SDK_URL: "1.0.124",
    Feature.LEAVES_WEBSOCKET: "2.1.50",
    Feature.END_SESSION: "2.1.72",
    Feature.EXACT_COST: "1.0.88",
    Feature.EXACT_TOTAL: "1.0.113",
    Feature.COUNTS_REPEATED_CALLS: "2.1.77",
    Feature.LACKS_SIDE_CALLS: "2.0.22",
}


def version(text: str) -> Version:
    parsed = parse_version(text)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.1.325 (Claude Code)\n", "2.1.325"),
        ("1.0.0", "1.0.0"),
        ("  2.0.62 (Claude Code)", "2.0.62"),
        ("10.20.30-beta.1", "10.20.30"),
    ],
)
def test_a_version_is_read_from_what_the_cli_prints(text: str, expected: str) -> None:
    assert str(version(text)) == expected


@pytest.mark.parametrize("text", ["", "2.1", "v2.1.3", "Claude Code 2.1.3", "two", "Warning: x\n2.1.3"])
def test_invalid_versions(text: str) -> None:
    assert parse_version(text) is None


def test_versions_are_compared_as_numbers() -> None:
    assert version("1.0.128") < version("2.0.9") < version("2.0.62") < version("2.1.4") < version("2.1.30")


@pytest.mark.parametrize("feature", list(Feature))
def test_each_feature_starts_with_the_measured_version(feature: Feature) -> None:
    first = version(MEASURED[feature])
    assert first_version(feature) == first
    assert supports(first, feature)
    assert not supports(Version(f"{first.major}.{first.minor}.{first.micro - 1}"), feature)


def test_removed_features() -> None:
    assert supports(version("2.1.120"), Feature.SDK_URL)
    assert not supports(version("2.1.121"), Feature.SDK_URL)
    assert last_version(Feature.EFFORT) is None


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("1.0.128", "acceptEdits bypassPermissions default plan"),
        ("2.0.43", "acceptEdits bypassPermissions default plan"),
        ("2.1.30", "acceptEdits bypassPermissions default dontAsk plan"),
        ("2.1.197", "acceptEdits auto bypassPermissions default dontAsk plan"),
        ("2.1.325", "acceptEdits auto bypassPermissions default dontAsk manual plan"),
    ],
)
def test_permission_modes(text: str, modes: str) -> None:
    assert permission_modes(version(text)) == modes.split()
