"""A small task with hidden tests and a solution in a real repository, and trials of it by agents that are programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from repositories import copied

from git_repositories import git
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.settings import load_settings
from youbencha.spec.testcase import TestCase
from youbencha.store.bundle import EvaluationResult, ResultsBundle
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan, PlanOptions, plan_trial
from youbencha.trial.rescore import validate_patch
from youbencha.trial.run import run_trial

TEST_CMD = "python3 -m unittest discover -s tests"
"""In the test image there is no pytest."""

START = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a + a\n",
    "tests/test_calc.py": (
        "import unittest\n\nfrom calc import add, double\n\n\n"
        "class Calc(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 2), 4)\n\n"
        "    def test_double(self):\n        self.assertEqual(double(2), 4)\n"
    ),
    "tests/__init__.py": "",
    ".gitignore": "ignored\n__pycache__\n",
}
HIDDEN = {
    "tests/test_hidden.py": (
        "import unittest\n\nimport calc\n\n\n"
        "class Hidden(unittest.TestCase):\n"
        "    def test_negative(self):\n        self.assertEqual(calc.add(-1, -1), -2)\n\n"
        "    def test_triple(self):\n        self.assertEqual(calc.triple(2), 6)\n"
    )
}
SOLUTION = {
    "calc.py": (
        "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a + a\n\n\ndef triple(a):\n    return 3 * a\n"
    )
}
ALL_TESTS = 4


def task_repository(
    path: Path, start: Mapping[str, str], hidden: Mapping[str, str], solution: Mapping[str, str]
) -> Path:
    """A repository with the tags `v1`, `v1-validation` and `v1-solution`."""

    def make(path: Path) -> None:
        git(path, "init", "-q", "--template=", "-b", "main")
        _commit(path, start)
        git(path, "tag", "v1")
        for tag, files in (("v1-validation", hidden), ("v1-solution", solution)):
            git(path, "checkout", "-q", "--detach", "v1")
            _commit(path, files)
            git(path, "tag", tag)
        git(path, "checkout", "-q", "main")

    return copied(path, path.parent, ("task", start, hidden, solution), make)


def _commit(path: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
        (path / name).chmod(0o755 if text.startswith("#!") else 0o644)
    git(path, "add", "-A")
    git(path, "commit", "-q", "--allow-empty", "-m", "files")


def writes(files: Mapping[str, str]) -> str:
    """A program that writes these files."""
    return (
        "from pathlib import Path\n"
        f"for name, text in {dict(files)!r}.items():\n"
        "    path = Path(name); path.parent.mkdir(parents=True, exist_ok=True); path.write_text(text)\n"
    )


class Validated(NamedTuple):
    result: EvaluationResult
    bundle: ResultsBundle
    directory: Path

    @property
    def scores(self) -> dict[str, float]:
        assert "scores" in self.result.metrics, self.result.message
        return {name: score for name, score in self.result.metrics["scores"].items() if score is not None}

    @property
    def flags(self) -> set[str]:
        return {flag["kind"] for flag in self.result.metrics["flags"]}

    def log(self, name: str) -> str:
        return (self.directory / "artifacts" / "evaluators" / "validation" / f"{name}.log").read_text()


class ValidationBench:
    def __init__(self, root: Path, image: str | None = None, start: Mapping[str, str] = START) -> None:
        self.root = root
        self.image = image
        """Of containers; None: everything runs on the host."""
        self.home = root / "home"
        self.home.mkdir()
        (root / "home" / ".youbencharc").write_text(f"cache_dir: {root / 'cache'}\n")
        self.repository = task_repository(root / "task", start, HIDDEN, SOLUTION)
        self.host = Host(self.env, load_settings(root, self.home))
        self._number = 0

    @property
    def env(self) -> dict[str, str]:
        kept = ("PATH", "COVERAGE_PROCESS_START", "DOCKER_HOST")
        known = {name: os.environ[name] for name in kept if name in os.environ}
        return {**known, "HOME": str(self.home), "LANG": "C.UTF-8", "SECRET_KEY": "a-secret-of-the-user"}

    def plan(
        self,
        program: str = "",
        *,
        sandbox: Mapping[str, Any] | None = None,
        judge: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> Plan:
        """`config` is that of the validation. `program` is the agent: Python code in its workspace."""
        python = sys.executable if self.image is None else "python3"
        spec = {"type": "docker", "image": self.image, **(sandbox or {})} if self.image else {"type": "local"}
        case = TestCase.model_validate(
            {
                "name": "a task",
                "repo": str(self.repository),
                "branch": "v1",
                "agent": {"type": "command", "config": {"command": [python, "-c", program], "prompt_by": "none"}},
                "evaluators": [
                    {"name": "validation", "config": {"test_cmd": TEST_CMD, **config}},
                    *([{"name": "agentic-judge", "config": judge}] if judge else []),
                ],
            }
        )
        options = PlanOptions(sandbox=SandboxSpec.model_validate(spec))
        return plan_trial(case, self.host, directory=self.root, options=options)

    async def run(self, program: str, **config: Any) -> Validated:
        """Run the agent, and validate what it did; `config` as for a plan."""
        directory = self._directory()
        plan = self.plan(program, **config)
        done = await run_trial(plan, self.host, directory=directory)
        result = done.bundle.evaluators[0]
        return Validated(result, done.bundle, directory)

    async def validate(self, patch: str | bytes | None, **config: Any) -> EvaluationResult:
        """Validate a patch without an agent."""
        file = None
        if patch is not None:
            file = self.root / f"{self._number}.patch"
            file.write_bytes(patch.encode() if isinstance(patch, str) else patch)
        return await validate_patch(self.plan(**config), self.host, file, directory=self._directory())

    def _directory(self) -> Path:
        self._number += 1
        return self.root / "runs" / f"run-{self._number}-{os.urandom(4).hex()}"
