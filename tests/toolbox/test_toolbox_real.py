"""The real thing, once: 65 MB, kept in the shared toolbox for the tests that run a real CLI."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess

import pytest

from youbencha.sandbox.toolbox import InstalledAgent, Toolbox

pytestmark = pytest.mark.real_cli


@pytest.fixture(scope="module")
def claude() -> InstalledAgent:
    return asyncio.run(Toolbox().install("claude-code", "2.0.62", progress=print))


def test_the_real_cli_runs_and_is_what_it_says(claude: InstalledAgent) -> None:
    done = subprocess.run([*claude.command, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "2.0.62 (Claude Code)\n"


def test_the_real_cli_is_known_by_its_digest(claude: InstalledAgent) -> None:
    Toolbox().verify(claude)
    assert claude.sha256 == hashlib.sha256(claude.executable.read_bytes()).hexdigest()
    assert Toolbox().find("claude-code", "2.0.62") == claude
