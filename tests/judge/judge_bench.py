"""A bench for judges: a changed tree, and an adapter with given answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentExecutionContext, AgentExecutionResult, BaseAdapter, get_adapter
from youbencha.adapters.base import complete_adapter
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators import EvaluationContext
from youbencha.evaluators.judge import AgenticJudge
from youbencha.log.model import AgentInfo, ErrorRecord, Message, ModelInfo, Status, Usage, YouBenchaLog
from youbencha.process import Redactor
from youbencha.spec.testcase import AgentSpec
from youbencha.store.bundle import EvaluationResult
from youbencha.text import iso_time
from youbencha.workspace import Changes, FileChange

PATCH = "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-Hello\n+Hello, world\n"
ASSERTIONS = {"readme_was_modified": "README.md was modified.", "no_errors": "There are no errors."}


def ours(**scores: Any) -> str:
    """A verdict in our own shape."""
    import json

    return json.dumps(
        {"assertions": {name: {"score": score, "reason": f"saw {name}"} for name, score in scores.items()}}
    )


@dataclass
class Judge:
    """An adapter. Each run gives the next answer: text, a status with an error, or what a function makes of it."""

    answers: Sequence[str | tuple[Status, str] | Callable[[AgentExecutionContext], str]]
    usage: Sequence[Usage | None] = (Usage(input_tokens=10, output_tokens=2, total_tokens=12, cost_usd=0.01),)
    name: str = "tiny"
    version: str = "1.0.0"
    warnings: tuple[ErrorRecord, ...] = ()
    seen: list[AgentExecutionContext] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0

    def __call__(self, name: str) -> BaseAdapter:
        """Stands for `get_adapter`."""
        if name not in (self.name, "claude-code", "copilot-cli"):
            raise YouBenchaError("AGENT_UNKNOWN", f"There is no adapter for an agent called {name!r}.", hint="Fix it.")
        adapter = complete_adapter(self)
        if name != self.name:
            real = get_adapter(name)
            vars(adapter).update(agent_definitions=real.agent_definitions, judge_config=real.judge_config)
        return adapter

    async def check_availability(self) -> bool:
        return True

    async def execute(self, context: AgentExecutionContext) -> AgentExecutionResult:
        number = len(self.seen)
        self.seen.append(context)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        for _ in range(10):
            await asyncio.sleep(0)
        self.running -= 1
        answer = self.answers[min(number, len(self.answers) - 1)]
        status: Status = "success"
        errors: tuple[ErrorRecord, ...] = ()
        now = iso_time(time.time())
        if isinstance(answer, tuple):
            status, why = answer
            errors = (ErrorRecord(message=why, timestamp=now, code="TINY_BROKE", hint="Fix the tiny agent."),)
        output = answer if isinstance(answer, str) else answer(context) if callable(answer) else ""
        return AgentExecutionResult(
            exit_code=0 if status == "success" else 1,
            status=status,
            output=output,
            started_at=now,
            completed_at=now,
            duration_ms=1,
            errors=errors,
            details={"number": number},
        )

    def normalize_log(self, result: AgentExecutionResult, context: AgentExecutionContext) -> YouBenchaLog:
        number = result.details["number"]
        return YouBenchaLog(
            agent_info=AgentInfo(name=self.name, version="3.1", adapter_version=self.version),
            model_info=ModelInfo(name=context.model or "tiny-model", provider="tiny"),
            execution=result.execution(),
            messages=(
                Message(role="user", content=context.config["prompt"]),
                Message(role="assistant", content=result.output),
            ),
            usage=self.usage[min(number, len(self.usage) - 1)],
            errors=result.errors,
            warnings=self.warnings,
        )

    @property
    def prompts(self) -> list[str]:
        return [context.config["prompt"] for context in self.seen]


class StrictJudge(Judge):
    """One that knows its options."""

    def check_config(self, config: Mapping[str, Any], config_dir: Path | None) -> Sequence[Problem]:
        known = ("prompt", "agent_name", "version", "max_turns", "executable", "model")
        return [
            Problem(key, "unknown key", "known keys: max_turns", kind="unknown_key")
            for key in config
            if key not in known
        ]


def agent_log(status: Status = "success", prompt: str = "Greet the world in README.md.") -> YouBenchaLog:
    now = iso_time(time.time())
    result = AgentExecutionResult(
        exit_code=0, status=status, output="", started_at=now, completed_at=now, duration_ms=1
    )
    return YouBenchaLog(
        agent_info=AgentInfo(name="worker", version="1", adapter_version="1.0.0"),
        model_info=ModelInfo(name="m", provider="p"),
        execution=result.execution(),
        messages=(Message(role="user", content=prompt), Message(role="assistant", content="Done.")),
    )


class JudgeBench:
    def __init__(self, directory: Path) -> None:
        self.tree = directory / "run" / "src-modified"
        self.artifacts_root = directory / "run" / "artifacts"
        self.project = directory / "project"
        self.scratch = directory / "scratch"
        self.patch = directory / "run" / "git-diff.patch"
        for path in (self.tree, self.artifacts_root, self.project, self.scratch):
            path.mkdir(parents=True)
        (self.tree / "README.md").write_text("Hello, world\n")
        self.patch.write_text(PATCH)

    def context(self, config: Mapping[str, Any], **overrides: Any) -> EvaluationContext:
        name = overrides.pop("name", "agentic-judge")
        place = name.replace(":", "-")
        for path in (self.artifacts_root / "evaluators" / place, self.scratch / place):
            path.mkdir(parents=True, exist_ok=True)
        change = FileChange("README.md", "modified", 1, 1)
        fields: dict[str, Any] = {
            "name": name,
            "config": {"type": "tiny", "assertions": ASSERTIONS, **config},
            "directory": self.tree,
            "artifacts_dir": self.artifacts_root / "evaluators" / place,
            "config_dir": self.project,
            "changes": Changes((change,), self.patch, None, None),
            "scratch_dir": self.scratch / place,
            "agent": AgentSpec(type="worker", config={"prompt": "Greet the world."}),
            "log": agent_log(),
            "harness_env": os.environ,
            "redactor": Redactor.for_env(os.environ),
        }
        return EvaluationContext(**{**fields, **overrides})

    async def judge(self, judge: Judge, config: Mapping[str, Any] | None = None, **overrides: Any) -> EvaluationResult:
        return await AgenticJudge(judge).evaluate(self.context(config or {}, **overrides))


def contents(tree: Path) -> dict[str, bytes | str]:
    """Everything in a tree, to be compared."""
    return {
        path.relative_to(tree).as_posix(): path.readlink().as_posix() if path.is_symlink() else path.read_bytes()
        for path in sorted(tree.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
