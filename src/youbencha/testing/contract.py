"""The contract as tests. Each is named after the requirement that it checks (CR-…)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from youbencha.adapters import AgentAdapter
from youbencha.log.model import YouBenchaLog
from youbencha.process import OUTPUT_LIMIT_BYTES, TRUNCATION_MARK
from youbencha.testing.agent import MARKER, Agent, NotApplicable, Situation
from youbencha.testing.kit import Kit, SharedSession

_ISO_8601 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_DEADLINE_MARGIN_S = 5.0  # NFR-2; `youbencha.process` usually needs less than one
SPECIAL_PROMPT = "Say \"it\" and 'that': `id` $(id) ${HOME} $HOME; a\\b | c > d & e\n\ttab é 漢 🙂 %s {x} !h #c ~ * ?"


class AdapterContract:
    """Subclass it as a test class, and give it a fixture `agent`."""

    share_sessions = False
    """True for an agent that is slow to start: tests that only read a session then share one."""

    @pytest.fixture
    def agent(self) -> Agent:
        raise NotImplementedError("define a fixture `agent` that returns your youbencha.testing.Agent")

    @pytest.fixture
    def kit(self, agent: Agent, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Kit:
        if not self.share_sessions:
            return Kit(agent, tmp_path)
        # Pytest may remove a test's own directory before the next test looks at what is in it.
        return Kit(agent, tmp_path_factory.mktemp("shared"), shared=_SHARED.setdefault(type(self), {}))

    def test_adapter_has_the_contracts_shape(self, agent: Agent) -> None:
        adapter = agent.adapter()
        assert isinstance(adapter, AgentAdapter)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", adapter.name)
        assert re.fullmatch(r"\d+\.\d+\.\d+", adapter.version)

    @pytest.mark.asyncio
    async def test_cr_1_1_an_installed_agent_is_available(self, agent: Agent) -> None:
        assert await agent.adapter().check_availability() is True

    @pytest.mark.asyncio
    async def test_cr_1_2_a_missing_agent_is_unavailable_and_nothing_is_raised(self, agent: Agent) -> None:
        adapter = _applicable(agent.adapter_without_cli)
        assert await adapter.check_availability() is False

    @pytest.mark.asyncio
    async def test_cr_1_3_missing_authentication_is_said_clearly(self, agent: Agent) -> None:
        adapter = _applicable(agent.adapter_without_credentials)
        with pytest.raises(Exception, match=r"(?i)authentication|api key"):
            await adapter.check_availability()

    @pytest.mark.asyncio
    async def test_cr_2_1_success(self, kit: Kit) -> None:
        result = await kit.execute(Situation.ANSWERS)
        assert (result.status, result.exit_code) == ("success", 0), result.errors
        assert MARKER in result.output
        assert _ISO_8601.match(result.started_at)
        assert _ISO_8601.match(result.completed_at)
        assert result.completed_at >= result.started_at
        assert result.errors == ()

    @pytest.mark.asyncio
    async def test_cr_2_2_failure_is_a_result_and_not_an_exception(self, kit: Kit) -> None:
        result = await kit.execute(Situation.FAILS)
        assert result.status == "failed"
        assert result.exit_code != 0
        assert kit.expected_exit_code in (None, result.exit_code)
        assert result.output.strip()
        assert result.errors
        assert all(error.message and error.code for error in result.errors)

    @pytest.mark.asyncio
    async def test_cr_2_3_timeout(self, kit: Kit) -> None:
        result = await kit.cut_off()
        assert kit.late_s < _DEADLINE_MARGIN_S
        assert result.status == "timeout"
        assert result.exit_code != 0
        assert MARKER in result.output  # the output before the deadline is kept
        assert any("timeout" in error.message.lower() for error in result.errors)

    @pytest.mark.asyncio
    async def test_cr_2_4_the_prompt_arrives(self, kit: Kit) -> None:
        assert "List the files" in await kit.prompts_seen("List the files")

    @pytest.mark.asyncio
    async def test_cr_2_8_output_is_complete(self, kit: Kit) -> None:
        result = await kit.execute(Situation.ANSWERS)
        assert TRUNCATION_MARK not in result.output

    @pytest.mark.asyncio
    async def test_cr_2_9_output_is_bounded(self, kit: Kit) -> None:
        result = await kit.execute(Situation.SAYS_MUCH)
        assert result.status == "success", result.errors  # the agent itself is not disturbed
        assert TRUNCATION_MARK in result.output
        assert len(result.output.encode()) <= OUTPUT_LIMIT_BYTES + 200
        assert any("truncated" in error.message for error in result.errors)
        log = kit.agent.adapter().normalize_log(result, kit.last_context)
        cut = [error for error in log.errors if "truncated" in error.message]
        assert len(cut) == 1  # CR-3.11
        assert "10MB" in cut[0].message

    @pytest.mark.asyncio
    async def test_cr_2_10_and_2_11_working_directory_and_environment(self, kit: Kit) -> None:
        result = await kit.execute(Situation.WRITES_FILE, env={"KIT_PROBE": MARKER})
        assert result.status == "success", result.errors
        assert (kit.workspace / "kit.txt").read_text().strip() == MARKER

    @pytest.mark.asyncio
    async def test_cr_2_12_the_raw_output_is_kept_in_a_log_file(self, kit: Kit) -> None:
        result = await kit.execute(Situation.ANSWERS)
        logs = list(kit.artifacts.rglob("terminal-output-*.log"))
        assert len(logs) == 1
        assert logs[0].read_bytes().decode(errors="replace") == result.output

    @pytest.mark.asyncio
    async def test_cr_2_13_special_characters_arrive_as_they_are(self, kit: Kit) -> None:
        assert SPECIAL_PROMPT in await kit.prompts_seen(SPECIAL_PROMPT)

    @pytest.mark.asyncio
    async def test_executions_at_once_do_not_mix(self, agent: Agent, tmp_path: Path) -> None:
        adapter = agent.adapter()  # shared: an adapter keeps no state
        kits = [Kit(agent, tmp_path / str(number), adapter) for number in range(2)]
        probes = [f"{MARKER}-{number}" for number in range(2)]
        results = await asyncio.gather(
            *(
                kit.execute(Situation.WRITES_FILE, env={"KIT_PROBE": probe})
                for kit, probe in zip(kits, probes, strict=True)
            )
        )
        assert [result.errors for result in results] == [(), ()]
        assert [(kit.workspace / "kit.txt").read_text().strip() for kit in kits] == probes

    @pytest.mark.asyncio
    async def test_secrets_are_written_nowhere(self, kit: Kit) -> None:
        secret = MARKER  # which the agent prints
        result = await kit.execute(Situation.ANSWERS, env={"KIT_API_KEY": secret})
        assert result.status == "success", result.errors
        log = kit.agent.adapter().normalize_log(result, kit.last_context)
        assert secret not in result.output
        assert secret not in log.model_dump_json()
        for file in kit.artifacts.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes()

    @pytest.mark.asyncio
    async def test_behind_a_gateway_its_key_is_the_only_one_and_a_stop_is_an_end(self, kit: Kit) -> None:
        seen = await kit.behind_gateway()
        assert seen.environments, "no process of the agent got the test case's variables"
        assert seen.leaks(kit.real_keys) == []
        assert seen.keys is None or set(seen.keys) == {seen.access.key}
        assert (seen.result.status, len(seen.result.errors)) == ("failed", 1)
        assert (seen.result.errors[0].code or "").endswith("_STOPPED")
        log = kit.agent.adapter().normalize_log(seen.result, seen.context)
        assert seen.access.key not in seen.result.output + log.model_dump_json()
        assert log.usage is None or log.usage.partial
        for file in kit.artifacts.rglob("*"):
            assert not file.is_file() or seen.access.key.encode() not in file.read_bytes()

    @pytest.mark.parametrize("situation", [Situation.ANSWERS, Situation.FAILS, Situation.HANGS])
    @pytest.mark.asyncio
    async def test_cr_3_the_log(self, kit: Kit, situation: Situation) -> None:
        """CR-3.1 schema, CR-3.2 agent, CR-3.3 model, CR-3.5 execution, CR-3.10 errors."""
        result = await (kit.cut_off() if situation is Situation.HANGS else kit.execute(situation))
        adapter = kit.agent.adapter()
        log = adapter.normalize_log(result, kit.last_context)
        assert YouBenchaLog.model_validate_json(log.model_dump_json()) == log
        assert (log.agent_info.name, log.agent_info.adapter_version) == (adapter.name, adapter.version)
        assert log.agent_info.version
        assert log.model_info.name
        assert log.model_info.provider
        assert log.execution.model_dump() == {
            "started_at": result.started_at,
            "completed_at": result.completed_at,
            "duration_ms": result.duration_ms,
            "exit_code": result.exit_code,
            "status": result.status,
        }
        assert all(error in log.errors for error in result.errors)

    @pytest.mark.asyncio
    async def test_cr_3_6_what_the_agent_said_is_a_message(self, kit: Kit) -> None:
        result = await kit.execute(Situation.ANSWERS)
        log = kit.agent.adapter().normalize_log(result, kit.last_context)
        assert any(message.role == "assistant" and MARKER in message.content for message in log.messages)

    @pytest.mark.asyncio
    async def test_normalizing_twice_gives_the_same(self, kit: Kit) -> None:
        result = await kit.execute(Situation.ANSWERS)
        adapter = kit.agent.adapter()
        assert adapter.normalize_log(result, kit.last_context) == adapter.normalize_log(result, kit.last_context)


def _applicable(make: Callable[[], AgentAdapter]) -> AgentAdapter:
    try:
        return make()
    except NotApplicable as reason:
        pytest.skip(str(reason))


_SHARED: dict[type[AdapterContract], dict[tuple[Situation, int], SharedSession]] = {}
