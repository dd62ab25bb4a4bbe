"""Trials in this process: repositories, agents that are small programs, and a host of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from git_repositories import git
from youbencha.locks import is_locked
from youbencha.spec.settings import load_settings
from youbencha.spec.testcase import TestCase
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan, PlanOptions, plan_trial

PATIENCE_S = 120


class TrialBench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.cache = root / "cache"
        self.home = root / "home"
        self.home.mkdir()
        (root / "home" / ".youbencharc").write_text(f"cache_dir: {self.cache}\n")

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "COVERAGE_PROCESS_START") if name in os.environ
        }
        return {**kept, "HOME": str(self.home), "LANG": "C.UTF-8"}

    def host(self, env: Mapping[str, str] | None = None, **more: Any) -> Host:
        return Host({**self.env, **(env or {})}, load_settings(self.root, self.home), **more)

    def repository(self, name: str = "repository", files: Mapping[str, str] | None = None) -> Path:
        path = self.root / name
        path.mkdir()
        git(path, "init", "-q", "-b", "main")
        for file, content in (files or {"README.md": f"{name}\n"}).items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(content)
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", "start")
        return path

    def case(self, program: str, *, repo: str | Path | None = None, **more: Any) -> TestCase:
        """A test case whose agent is a Python program."""
        config = {"command": [sys.executable, "-c", program], "prompt_by": "none"}
        agent = {"type": "command", "config": config}
        repo = self.repository() if repo is None else repo
        return TestCase.model_validate(
            {"name": "a case", "repo": str(repo), "agent": agent, "evaluators": ["git-diff"], **more}
        )

    def plan(self, host: Host, case: TestCase, **options: Any) -> Plan:
        return plan_trial(case, host, directory=self.root, options=PlanOptions(**options))

    def results(self, run: Path) -> ResultsBundle:
        return ResultsBundle.model_validate_json((run / "artifacts" / "results.json").read_bytes())

    def assert_nothing_is_left(self) -> None:
        """No private directory, no lock that is held, no task."""
        private = self.cache / "runs"
        assert not private.exists() or list(private.iterdir()) == []
        assert not any(is_locked(path) for path in self.runs.glob("*/.lock"))
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def appear(*paths: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not all(path.exists() for path in paths):
            await asyncio.sleep(0.02)
