from __future__ import annotations

import random

import pytest

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.installed import is_version, newest_first, parse_version, printed_version

ORDERED = [
    "2.1.0",
    "2.0.10",
    "2.0.10-beta.10",
    "2.0.10-beta.2",
    "2.0.10-nightly.20260102.a1b2",
    "2.0.10-nightly.20260101.c3d4",
    "2.0.9",
    "1.0.128",
    "1.0.0-rc",
    "0.86.3.dev1",
    "0.86.2",
]


def test_versions_are_ordered_by_number() -> None:
    shuffled = random.Random(7).sample(ORDERED, len(ORDERED))
    assert shuffled != ORDERED
    assert newest_first(shuffled) == ORDERED


@pytest.mark.parametrize(
    "text", ["../../x", "2.0/1", "2.0\\1", "", "..", ".", "v2.0.1", "2..0", "2.0.", "9" * 65, "２.0", "1\n"]
)
def test_paths_are_not_versions(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(YouBenchaError) as caught:
        parse_version(text)
    assert caught.value.code == "AGENT_VERSION_INVALID"


@pytest.mark.parametrize("text", [*ORDERED, "1.0.89-0", "0.86.3.dev12+g1a2b3c"])
def test_published_versions_are_versions(text: str) -> None:
    assert parse_version(text) == text


def test_latest_is_not_a_specific_version() -> None:
    assert parse_version("latest") is None


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("2.1.325 (Claude Code)\n", "2.1.325"),
        ("codex-cli 0.166.0\n", "0.166.0"),
        ("GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n", "1.0.102"),
        ("aider 0.86.2\n", "0.86.2"),
        ("1.0.89-0", "1.0.89-0"),
        ("no number here 7", None),
        ("Using node v20.11.1\nwrapper 1.2.3 starts\n2.1.250 (Claude Code)\r\n", "2.1.250"),
        ("1.2.3 is the wrapper\nv2.1.250-beta.1\n", "2.1.250-beta.1"),
        ("0.61.0\nA new version is available: 0.62.0\n", "0.61.0"),
    ],
)
def test_the_version_is_found_in_what_the_real_clis_print(output: str, version: str | None) -> None:
    assert printed_version(output) == version
