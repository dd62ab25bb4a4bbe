"""Which version of the Claude Code CLI has which features. Every number here was measured."""

from __future__ import annotations

from enum import StrEnum

from packaging.version import Version

from youbencha.adapters.base import SupportedVersions
from youbencha.adapters.claude_code.stream import ResultTotals

SUPPORTED = SupportedVersions(oldest=Version("1.0.8"))  # 1.0.5 asks a user before it skips permissions


class Feature(StrEnum):
    """A feature that only some versions have. The value is its name in error messages."""

    PERMISSION_MODE = "--permission-mode"
    ADD_DIR = "--add-dir"
    NO_PROXY = "NO_PROXY"
    BYPASS_AS_ROOT = "bypassing permissions as root"
    STRICT_MCP_CONFIG = "--strict-mcp-config"
    SESSION_ID = "--session-id"
    SETTINGS_FLAG = "--settings"
    PARTIAL_MESSAGES = "--include-partial-messages"
    SETTING_SOURCES = "--setting-sources"
    DEBUG_FILE = "a debug log in a file"
    PLUGIN_DIR = "--plugin-dir"
    SKILLS = "skills"
    AGENT_FLAG = "--agent that sets the prompt"
    AUTH_STATUS = "claude auth status"
    RETRY_EVENTS = "events for failed requests"
    EFFORT = "--effort"
    CONTROL_PROTOCOL = "control protocol"
    SDK_URL = "--sdk-url"
    END_SESSION = "end_session"
    LEAVES_WEBSOCKET = "an exit when its WebSocket is closed"
    EXACT_COST = "a cost that has each call once"
    EXACT_TOTAL = "a total of all calls"
    COUNTS_REPEATED_CALLS = "totals with calls that were repeated"
    LACKS_SIDE_CALLS = "totals without a call on the side"


_FIRST_VERSION: dict[Feature, Version] = {
    Feature.PERMISSION_MODE: Version("1.0.15"),
    Feature.ADD_DIR: Version("1.0.21"),
    Feature.BYPASS_AS_ROOT: Version("1.0.44"),
    Feature.STRICT_MCP_CONFIG: Version("1.0.44"),
    Feature.SESSION_ID: Version("1.0.53"),
    Feature.SETTINGS_FLAG: Version("1.0.61"),
    Feature.NO_PROXY: Version("1.0.93"),
    Feature.PARTIAL_MESSAGES: Version("1.0.108"),
    Feature.SETTING_SOURCES: Version("1.0.122"),
    Feature.DEBUG_FILE: Version("1.0.122"),  # before, `--debug` prints it between the lines of the output
    Feature.SKILLS: Version("2.0.20"),  # 2.0.12 had them, 2.0.19 does not
    Feature.PLUGIN_DIR: Version("2.0.25"),
    Feature.AGENT_FLAG: Version("2.1.9"),  # the flag exists from 2.0.59, but before 2.1.9 it sets only the model
    Feature.EFFORT: Version("2.1.38"),
    Feature.AUTH_STATUS: Version("2.1.40"),
    Feature.RETRY_EVENTS: Version("2.1.77"),
    Feature.CONTROL_PROTOCOL: Version("1.0.86"),  # the oldest with which every session was driven to its end
    Feature.SDK_URL: Version("1.0.124"),
    Feature.LEAVES_WEBSOCKET: Version("2.1.50"),
    Feature.END_SESSION: Version("2.1.72"),
    Feature.EXACT_COST: Version("1.0.88"),  # before, `usage` and cost have each call twice
    Feature.COUNTS_REPEATED_CALLS: Version("2.1.77"),
    Feature.LACKS_SIDE_CALLS: Version("2.0.22"),
    Feature.EXACT_TOTAL: Version("1.0.113"),  # in 1.0.88 to 1.0.112, `usage` is that of the last call
}

_LAST_VERSION: dict[Feature, Version] = {
    Feature.SDK_URL: Version("2.1.120"),  # later ones accept only Anthropic's own host
    Feature.LACKS_SIDE_CALLS: Version("2.0.34"),
}

_FIRST_WITH_MODE: dict[str, Version] = {
    "acceptEdits": Version("1.0.0"),
    "bypassPermissions": Version("1.0.0"),
    "default": Version("1.0.0"),
    "plan": Version("1.0.0"),
    "dontAsk": Version("2.0.44"),
    "auto": Version("2.1.71"),
    "manual": Version("2.1.200"),
}


def supports(version: Version, feature: Feature) -> bool:
    return _FIRST_VERSION[feature] <= version <= _LAST_VERSION.get(feature, version)


def first_version(feature: Feature) -> Version:
    return _FIRST_VERSION[feature]


def last_version(feature: Feature) -> Version | None:
    """None if the newest version has it."""
    return _LAST_VERSION.get(feature)


def result_totals(version: Version | None) -> ResultTotals:
    """Return which totals of a result are right; an unknown version is believed."""
    if version is None:
        return ResultTotals()
    return ResultTotals(
        usage=supports(version, Feature.EXACT_TOTAL),
        cost=supports(version, Feature.EXACT_COST),
        repeated_calls=supports(version, Feature.COUNTS_REPEATED_CALLS),
        side_calls=not supports(version, Feature.LACKS_SIDE_CALLS),
    )


def permission_modes(version: Version) -> list[str]:
    """Return the values that `--permission-mode` takes in this version."""
    return sorted(mode for mode, first in _FIRST_WITH_MODE.items() if version >= first)
