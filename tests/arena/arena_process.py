"""`thunderdome` as a process of its own, on an arena with small agents, so that it can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import psutil
from engine_bench import PATIENCE_S
from repositories import copied

from git_repositories import git
from yb import run_here
from youbencha.scripted_model import Script
from youbencha.store.arena_run import ArenaRun, find_arena_run

SCRIPT = Path(sysconfig.get_path("scripts")) / ("thunderdome.exe" if sys.platform == "win32" else "thunderdome")


class ArenaProject:
    """A directory with a repository of a task, and a thunderdome.yaml."""

    def __init__(self, root: Path, **arena: Any) -> None:
        self.root = root
        self.results = root / "results"
        self.more_env: dict[str, str] = {}
        copied(root / "repository", root, "arena process", self._make_repository)
        (root / "home").mkdir()
        self.write(**arena)

    def write(
        self,
        *,
        agents: int = 2,
        tasks: int = 2,
        trials: int = 1,
        script: str = "",
        test_cmd: str = "sh test.sh",
        **more: Any,
    ) -> None:
        """Write the arena. Every agent runs `script`, and then writes its name."""
        orchestrators = [
            {
                "name": f"agent-{number}",
                "agent": "command",
                "config": {
                    "command": f"{script or 'true'}; echo agent {number} > made.txt; : {self.root}",
                    "shell": True,
                    "prompt_by": "none",
                },
            }
            for number in range(1, agents + 1)
        ]
        listed = [
            {"id": f"task-{number}", "repo": "./repository", "tag": "v1", "test_cmd": test_cmd}
            for number in range(1, tasks + 1)
        ]
        arena = {"orchestrators": orchestrators, "tasks": listed, "trials": trials, "sandbox": "local", **more}
        (self.root / "thunderdome.yaml").write_text(json.dumps(arena))

    def _make_repository(self, path: Path) -> None:
        (path / "TASK.md").write_text("Write made.txt.\n")
        (path / "test.sh").write_text(
            "if test -e made.txt; then echo 'ok 1 made'; else echo 'not ok 1 made'; fi; echo '1..1'\n"
        )
        init = ("init", "-q", "--template=", "-b", "main")
        for arguments in (init, ("add", "-A"), ("commit", "-q", "-m", "start"), ("tag", "v1")):
            git(path, *arguments)

    @property
    def env(self) -> dict[str, str]:
        home = str(self.root / "home")
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "SYSTEMROOT", "DOCKER_HOST", "COVERAGE_PROCESS_START")
        }
        plain = {"NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8"}
        return {**kept, **plain, "HOME": home, "XDG_CACHE_HOME": f"{home}/cache", **self.more_env}

    def start(self, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [SCRIPT, command, *arguments],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        started = self.start(*arguments)
        out, err = started.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(started.args, started.returncode, out, err)

    def run_here(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in this process, which is quicker."""
        return self.run_here_as("run", *arguments)

    def run_here_as(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(("bench", command, *arguments), cwd=self.root, env=self.env)

    @property
    def latest(self) -> ArenaRun:
        return find_arena_run(self.results)

    def wait_until_no_process_is_left(self) -> None:
        """Processes end with their guard, a moment after the harness was killed."""
        deadline = time.monotonic() + PATIENCE_S
        while running := [process for process in psutil.process_iter(["cmdline"]) if self._is_ours(process)]:
            assert time.monotonic() < deadline, running
            time.sleep(0.05)

    def _is_ours(self, process: psutil.Process) -> bool:
        return any(str(self.root) in word for word in process.info["cmdline"] or ())

    def private_directories(self) -> list[Path]:
        private = self.root / "home" / "cache" / "youbencha" / "runs"
        assert private.parent.is_dir(), "the cache is elsewhere"
        return list(private.iterdir()) if private.is_dir() else []


_ASK = """
import json, os, pathlib, time, urllib.request
body = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "work"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
pathlib.Path("ROOT/asked").touch()
while not pathlib.Path("ROOT/go").exists():
    time.sleep(0.05)
"""
_TURN = {"text": "answer", "usage": {"input_tokens": 100_000, "output_tokens": 10}, "times": "forever"}
ANSWER = Script.model_validate(
    {"tools_optional": True, "conversations": [{"when": {"prompt_contains": "work"}, "turns": [_TURN]}]}
)
ANSWER_USD, ANSWER_TOKENS = 0.50025, 100_010


def project_with_one_model_call(root: Path, gateway: Any = "builtin") -> ArenaProject:
    """An arena whose agent calls its model once, creates the file `asked`, and ends when the file `go` exists."""
    (root / "ask.py").write_text(_ASK.replace("ROOT", str(root)))
    return ArenaProject(root, agents=1, tasks=1, script=f"python3 '{root}/ask.py'", gateway=gateway)
