"""Fixtures that bring the real Claude Code CLI and the scripted model together."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import agent_clis
from agent_clis import BOTH_ENDS, NEWEST
from claude_lab import GIT_BASH, ClaudeLab
from youbencha.sandbox.toolbox import InstalledAgent, Toolbox

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("youbencha", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("youbencha")

A_SESSION_S = 3.0
A_CONTAINER_S = 2.0
A_TEST_S = 0.03
"""About how long a test takes, by what it needs: good enough to say which files take long."""


def pytest_configure(config: pytest.Config) -> None:
    """No test may depend on, or disturb, what the person running it has set up for their own agents."""
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE")) and name != GIT_BASH]:
        del os.environ[name]
    # A runner that starts us in the background has Ctrl-C ignored, for all that we start too; some tests send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does one that uses nohup with the end of a terminal.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def installed_claude(version: str) -> InstalledAgent:
    """A real CLI from the toolbox. Without it the test is skipped, or fails where it must not be skipped."""
    found = Toolbox().find("claude-code", None if version == NEWEST else version)
    if found is None:
        install = f"`make agents` or `yb agents install {agent_clis.request(version)}`"
        reason = f"Claude Code {version} is not in the toolbox: run {install}"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(params=BOTH_ENDS)
def claude_cli(request: pytest.FixtureRequest) -> InstalledAgent:
    """The newest CLI, and the oldest. Choose others with `@versions(...)`."""
    return installed_claude(request.param)


@pytest.fixture
def lab(claude_cli: InstalledAgent, tmp_path: Path) -> ClaudeLab:
    return ClaudeLab(claude_cli, tmp_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "claude_cli" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_cli)
    longest_files_first(items)


def longest_files_first(items: list[pytest.Item]) -> None:
    """A file is run by one worker: a long one that begins last is waited for by all the others."""
    file_s: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        file_s[item.path] += expected_s(item)
    items.sort(key=lambda item: -file_s[item.path])


def expected_s(item: pytest.Item) -> float:
    if item.get_closest_marker("real_cli"):
        return A_SESSION_S
    return A_CONTAINER_S if "engine" in getattr(item, "fixturenames", ()) else A_TEST_S
