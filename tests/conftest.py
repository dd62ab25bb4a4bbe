"""Fixtures that bring the real Claude Code CLI and the scripted model together."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import agent_clis
import toolbox_tools
from agent_clis import NEWEST, OLDEST, SPREAD
from claude_bench import ClaudeBench, version_params
from clean_environment import clean_environment
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox

# Rewritten test modules are kept, even under PYTHONDONTWRITEBYTECODE: else every worker rewrites all of them (8 s).
sys.dont_write_bytecode = False
# How long an example takes says how busy the machine is, and nothing about the code. `make test` draws the same
# examples every time, so that only a change can make it fail; `make test-all` draws new ones.
for profile, examples, repeatable in (("fast", 50, True), ("all", 300, False)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=repeatable,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked `full` too, as `make test-all` does")
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files and pictures of the screen")


def pytest_configure(config: pytest.Config) -> None:
    """No test may depend on, or disturb, what the person running it has set up."""
    settings.load_profile("all" if config.getoption("--all") else "fast")
    toolbox_tools.fetched = config.getoption("--all")
    if not hasattr(config, "workerinput"):  # workers inherit it
        config.add_cleanup(clean_environment())


def installed_claude(version: str) -> InstalledAgent:
    """A real CLI from the toolbox. Without it the test is skipped, or fails where it must not be skipped."""
    found = Toolbox().find("claude-code", None if version == NEWEST else version)
    if found is None:
        install = f"`yb agents install {agent_clis.request(version)}`"
        reason = f"Claude Code {version} is not in the toolbox: run {install}"
        if os.environ.get("YOUBENCHA_REQUIRE_REAL_CLI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(params=version_params(NEWEST, OLDEST, *SPREAD))
def claude_cli(request: pytest.FixtureRequest) -> InstalledAgent:
    """The newest CLI; with `--all` others too. Choose others with `@versions(...)`."""
    return installed_claude(request.param)


@pytest.fixture
def claude(claude_cli: InstalledAgent, tmp_path: Path) -> ClaudeBench:
    return ClaudeBench(claude_cli, tmp_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    repeat = metafunc.definition.get_closest_marker("repeat")
    if repeat and metafunc.config.getoption("--all"):
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(1, repeat.args[0] + 1))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    for item in items:
        if "claude_cli" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_cli)
