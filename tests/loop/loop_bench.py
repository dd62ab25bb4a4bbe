"""Loops of small programs in repositories of their own: in this process, or as the command `ralph`."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from yb import PATIENCE_S, Done, run_here
from youbencha.events import Event
from youbencha.loop.control import LoopControl
from youbencha.loop.directory import LoopDirectory, new_loop_id
from youbencha.loop.plan import LoopPlan, find_loop_file, plan_loop
from youbencha.loop.run import load_history, new_history, resume, run_loop
from youbencha.spec.settings import load_settings
from youbencha.store.loops import LoopHistory, LoopState
from youbencha.trial.context import Host

RALPH = Path(sysconfig.get_path("scripts")) / "ralph"
GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


class LoopBench:
    """A repository, and an agent that is a shell script. `$N` in it is the number of its session, from 1."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.tree = root / "project"
        self.tree.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.tree / "README.md").write_text("start\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "start")
        self.events: list[Event] = []
        self.control = LoopControl()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "XDG_CACHE_HOME": str(root / "cache"),
            **{name: os.environ[name] for name in ("COVERAGE_PROCESS_START",) if name in os.environ},
        }

    def git(self, *arguments: str) -> str:
        done = subprocess.run([*GIT, *arguments], cwd=self.tree, check=True, capture_output=True, text=True)
        return done.stdout

    def agent(self, script: str) -> Path:
        """Write the agent. Its sessions are counted in `sessions`, outside of the project."""
        program = self.root / "agent.sh"
        sessions = self.root / "sessions"
        sessions.touch()
        counter = shlex.quote(str(sessions))
        program.write_text(
            f"#!/bin/sh\necho >> {counter}\nN=$(($(wc -l < {counter})))\nPROMPT=$1\n{script}\n", encoding="utf-8"
        )
        program.chmod(0o755)
        return program

    @property
    def sessions(self) -> int:
        return len((self.root / "sessions").read_text().splitlines())

    def configure(self, script: str, *, cli: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Write ralph.yml: `event_loop` is in `more`, and has a prompt by default."""
        loop = {"prompt": "Do it.", "retry": {"delay_seconds": 0.01, "jitter": 0}, **more.pop("event_loop", {})}
        document = {
            "cli": {"backend": "custom", "command": str(self.agent(script)), **(cli or {})},
            "event_loop": loop,
            **more,
        }
        (self.root / "ralph.yml").write_text(yaml.safe_dump(document))

    def host(self, **env: str) -> Host:
        return Host({**self.env, **env}, load_settings(self.root, self.home))

    def plan(self, host: Host) -> LoopPlan:
        return plan_loop(find_loop_file(self.tree, self.root / "ralph.yml"), host, self.tree)

    async def run(self, host: Host | None = None, *, goes_on: bool = False) -> LoopState:
        """Run the loop in this process."""
        host = host or self.host()
        plan = self.plan(host)
        if goes_on:
            directory = LoopDirectory.newest(self.tree)
            history = load_history(directory)
            directory.create()
            history = resume(directory, history, plan)
        else:
            directory = LoopDirectory(self.tree, new_loop_id())
            directory.create()
            history = new_history(plan, directory.loop_id)
        running = run_loop(plan, host, self.control, self.events.append, directory=directory, history=history)
        return await asyncio.wait_for(running, PATIENCE_S)

    def history(self) -> LoopHistory:
        return LoopDirectory.newest(self.tree).load()

    def of_type(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def ralph(self, *arguments: str, **env: str) -> Done:
        """Run the command to its end, in this process."""
        return run_here(("loop", *arguments), cwd=self.tree, env={**self.env, **env})

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start the command in a process group of its own."""
        return subprocess.Popen(
            [RALPH, *arguments],
            cwd=self.tree,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def users_state(self) -> tuple[str, ...]:
        """Everything of the repository that belongs to the user: branches, HEAD, index, stash, configuration."""
        index = self.tree / ".git/index"
        return (
            self.git("for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
            (self.tree / ".git/HEAD").read_text(),
            self.git("ls-files", "--stage") + str(index.read_bytes()),
            self.git("stash", "list"),
            (self.tree / ".git/config").read_text(),
        )

    def processes(self) -> list[str]:
        """Command lines of processes that were started by this bench's programs and still run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if str(self.root) in line:
                found.append(f"{entry.name} {line}")
        return found
