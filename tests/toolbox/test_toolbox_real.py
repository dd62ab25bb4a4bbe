"""The real thing, once: 65 MB, kept in the shared toolbox for the tests that run a real CLI."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess

import pytest

import toolbox_tools
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = pytest.mark.real_cli


@pytest.fixture(scope="module")
def claude() -> InstalledAgent:
    return asyncio.run(Toolbox().install("claude-code", "2.0.62", progress=print))


def test_the_real_cli_runs_with_the_expected_version(claude: InstalledAgent) -> None:
    done = subprocess.run([*claude.command, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "2.0.62 (Claude Code)\n"


def test_the_real_cli_matches_its_digest(claude: InstalledAgent) -> None:
    Toolbox().verify(claude)
    assert claude.sha256 == hashlib.sha256(claude.executable.read_bytes()).hexdigest()
    assert Toolbox().find("claude-code", "2.0.62") == claude


def test_a_program_that_is_not_fetched_is_a_failure_and_not_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it happens to be installed: else a test would run on one computer and not on another."""
    monkeypatch.setattr(toolbox_tools, "fetched", False)
    with pytest.raises(pytest.fail.Exception, match="mark this test `full`"):
        toolbox_tools.installed("aider")
