"""A bench for whole runs: real repositories, the real `yb`, and its results read back."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claude_bench import API_KEY
from git_repositories import git
from yb import SCRIPT, run_here
from youbencha.log.model import YouBenchaLog
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel
from youbencha.store.bundle import ResultsBundle

PATIENCE_S = 300
"""More than LiteLLM is given to start."""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Outcome:
    """A finished `yb run`, with what it left."""

    done: Done
    artifacts: Path

    @property
    def bundle(self) -> ResultsBundle:
        return ResultsBundle.model_validate_json((self.artifacts / "results.json").read_bytes())

    @property
    def log(self) -> YouBenchaLog:
        return YouBenchaLog.model_validate_json((self.artifacts / "youbencha-log.json").read_bytes())

    @property
    def diff(self) -> str:
        return (self.artifacts / "git-diff.patch").read_text(encoding="utf-8", errors="surrogateescape")

    @property
    def tree(self) -> Path:
        return self.artifacts.parent / "src-modified"


class RunBench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.repository = root / "repository"
        self.case_file = root / "testcase.json"
        self.workspace = root / ".youbencha-workspace"

    # -- what is given ------------------------------------------------------------------------------------------

    def make_repository(self, files: Mapping[str, str | bytes] | None = None) -> Path:
        self.repository.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit(files or {"README.md": "# Shop\n", "src/prices.py": "TAX = 0.19\n"})
        return self.repository

    def commit(self, files: Mapping[str, str | bytes], *, branch: str | None = None) -> str:
        if branch:
            self.git("checkout", "-q", "-B", branch)
        for name, content in files.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a commit")
        made = self.git("rev-parse", "HEAD")
        if branch:
            self.git("checkout", "-q", "main")
        return made

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        return git(cwd or self.repository, *arguments)

    def write_case(self, agent: Mapping[str, Any], **more: Any) -> Path:
        case = {"name": "a test case", "repo": str(self.repository), "agent": agent, "evaluators": ["git-diff"]}
        self.case_file.write_text(json.dumps({**case, **more}), encoding="utf-8")
        return self.case_file

    def program(self, script: str, **more: Any) -> dict[str, Any]:
        """An agent that is a shell script, run in the workspace."""
        config = {"command": ["/bin/sh", "-c", script], "prompt_by": "none", **more.pop("config", {})}
        return {"type": "command", "config": config, **more}

    def tampering(self, script: str) -> dict[str, Any]:
        """The same, with `..` for the run directory: the agent does not work in it, but may find it."""
        find = f"RUN=$(ls -dt '{self.workspace}'/run-* | head -n 1)"
        return self.program("; ".join([find, script.replace("..", '"$RUN"')]))

    def claude(self, cli: InstalledAgent, model: ScriptedModel, **more: Any) -> dict[str, Any]:
        config = {"prompt": "Do what you are told.", "executable": str(cli.executable), **more.pop("config", {})}
        env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, "IS_SANDBOX": "1", **more.pop("env", {})}
        return {"type": "claude-code", "config": config, "env": env, **more}

    # -- what is run --------------------------------------------------------------------------------------------

    @property
    def env(self) -> dict[str, str]:
        home = {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache")}
        kept = {name: os.environ[name] for name in ("PATH", "COVERAGE_PROCESS_START") if name in os.environ}
        return {**kept, **home, "NO_COLOR": "1", "LANG": "C.UTF-8"}

    async def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            str(SCRIPT),
            *arguments,
            cwd=self.root,
            env={**self.env, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def yb(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        """In this process: one after the other, beside what the test serves."""
        done = await asyncio.to_thread(run_here, arguments, cwd=self.root, env={**self.env, **(env or {})})
        return Done(done.returncode, done.stdout, done.stderr)

    async def yb_process(self, *arguments: str) -> Done:
        process = await self.start(*arguments)
        try:
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        except TimeoutError:
            process.kill()
            raise
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def run(
        self, agent: Mapping[str, Any], *options: str, env: Mapping[str, str] | None = None, **more: Any
    ) -> Outcome:
        """`yb run` of a case, to its end. Its results must be there."""
        self.write_case(agent, **more)
        done = await self.yb("run", "-c", str(self.case_file), *options, env=env)
        runs = self.runs()
        assert runs, done.err
        return Outcome(done, runs[-1] / "artifacts")

    def runs(self) -> Sequence[Path]:
        """The oldest first."""
        if not self.workspace.is_dir():
            return []
        found = [path for path in self.workspace.iterdir() if path.is_dir() and path.name != "bench"]
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)


async def cut_off(run: Callable[[int], Awaitable[Outcome]], timeout_ms: int, begun: str) -> Outcome:
    """By its timeout, but with that in its diff: a timeout before the agent did anything shows nothing."""
    done = await run(timeout_ms)
    return done if begun in done.diff else await run(10 * timeout_ms)
