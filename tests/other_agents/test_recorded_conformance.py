"""Every adapter through the conformance kit, with recordings of its CLI. The real CLIs go through it in test-all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from recorded_agents import AIDER, CODEX, COPILOT, GEMINI, OPENCODE, RecordedAgent, Recording

from systems import posix_only
from youbencha.testing import AdapterContract, Agent
from youbencha.testing.agent import MARKER
from youbencha.testing.kit import Kit

pytestmark = posix_only("the recorded CLI is a shell script")


class Recorded(AdapterContract):
    share_sessions = True
    recording: ClassVar[Recording]

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return RecordedAgent(tmp_path, self.recording)


class TestAider(Recorded):
    recording = AIDER


class TestCodex(Recorded):
    recording = CODEX


class TestCopilotCli(Recorded):
    recording = COPILOT


class TestGeminiCli(Recorded):
    recording = GEMINI


class TestOpenCode(Recorded):
    recording = OPENCODE


async def test_the_kit_gives_a_slow_agent_more_time(tmp_path: Path) -> None:
    agent = RecordedAgent(tmp_path, replace(CODEX, before="sleep 0.2"))
    agent.time_to_speak_ms = 10
    assert MARKER in (await Kit(agent, tmp_path).cut_off()).output
