"""Real CLIs from the toolbox, and a bench for them: a workspace, a clean home, a scripted model."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.cli_agent import CliAdapter
from youbencha.events import Event
from youbencha.log.model import YouBenchaLog
from youbencha.scripted_model import RecordedRequest, Script, ScriptedModel
from youbencha.testing import Agent, Prepared, Situation
from youbencha.testing.agent import MARKER
from youbencha.user_dirs import toolbox_dir

API_KEY = "sk-dummy-0123456789abcdef"
TOOLBOX = str(toolbox_dir())
"""As it is before any test looks elsewhere."""


def script(*turns: Mapping[str, Any], **settings: Any) -> Script:
    return Script.model_validate({"turns": list(turns), **settings})


def harness_env(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "YOUBENCHA_TOOLBOX": TOOLBOX}


@dataclass(frozen=True)
class Session:
    """One execution, and everything that can be known of it."""

    result: AgentExecutionResult
    log: YouBenchaLog
    requests: list[RecordedRequest]
    events: list[Event]

    def codes(self) -> list[str | None]:
        return [error.code for error in self.result.errors]


@dataclass
class Bench:
    """One agent, ready to be run against a script."""

    adapter: CliAdapter[Any]
    directory: Path
    model: str | None
    variables: Mapping[str, str]
    """How the agent finds the scripted model: `{url}` stands for it."""
    config: dict[str, Any] = field(default_factory=dict)

    def env(self, model: ScriptedModel) -> dict[str, str]:
        return {name: value.format(url=model.url) for name, value in self.variables.items()}

    async def run(
        self, model_script: Script, *, timeout: int = 60_000, config_dir: Path | None = None, **config: Any
    ) -> Session:
        workspace = self.directory / "workspace"
        workspace.mkdir(exist_ok=True)
        events: list[Event] = []
        async with ScriptedModel(model_script) as model:
            context = AgentExecutionContext(
                workspace_dir=workspace,
                repo_dir=workspace,
                artifacts_dir=self.directory / "artifacts",
                config={"prompt": "Do what you are told.", **self.config, **config},
                timeout=timeout,
                env=self.env(model),
                model=self.model,
                config_dir=config_dir,
                on_event=events.append,
            )
            result = await self.adapter.execute(context)
        return Session(result, self.adapter.normalize_log(result, context), model.requests, events)

    async def cut_off(self, model_script: Script, timeout: int) -> Session:
        """By its deadline, once the last answer was asked for. One before that shows nothing: a later one is set."""
        session = await self.run(model_script, timeout=timeout)
        begun = len(session.requests) >= len(model_script.turns)
        return session if begun or timeout > 100_000 else await self.cut_off(model_script, timeout * 10)


@dataclass
class KitAgent(Agent):
    """For the conformance kit: each situation is a script."""

    bench: Bench
    without_cli: AgentAdapter
    without_credentials: AgentAdapter
    turns: Mapping[Situation, list[dict[str, Any]]]
    time_to_speak_ms: int | None = None

    def adapter(self) -> AgentAdapter:
        return self.bench.adapter

    def adapter_without_cli(self) -> AgentAdapter:
        return self.without_cli

    def adapter_without_credentials(self) -> AgentAdapter:
        return self.without_credentials

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        async with ScriptedModel(script(*self.turns[situation])) as model:
            yield Prepared(
                config={"model": self.bench.model, **self.bench.config},
                env=self.bench.env(model),
                prompts=lambda: [prompt_of(request) for request in model.requests if request.kind == "turn"],
                model_url=model.url,
                keys=lambda: [key_of(request) for request in model.requests],
            )


def kit_agent(
    bench: Bench,
    env: Mapping[str, str],
    turns: Mapping[Situation, list[dict[str, Any]]],
    *,
    time_to_speak_ms: int | None = None,
) -> KitAgent:
    """The agent of a bench, and the same without its CLI and without credentials; `env` has none of them."""
    without_cli = {**env, "PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(bench.directory / "none")}
    adapter = type(bench.adapter)
    return KitAgent(bench, adapter(env=without_cli), adapter(env=env), turns, time_to_speak_ms)


def usual_turns(
    uses_shell: dict[str, Any],
    waits: dict[str, Any],
    *,
    answer: str = f"The answer is {MARKER}.",
    much: Sequence[dict[str, Any]] = ({"text": "0123456789abcde\n" * 1_000_000},),
) -> dict[Situation, list[dict[str, Any]]]:
    """The script of each situation. `uses_shell` writes the file, `waits` is the answer before the one that hangs."""
    return {
        Situation.ANSWERS: [{"text": answer}],
        Situation.WRITES_FILE: [uses_shell, {"text": "Written."}],
        Situation.SAYS_MUCH: [*much],
        Situation.FAILS: [{"error": {"status": 400, "message": "the script says no"}}],
        Situation.HANGS: [waits, {"hang": True, "text": "..."}],
    }


WRITE_PROBE = 'printf "%s" "$KIT_PROBE" > kit.txt'
WAIT = f"Wait for {MARKER}."

_WHEN = re.compile(r"\A<current_datetime>[^<]*</current_datetime>\n\n")
"""What Copilot puts before a prompt."""


def prompt_of(request: RecordedRequest) -> str:
    """The person's words: they stand last, after what the CLI itself says."""
    if request.wire == "anthropic-messages":
        content = request.body["messages"][0]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        return _WHEN.sub("", text)
    if request.wire == "gemini":
        return str(request.body["contents"][0]["parts"][-1]["text"])
    users = [item for item in request.body["input"] if item.get("role") == "user"]
    return str(users[-1]["content"][-1]["text"])


def key_of(request: RecordedRequest) -> str:
    headers = request.headers
    bearer = headers.get("authorization", "").removeprefix("Bearer").strip()
    return headers.get("x-api-key") or bearer or headers.get("x-goog-api-key", "")
