"""Claude Code through the conformance kit, in every CLI version."""

from __future__ import annotations

import pytest
from claude_agent import ClaudeAgent

from claude_lab import ClaudeLab
from youbencha.testing import AdapterContract, Agent


class TestClaudeCode(AdapterContract):
    @pytest.fixture
    def agent(self, lab: ClaudeLab) -> Agent:
        return ClaudeAgent(lab)
