"""Runs a GitHub workflow of the docs on this machine: its shell steps as they are, its actions by what they do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from git_repositories import git

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TASK = "Write answer.py with ANSWER = 42.\n"
_TEST = """\
import unittest
import answer
class Answer(unittest.TestCase):
    def test_answer(self):
        self.assertEqual(answer.ANSWER, 42)
"""


def printed(key: str) -> dict[str, Any]:
    """The YAML of the page that has this key at its top."""
    blocks = [YAML(typ="safe", pure=True).load(block) for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    (found,) = [block for block in blocks if key in block]
    return dict(found)


class Cache(NamedTuple):
    branch: str
    key: str
    path: Path


class Ended(NamedTuple):
    """What became of a job. No code: it was skipped."""

    code: int | None = None
    output: str = ""
    home: Path = Path()


@dataclass
class Github:
    """A repository with a workflow. Each job gets a fresh machine: a home, and a checkout below it."""

    root: Path
    env: dict[str, str]
    workflow: dict[str, Any] = field(default_factory=lambda: printed("jobs"))
    caches: list[Cache] = field(default_factory=list)
    jobs: int = 0

    def __post_init__(self) -> None:
        self.upstream = self.root / "upstream"
        self.upstream.mkdir()
        git(self.upstream, "init", "-q", "--template=", "-b", "main")
        for task in ("discount", "vat"):
            self.commit({"TASK.md": _TASK + task})
            git(self.upstream, "tag", f"bench/{task}")
            self.commit({"test_answer.py": _TEST})
            git(self.upstream, "tag", f"bench/{task}-tests")
            git(self.upstream, "rm", "-q", "test_answer.py")
        programs = self.root / "programs"
        programs.mkdir()
        (programs / "pip").write_text(f'#!/bin/sh\necho "$@" >> "{self.root}/pip.log"\n')
        (programs / "pip").chmod(0o755)
        self.path = f"{programs}{os.pathsep}{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"

    def commit(self, files: dict[str, str], branch: str = "main") -> None:
        git(self.upstream, "checkout", "-q", "-B", branch)
        for name, text in files.items():
            (self.upstream / name).parent.mkdir(exist_ok=True)
            (self.upstream / name).write_text(text)
        git(self.upstream, "add", "-A")
        git(self.upstream, "commit", "-q", "--allow-empty", "-m", "change")

    def run(self, event: str, branch: str, *, fork: bool = False) -> Ended:
        context = {
            "github.event_name": event,
            "github.repository": "us/shop",
            "github.event.pull_request.head.repo.full_name": "them/shop" if fork else "us/shop",
            "github.run_id": str(self.jobs),
            "github.run_attempt": "1",
            "secrets.ANTHROPIC_API_KEY": "" if fork else "a-key",
        }
        (job,) = self.workflow["jobs"].values()
        if not _holds(job.get("if", "True"), context):
            return Ended()
        self.jobs += 1
        return _Job(self, job, context, branch, self.root / f"machine-{self.jobs}").run()


class _Job:
    def __init__(self, github: Github, job: dict[str, Any], context: dict[str, str], branch: str, home: Path) -> None:
        self._github, self._job, self._context, self._branch, self._home = github, job, context, branch, home
        self._checkout = home / "work" / "shop"

    def run(self) -> Ended:
        code, output = 0, ""
        for step in self._job["steps"]:
            if not _holds(step.get("if", "True"), self._context) or (code and "always()" not in step.get("if", "")):
                continue
            if "run" in step:
                done = self._shell(step)
                code, output = code or done.returncode, f"{output}{done.stdout}{done.stderr}"
            else:
                self._use(step["uses"].partition("@")[0], step.get("with", {}))
        return Ended(code, output, self._home)

    def _shell(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        own = {name: _filled(value, self._context) for name, value in step.get("env", {}).items()}
        base = "main" if self._context["github.event_name"] == "pull_request" else ""
        env = {
            "PATH": self._github.path,
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "GITHUB_BASE_REF": base,
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(self._home / "summary.md"),
            **self._github.env,
            **own,
        }
        directory = self._checkout / self._job["defaults"]["run"]["working-directory"]
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _use(self, action: str, options: dict[str, Any]) -> None:
        match action:
            case "actions/checkout":
                depth = options.get("fetch-depth", 1)
                shallow = ["--depth", str(depth), "--no-tags"] if depth else []
                self._checkout.parent.mkdir(parents=True)
                source = f"file://{self._github.upstream}"
                git(self._home, "clone", "-q", *shallow, "-b", self._branch, source, str(self._checkout))
            case "actions/cache/restore":
                self._restore(options)
            case "actions/cache/save":
                self._save(options)
            case "actions/setup-python" | "actions/upload-artifact":
                pass
            case _:
                raise AssertionError(f"what does {action} do?")

    def _save(self, options: dict[str, Any]) -> None:
        """If there is nothing, GitHub warns about it."""
        if (path := self._expanded(options["path"])).is_dir():
            kept = self._github.root / f"cache-{len(self._github.caches)}"
            shutil.copytree(path, kept, symlinks=True)
            self._github.caches.append(Cache(self._branch, _filled(options["key"], self._context), kept))

    def _restore(self, options: dict[str, Any]) -> None:
        """The newest cache of the own branch whose key begins so, else of main."""
        for branch in dict.fromkeys((self._branch, "main")):
            for cache in reversed(self._github.caches):
                if cache.branch == branch and cache.key.startswith(options["restore-keys"]):
                    shutil.copytree(cache.path, self._expanded(options["path"]), symlinks=True)
                    return

    def _expanded(self, path: str) -> Path:
        return Path(path.replace("~", str(self._home), 1))


def _holds(condition: str, context: dict[str, str]) -> bool:
    """Evaluate an expression of GitHub, as far as the docs need it."""
    python = re.sub(r"(?:github|secrets)\.[\w.]+", lambda name: repr(context[name[0]]), condition)
    return bool(eval(python.replace("||", " or ").replace("&&", " and "), {"always": lambda: True}))


def _filled(text: str, context: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: context[found[1]], text)


def with_real_cli(arena: dict[str, Any]) -> str:
    """The arena of the docs without containers, and with fewer trials."""
    arena = json.loads(json.dumps(arena))
    arena["orchestrators"][0]["env"] = {"IS_SANDBOX": "1"}
    return json.dumps({**arena, "sandbox": "local", "trials": 2, "parallel": 2})


def with_program(arena: dict[str, Any]) -> str:
    """The same with a small program as the agent. It finds the instructions in its checkout."""
    program = "if grep -qs 'answer with 42' CLAUDE.md; then echo 'ANSWER = 42' > answer.py; fi"
    (orchestrator,) = arena["orchestrators"]
    variants = [
        {"name": each["name"], "files": each["instructions"].replace("CLAUDE.md", "given")}
        for each in orchestrator["variants"]
    ]
    agent = {
        "name": orchestrator["name"],
        "agent": "command",
        "config": {"command": program, "shell": True, "prompt_by": "none"},
        "variants": variants,
    }
    small = {**arena, "orchestrators": [agent], "sandbox": "local", "trials": 2, "parallel": 2}
    del small["budgets"]
    return json.dumps(small)
