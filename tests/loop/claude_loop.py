"""Loops with the real Claude Code CLI, or with a small program in its place, run in this process."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from claude_bench import API_KEY, ClaudeBench
from youbencha.events import Event, IterationEnded
from youbencha.loop.control import LoopControl
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.loop.plan import LoopOverrides, find_loop_file, plan_loop
from youbencha.loop.run import new_history, run_loop
from youbencha.scripted_model import RecordedRequest, Script, ScriptedModel
from youbencha.spec.settings import load_settings
from youbencha.store.loops import IterationRecord, LoopState
from youbencha.trial.context import Host

DONE = "LOOP_COMPLETE"
GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
E = TypeVar("E", bound=Event)


class Looped(NamedTuple):
    """A loop that has ended."""

    state: LoopState
    records: list[IterationRecord]
    events: list[Event]
    requests: list[RecordedRequest]
    directory: LoopDirectory

    @property
    def outcomes(self) -> list[str]:
        return [record.outcome for record in self.records]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def reasons(self) -> list[str | None]:
        return [event.reason for event in self.of(IterationEnded)]


class ClaudeProject:
    """A git repository with a ralph.yml."""

    def __init__(self, tree: Path, home: Path, env: Mapping[str, str]) -> None:
        self.tree, self.home, self.env = tree, home, dict(env)
        (tree / "README.md").write_text("# Shop\n")
        for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "First")):
            subprocess.run([*GIT, *words], cwd=tree, check=True)

    def configure(self, **spec: Any) -> None:
        """Write ralph.yml; without a prompt, there is a short one."""
        spec["event_loop"] = {"prompt": "Do what you are told.", **spec.get("event_loop", {})}
        (self.tree / "ralph.yml").write_text(json.dumps(spec))

    async def run(
        self,
        *,
        env: Mapping[str, str] | None = None,
        control: LoopControl | None = None,
        on_event: Callable[[Event], None] | None = None,
        requests: list[RecordedRequest] | None = None,
    ) -> Looped:
        host = Host({**self.env, **(env or {})}, load_settings(self.tree, self.home))
        plan = plan_loop(find_loop_file(self.tree), host, self.tree, LoopOverrides())
        directory = LoopDirectory(self.tree, new_loop_id())
        directory.create()
        history = new_history(plan, directory.loop_id)
        events: list[Event] = []

        def take(event: Event) -> None:
            events.append(event)
            if on_event is not None:
                on_event(event)

        state = await run_loop(plan, host, control or LoopControl(), take, directory=directory, history=history)
        lines = (directory.path / "iterations.jsonl").read_text().splitlines()
        records = [IterationRecord.model_validate_json(line) for line in lines]
        return Looped(state, records, events, requests or [], directory)


class ClaudeLoop(ClaudeProject):
    """The same with Claude Code and a scripted model."""

    def __init__(self, claude: ClaudeBench) -> None:
        claude.put_on_path()
        self.claude = claude
        super().__init__(claude.workspace, claude.home, {**claude.harness_env, "IS_SANDBOX": "1"})

    async def run_script(self, model_script: Script, *, key: str | None = API_KEY, **options: Any) -> Looped:
        env = options.pop("env", {})
        whole = model_script.model_copy(update={"across_sessions": True})
        async with asyncio.timeout(120), ScriptedModel(whole) as model:
            credentials = {"ANTHROPIC_API_KEY": key} if key else {}
            given = {"ANTHROPIC_BASE_URL": model.url, **credentials, **env}
            looped = await self.run(env=given, **options)
            return looped._replace(requests=[request for request in model.requests if request.kind == "turn"])
