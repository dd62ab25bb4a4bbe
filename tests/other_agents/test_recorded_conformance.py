"""Every adapter through the conformance kit, with recordings of its CLI. The real CLIs go through it in test-all."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from recorded_agents import AIDER, CODEX, COPILOT, GEMINI, OPENCODE, RecordedAgent, Recording

from systems import posix_only
from youbencha.testing import AdapterContract, Agent

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
