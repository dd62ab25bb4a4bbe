"""Claude Code through the conformance kit: the newest CLI, and in `make test-all` the older ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from claude_agent import ClaudeAgent

from agent_clis import NEWEST, OLD, OLDEST
from claude_bench import ClaudeBench, versions
from youbencha.testing import AdapterContract, Agent, Situation
from youbencha.testing.kit import Kit


class ClaudeContract(AdapterContract):
    share_sessions = True  # among the tests of one class, so that each version has its own

    @pytest.fixture
    def agent(self, claude: ClaudeBench) -> Agent:
        return ClaudeAgent(claude)

    async def test_an_api_error_is_a_failure_with_its_status(self, kit: Kit) -> None:
        """A result with is_error is a failure, with the API's own status and words."""
        result = await kit.execute(Situation.FAILS)
        assert (result.status, result.exit_code) == ("failed", 1)
        (error,) = result.errors
        assert error.code == "CLAUDE_API_ERROR"
        assert "the script says no" in error.message
        assert error.context is not None
        assert error.context["status"] == 400
        assert error.hint

    # The following are `full`: `make test` checks the same for this adapter in the test modules that they name.

    @pytest.mark.full
    async def test_cr_2_10_and_2_11_working_directory_and_environment(self, kit: Kit) -> None:
        """See `test_contract_options.py`."""
        await super().test_cr_2_10_and_2_11_working_directory_and_environment(kit)

    @pytest.mark.full
    async def test_cr_2_13_special_characters_arrive_as_they_are(self, kit: Kit) -> None:
        """See `tests/security/test_prompts_are_never_interpreted.py`."""
        await super().test_cr_2_13_special_characters_arrive_as_they_are(kit)

    @pytest.mark.full
    async def test_executions_at_once_do_not_mix(self, agent: Agent, tmp_path: Path) -> None:
        """See `test_contract_processes.py`."""
        await super().test_executions_at_once_do_not_mix(agent, tmp_path)


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


@versions("1.0.60")
class Test1060(ClaudeContract):
    pass


@versions("2.0.24")
class Test2024(ClaudeContract):
    pass


@versions("2.0.55")
class Test2055(ClaudeContract):
    pass


@versions("2.1.61")
class Test2161(ClaudeContract):
    pass


@versions("2.1.150")
class Test21150(ClaudeContract):
    pass


@versions("2.1.250")
class Test21250(ClaudeContract):
    pass


@versions("2.1.326")
class Test21326(ClaudeContract):
    pass
