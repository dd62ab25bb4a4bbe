"""The contract as tests. Each is named after the requirement that it checks (CR-…)."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult, UsesGateway
from youbencha.gateway.api import GatewayAccess
from youbencha.log import YouBenchaLog
from youbencha.process import OUTPUT_LIMIT_BYTES, TRUNCATION_MARK
from youbencha.testing.agent import MARKER, Agent, NotApplicable, Prepared, Situation
from youbencha.testing.kit import NOWHERE, PROBE, REAL_CREDENTIALS, GatewayRun, environments_with

_ISO_8601 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")

_LONG_MS = 120_000

_SHORT_MS = 5_000  # for most agents long enough to say their word

_DEADLINE_MARGIN_S = 5.0  # NFR-2; what our own process layer keeps is one second

_PATIENCE_S = 10.0
"""Beyond a run's timeout: then the kit ends it itself, or an adapter that ignores timeouts would never fail."""

SPECIAL_PROMPT = "Say \"it\" and 'that': `id` $(id) ${HOME} $HOME; a\\b | c > d & e\n\ttab é 漢 🙂 %s {x} !h #c ~ * ?"


class AdapterContract:
    """Subclass it as a test class, and give it a fixture `agent`."""

    share_sessions = False
    """True for an agent that is slow to start: tests that only look at a session then look at the same one."""

    @pytest.fixture
    def agent(self) -> Agent:
        raise NotImplementedError("define a fixture `agent` that returns your youbencha.testing.Agent")

    @pytest.fixture
    def kit(self, agent: Agent, tmp_path: Path) -> Kit:
        shared = _SHARED.setdefault(type(self), {}) if self.share_sessions else None
        return Kit(agent, tmp_path, shared=shared)

    # -- the shape ---------------------------------------------------------------------------------------------

    def test_adapter_has_the_contracts_shape(self, agent: Agent) -> None:
        adapter = agent.adapter()
        assert isinstance(adapter, AgentAdapter)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", adapter.name)
        assert re.fullmatch(r"\d+\.\d+\.\d+", adapter.version)

    # -- check_availability ------------------------------------------------------------------------------------

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

    # -- execute -----------------------------------------------------------------------------------------------

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
        assert MARKER in result.output  # what was said before the deadline is kept
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
        adapter = agent.adapter()  # one for all: it keeps no state
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
        secret = MARKER  # which the agent is sure to say
        result = await kit.execute(Situation.ANSWERS, env={"KIT_API_KEY": secret})
        assert result.status == "success", result.errors
        log = kit.agent.adapter().normalize_log(result, kit.last_context)
        assert secret not in result.output
        assert secret not in log.model_dump_json()
        for file in kit.artifacts.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes()

    # -- behind a gateway --------------------------------------------------------------------------------------

    @pytest.mark.asyncio
    async def test_behind_a_gateway_its_key_is_the_only_one_and_a_stop_is_an_end(self, kit: Kit) -> None:
        seen = await kit.behind_gateway()
        assert seen.environments, "no process of the agent was given what the test case gives"
        assert seen.leaks(kit.real_keys) == []
        assert seen.keys is None or set(seen.keys) == {seen.access.key}
        assert (seen.result.status, len(seen.result.errors)) == ("failed", 1)
        assert (seen.result.errors[0].code or "").endswith("_STOPPED")
        log = kit.agent.adapter().normalize_log(seen.result, seen.context)
        assert seen.access.key not in seen.result.output + log.model_dump_json()
        assert log.usage is None or log.usage.partial
        for file in kit.artifacts.rglob("*"):
            assert not file.is_file() or seen.access.key.encode() not in file.read_bytes()

    # -- normalize_log -----------------------------------------------------------------------------------------

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


class Kit:
    """One workspace, and the agent working in it."""

    def __init__(
        self,
        agent: Agent,
        directory: Path,
        adapter: AgentAdapter | None = None,
        *,
        shared: dict[tuple[Situation, int], SharedSession] | None = None,
    ) -> None:
        self.agent = agent
        self._adapter = adapter
        self._shared = shared
        self.late_s = 0.0
        self.real_keys: list[str] = []
        self.expected_exit_code: int | None = None
        self.workspace = directory / "kit" / "workspace"
        self.artifacts = directory / "kit" / "artifacts"
        self.workspace.mkdir(parents=True)
        self._contexts: list[AgentExecutionContext] = []

    @property
    def short_ms(self) -> int:
        """A timeout that leaves the agent just enough time to speak."""
        return self.agent.time_to_speak_ms or _SHORT_MS

    @property
    def last_context(self) -> AgentExecutionContext:
        return self._contexts[-1]

    async def execute(
        self,
        situation: Situation,
        *,
        prompt: str = "Do what you are told.",
        timeout: int = _LONG_MS,
        env: dict[str, str] | None = None,
    ) -> AgentExecutionResult:
        key = (situation, timeout)
        if self._shared is not None and env is None:
            if key not in self._shared:
                self._shared[key] = SharedSession(self, await self._execute(situation, prompt, timeout, {}))
            first = self._shared[key]
            vars(self).update(vars(first.kit))
            return first.result
        return await self._execute(situation, prompt, timeout, env or {})

    async def cut_off(self) -> AgentExecutionResult:
        """By its timeout, after it spoke. One that comes before that shows little: then a longer one is given."""
        timeout = self.short_ms
        result = await self.execute(Situation.HANGS, timeout=timeout)
        while MARKER not in result.output and timeout < _LONG_MS:
            timeout = min(3 * timeout, _LONG_MS)
            result = await self.execute(Situation.HANGS, timeout=timeout)
        return result

    async def _execute(
        self, situation: Situation, prompt: str, timeout: int, env: dict[str, str]
    ) -> AgentExecutionResult:
        async with self._prepared(situation) as prepared:
            start = time.monotonic()
            result = await self._run(prepared, prompt, timeout, env)
            self.late_s = time.monotonic() - start - timeout / 1000
            return result

    async def prompts_seen(self, prompt: str) -> list[str]:
        async with self._prepared(Situation.ANSWERS) as prepared:
            if prepared.prompts is None:
                pytest.skip("what reaches this agent's model cannot be seen")
            await self._run(prepared, prompt, _LONG_MS, {})
            return prepared.prompts()

    async def behind_gateway(self) -> GatewayRun:
        """Let the agent speak through a gateway, with real keys around it; then look at its processes, and stop it."""
        adapter = self._adapter or self.agent.adapter()
        if not isinstance(adapter, UsesGateway):
            pytest.skip("this adapter knows of no gateway")
        async with self._prepared(Situation.HANGS) as prepared:
            self.real_keys = self._real_keys(adapter, prepared)
            probe = f"{PROBE}-{uuid.uuid4().hex}"
            access = GatewayAccess(prepared.model_url or NOWHERE, f"kit-virtual-{uuid.uuid4().hex}")
            context = replace(
                self._context(prepared, "Do what you are told.", _LONG_MS, {**REAL_CREDENTIALS, PROBE: probe}),
                gateway=access,
                stop=asyncio.Event(),
            )
            running = asyncio.create_task(adapter.execute(context))
            try:
                await self._spoken(running)
                environments = list(environments_with(probe))
            finally:
                assert context.stop is not None
                context.stop.set()
                await asyncio.wait({running}, timeout=_PATIENCE_S)
                running.cancel()
                await asyncio.wait({running})
            assert not running.cancelled(), "the agent did not end when it was told to stop"
            keys = prepared.keys() if prepared.keys else None
            return GatewayRun(access, context, running.result(), environments, keys)

    def _real_keys(self, adapter: UsesGateway, prepared: Prepared) -> list[str]:
        """What the agent's own preparation gives it, but for the address that the gateway has here, too."""
        values = [prepared.env[name] for name in adapter.credentials_in(prepared.env)]
        address = prepared.model_url or NOWHERE
        return [value for value in values if address not in value and len(value) > len("anthropic")]

    async def _spoken(self, running: asyncio.Task[AgentExecutionResult]) -> None:
        """Until its word is in the log, which is written as the agent runs; or until it ends without one."""
        async with asyncio.timeout(_LONG_MS / 1000):
            while not running.done():
                logs = self.artifacts.rglob("terminal-output-*.log")
                if any(MARKER.encode() in log.read_bytes() for log in logs):
                    return
                await asyncio.sleep(0.05)

    async def _run(self, prepared: Prepared, prompt: str, timeout: int, env: dict[str, str]) -> AgentExecutionResult:
        context = self._context(prepared, prompt, timeout, env)
        async with asyncio.timeout(timeout / 1000 + _PATIENCE_S):
            return await (self._adapter or self.agent.adapter()).execute(context)

    def _context(self, prepared: Prepared, prompt: str, timeout: int, env: Mapping[str, str]) -> AgentExecutionContext:
        config: dict[str, Any] = {**prepared.config, self.agent.prompt_key: prompt}
        context = AgentExecutionContext(
            workspace_dir=self.workspace,
            repo_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config=config,
            timeout=timeout,
            env={**prepared.env, **env},
        )
        self._contexts.append(context)
        self.expected_exit_code = prepared.exit_code
        return context

    @asynccontextmanager
    async def _prepared(self, situation: Situation) -> AsyncIterator[Prepared]:
        try:
            async with self.agent.in_situation(situation, self.workspace) as prepared:
                yield prepared
        except NotApplicable as reason:
            pytest.skip(str(reason))


def _applicable(make: Callable[[], AgentAdapter]) -> AgentAdapter:
    try:
        return make()
    except NotApplicable as reason:
        pytest.skip(str(reason))


class SharedSession(NamedTuple):
    """A session that several tests look at."""

    kit: Kit
    result: AgentExecutionResult


_SHARED: dict[type[AdapterContract], dict[tuple[Situation, int], SharedSession]] = {}
