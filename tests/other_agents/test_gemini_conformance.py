"""The real Gemini CLI through the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from gemini_bench import gemini_agent

from youbencha.testing import AdapterContract, Agent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


class TestGeminiCli(AdapterContract):
    share_sessions = True

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return gemini_agent(tmp_path)
