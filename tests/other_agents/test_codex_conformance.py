"""The real Codex through the conformance kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from codex_bench import codex_agent

from youbencha.testing import AdapterContract, Agent

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


class TestCodex(AdapterContract):
    share_sessions = True

    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return codex_agent(tmp_path)
