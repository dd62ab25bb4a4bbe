"""The real Aider through the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from aider_bench import aider_agent

from youbencha.testing import AdapterContract, Agent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


class TestAider(AdapterContract):
    share_sessions = True

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return aider_agent(tmp_path)
