"""Claude Code through the conformance kit: the newest CLI, and in `make test-all` the older ones."""

from __future__ import annotations

import pytest
from claude_agent import ClaudeAgent

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import ClaudeBench, versions
from youbencha.testing import AdapterContract, Agent


class ClaudeContract(AdapterContract):
    share_sessions = True  # among the tests of one class, so that each version has its own

    @pytest.fixture
    def agent(self, claude: ClaudeBench) -> Agent:
        return ClaudeAgent(claude)


@versions(NEWEST)
class TestNewest(ClaudeContract):
    pass


@pytest.mark.full
@versions(OLD)
class TestOld(ClaudeContract):
    pass


@versions(OLDEST)
class TestOldest(ClaudeContract):
    pass
