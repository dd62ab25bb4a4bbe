"""The real Copilot CLI through the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from copilot_bench import copilot_agent

from youbencha.testing import AdapterContract, Agent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


class TestCopilotCli(AdapterContract):
    share_sessions = True

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return copilot_agent(tmp_path)
