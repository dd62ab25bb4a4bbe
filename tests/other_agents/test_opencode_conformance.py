"""The real opencode through the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from opencode_bench import opencode_agent

from youbencha.testing import AdapterContract, Agent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


class TestOpenCode(AdapterContract):
    share_sessions = True

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return opencode_agent(tmp_path)
