"""Kit: run an agent in a situation, and observe its processes' environments and its requests to the model."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult, BaseAdapter
from youbencha.adapters.base import complete_adapter
from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.testing.agent import MARKER, Agent, NotApplicable, Prepared, Situation

LONG_MS = 120_000
_SHORT_MS = 5_000  # long enough for the first output of most agents

_PATIENCE_S = 10.0
"""After a run's timeout and this, the kit ends the run, so that an adapter that ignores timeouts fails."""

PROBE = "KIT_PROBE"
NOWHERE = "http://127.0.0.1:9"
_SECRET = "kit-real-secret"

_KEYS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY",
    "OPENAI_ORGANIZATION", "GEMINI_API_KEY", "GOOGLE_API_KEY", "COPILOT_PROVIDER_API_KEY", "AZURE_OPENAI_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN", "OPENROUTER_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_CUSTOM_HEADERS",
)  # fmt: skip

_ADDRESSES = (
    "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_BASE", "GOOGLE_GEMINI_BASE_URL",
    "COPILOT_PROVIDER_BASE_URL",
)  # fmt: skip

REAL_CREDENTIALS: Mapping[str, str] = {
    **dict.fromkeys(_KEYS, f"authorization: {_SECRET}"),
    **dict.fromkeys(_ADDRESSES, f"{NOWHERE}/{_SECRET}"),
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
}
"""What a test case may set for an agent. None of it may reach the agent behind a gateway, or have any effect."""


class Kit:
    """A workspace, and an agent that works in it."""

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
        """A timeout that leaves the agent just enough time for its first output."""
        return self.agent.time_to_speak_ms or _SHORT_MS

    @property
    def last_context(self) -> AgentExecutionContext:
        return self._contexts[-1]

    async def execute(
        self,
        situation: Situation,
        *,
        prompt: str = "Do what you are told.",
        timeout: int = LONG_MS,
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
        """Run an agent that hangs into its timeout. If it has printed nothing by then, try a longer one."""
        timeout = self.short_ms
        while timeout < LONG_MS:
            with suppress(YouBenchaError):  # it has not even reported its version
                result = await self.execute(Situation.HANGS, timeout=timeout)
                if MARKER in result.output:
                    return result
            timeout *= 3
        return await self.execute(Situation.HANGS, timeout=LONG_MS)

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
                pytest.skip("the requests to this agent's model cannot be observed")
            await self._run(prepared, prompt, LONG_MS, {})
            return prepared.prompts()

    async def behind_gateway(self) -> GatewayRun:
        """Run the agent through a gateway, with real keys in the test case; read its environments, then stop it."""
        adapter = complete_adapter(self._adapter or self.agent.adapter())
        if not adapter.supports_gateway:
            pytest.skip("this adapter does not support the gateway")
        async with self._prepared(Situation.HANGS) as prepared:
            self.real_keys = self._real_keys(adapter, prepared)
            probe = f"{PROBE}-{uuid.uuid4().hex}"
            access = GatewayAccess(prepared.model_url or NOWHERE, f"kit-virtual-{uuid.uuid4().hex}")
            context = replace(
                self._context(prepared, "Do what you are told.", LONG_MS, {**REAL_CREDENTIALS, PROBE: probe}),
                gateway=access,
                stop=asyncio.Event(),
            )
            running = asyncio.create_task(adapter.execute(context))
            try:
                await self._wait_for_marker(running)
                environments = list(environments_with(probe))
            finally:
                assert context.stop is not None
                context.stop.set()
                await asyncio.wait({running}, timeout=_PATIENCE_S)
                running.cancel()
                await asyncio.wait({running})
            assert not running.cancelled(), "the agent did not end after `stop` was set"
            keys = prepared.keys() if prepared.keys else None
            return GatewayRun(access, context, running.result(), environments, keys)

    def _real_keys(self, adapter: BaseAdapter, prepared: Prepared) -> list[str]:
        """Return the prepared agent's credentials, without the model's address, which is also the gateway's here."""
        values = [prepared.env[name] for name in adapter.credentials_in(prepared.env)]
        address = prepared.model_url or NOWHERE
        return [value for value in values if address not in value and len(value) > len("anthropic")]

    async def _wait_for_marker(self, running: asyncio.Task[AgentExecutionResult]) -> None:
        """Wait until the marker is in the log, which is written while the agent runs, or until the agent ends."""
        async with asyncio.timeout(LONG_MS / 1000):
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


class SharedSession(NamedTuple):
    """A session that several tests read."""

    kit: Kit
    result: AgentExecutionResult


class GatewayRun(NamedTuple):
    """A run behind a gateway, stopped after the agent's first output."""

    access: GatewayAccess
    context: AgentExecutionContext
    result: AgentExecutionResult
    environments: list[Mapping[str, str]]
    """The environments of all processes of the agent."""
    keys: list[str] | None

    def leaks(self, known: Collection[str]) -> list[str]:
        """Names of variables with credentials that only the harness may have."""
        secrets = {_SECRET, *known}
        return sorted(
            {
                name
                for env in self.environments
                for name, value in env.items()
                if any(secret in value for secret in secrets)
            }
        )


def environments_with(probe: str) -> Iterator[Mapping[str, str]]:
    """Yield the environments of descendants of this process that have this probe."""
    for process in psutil.Process().children(recursive=True):
        try:
            env = process.environ()
        except psutil.Error:
            continue
        if env.get(PROBE) == probe:
            yield env
