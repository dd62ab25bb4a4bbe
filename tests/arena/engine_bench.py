"""Matrices of small trials: agents that are programs, in the local sandbox, with a results directory of their own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repositories import copied

from git_repositories import git
from youbencha import __version__
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.resume import cell_infos
from youbencha.spec.settings import load_settings
from youbencha.spec.testcase import TestCase
from youbencha.store.arena import RunInfo, TrialMeta
from youbencha.store.arena_run import ArenaRun, create_run
from youbencha.trial.context import Host
from youbencha.trial.plan import PlanOptions, plan_trial

PATIENCE_S = 120
WORK = "echo done > done.txt"


class EngineBench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results"
        self.cache = root / "cache"
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        (root / "home" / ".youbencharc").write_text(f"cache_dir: {self.cache}\n")

    @property
    def env(self) -> dict[str, str]:
        kept = ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_START", "DOCKER_HOST")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
        }

    def host(self, env: Mapping[str, str] | None = None) -> Host:
        return Host({**self.env, **(env or {})}, load_settings(self.root, self.home))

    def repository(self) -> Path:
        path = self.root / "repository"
        return path if path.exists() else copied(path, self.root, "engine", self._make_repository)

    def _make_repository(self, path: Path) -> None:
        (path / "README.md").write_text("A task.\n")
        for arguments in (("init", "-q", "--template=", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "start")):
            git(path, *arguments)

    def cell(self, host: Host, orchestrator: str, task: str, script: str = WORK, **more: Any) -> Cell:
        """`script` is run by a shell in the agent's workspace."""
        config = {"command": script, "shell": True, "prompt_by": "none"}
        case = TestCase.model_validate(
            {
                "name": task,
                "repo": str(self.repository()),
                "agent": {"type": "command", "config": config},
                "evaluators": ["git-diff"],
                **more,
            }
        )
        plan = plan_trial(case, host, directory=self.root, options=PlanOptions())
        return Cell(
            orchestrator=orchestrator,
            task=task,
            plan=plan,
            task_text="A task.\n",
            agent_hash=f"agent-{orchestrator}-{task}-{script}",
            validation_hash=f"validation-{task}",
        )

    def matrix(self, host: Host, agents: int = 2, tasks: int = 2, *, trials: int = 1, script: str = WORK) -> Matrix:
        cells = (
            self.cell(host, f"agent-{agent}", f"task-{task}", script)
            for task in range(1, tasks + 1)
            for agent in range(1, agents + 1)
        )
        return Matrix(cells=tuple(cells), trials=trials)

    def new_run(self, matrix: Matrix) -> ArenaRun:
        info = RunInfo(
            youbencha_version=__version__,
            created_at="2026-01-01T00:00:00Z",
            trials=matrix.trials,
            cells=cell_infos(matrix),
        )
        return create_run(self.results, info)

    def assert_nothing_is_left(self) -> None:
        """No private directory, and no workspace of an attempt."""
        private = self.cache / "runs"
        assert not private.exists() or list(private.iterdir()) == []
        assert list(self.results.glob("runs/*/trials/*/*/*/attempts/*/src-modified")) == []


def metas(run: ArenaRun) -> dict[str, TrialMeta]:
    """By directory, relative to the run's trials."""
    root = run.path / "trials"
    return {
        file.parent.relative_to(root).as_posix(): TrialMeta.model_validate_json(file.read_bytes())
        for file in sorted(root.glob("*/*/*/meta.json"))
    }


def journal(run: ArenaRun) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (run.path / "journal.jsonl").read_text().splitlines()]


def events(run: ArenaRun, *names: str) -> list[Mapping[str, Any]]:
    return [line for line in journal(run) if line["event"] in names]


async def appear(*paths: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not all(path.exists() for path in paths):
            await asyncio.sleep(0.02)
