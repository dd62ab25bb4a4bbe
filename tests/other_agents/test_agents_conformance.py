"""Every agent through the conformance kit: a small program, and the real CLIs."""

from __future__ import annotations

from pathlib import Path

import pytest
from codex_bench import codex_agent
from command_bench import CommandAgent
from copilot_bench import copilot_agent
from gemini_bench import gemini_agent
from opencode_bench import opencode_agent

from youbencha.testing import AdapterContract, Agent


class TestCommand(AdapterContract):
    @pytest.fixture
    def agent(self) -> Agent:
        return CommandAgent()


@pytest.mark.real_cli
@pytest.mark.full
class RealCli(AdapterContract):
    share_sessions = True


class TestCodex(RealCli):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return codex_agent(tmp_path)


class TestCopilotCli(RealCli):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return copilot_agent(tmp_path)


class TestGeminiCli(RealCli):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return gemini_agent(tmp_path)


class TestOpenCode(RealCli):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return opencode_agent(tmp_path)
