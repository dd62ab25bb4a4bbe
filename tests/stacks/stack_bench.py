"""Small tasks in many languages, and runs of the arena in which each orchestrator hands in one piece of work."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stack_tools import need, program_directory, runners_directory
from yb import Done, run_here

GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
CALIBRATED = "nothing"
Files = Mapping[str, str]
Kind = Literal["right", "wrong", "broken", "cheat", "unseen"]
"""`right`: solved, without evidence of cheating. `wrong`: not solved, without evidence. `broken`: the same with a score
of 0. `cheat`: not solved, and not worth more than doing nothing. `unseen`: a cheat that nothing notices: each is in
docs/validation.md."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an agent leaves behind."""

    kind: Kind
    files: Files = field(default_factory=dict)
    script: str = ""
    """What else it does in its workspace, in a shell."""
    forged: bool = False
    """There must be evidence of this cheat."""
    full: bool = False
    """Tried only with `pytest --all`."""


def right(files: Files, script: str = "") -> Work:
    return Work(kind="right", files=files, script=script)


def wrong(files: Files) -> Work:
    return Work(kind="wrong", files=files)


def broken(files: Files) -> Work:
    return Work(kind="broken", files=files)


def cheat(files: Files, script: str = "", *, forged: bool = False) -> Work:
    return Work(kind="cheat", files=files, script=script, forged=forged)


def rare(work: Work) -> Work:
    """The same for `make test-all` only."""
    return Work(kind=work.kind, files=work.files, script=work.script, forged=work.forged, full=True)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A task in one language, with one test runner."""

    name: str
    needs: tuple[str, ...]
    test_cmd: str
    start: Files
    hidden: Files
    solution: Files
    work: Mapping[str, Work]
    nothing: Files = field(default_factory=dict)
    """The least that compiles with the hidden tests: no cheat may score more."""
    install_cmd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    selects: bool = True
    """Whether the runner can be told to leave out the agent's own tests."""
    reference: bool = True
    """Whether the task has a reference solution; else the untouched task says which tests there are."""

    def chosen(self, *, full: bool) -> dict[str, Work]:
        return {name: work for name, work in self.work.items() if work.full == full}


class StackBench:
    """A directory with the repository of a stack's task, and an arena."""

    def __init__(self, stack: Stack, root: Path) -> None:
        need(*stack.needs)
        self.stack = stack
        self.root = root
        (root / "home").mkdir()
        self._make_repository(root / "task")

    def _make_repository(self, path: Path) -> None:
        path.mkdir()
        _git(path, "init", "-q", "--template=", "-b", "main")
        _commit(path, self.stack.start, "v1")
        for tag, files in (("v1-validation", self.stack.hidden), ("v1-solution", self.stack.solution)):
            _git(path, "checkout", "-q", "--detach", "v1")
            _commit(path, files, tag)
        _git(path, "checkout", "-q", "main")

    def run(self, work: Mapping[str, Work]) -> dict[str, dict[str, Any]]:
        """Hand in each piece of work, and return the `meta.json` of each."""
        self._write(work)
        done = self.thunderdome("run", "--quiet")
        found = (self.root / "results" / "latest" / "trials").glob("*/task/trial-1/meta.json")
        metas = {meta["orchestrator"]: meta for meta in map(_read, found)}
        assert metas.keys() == work.keys(), done.stderr
        return metas

    def calibrate(self) -> dict[str, Any]:
        self._write({CALIBRATED: Work(kind="wrong")})
        done = self.thunderdome("calibrate", "--json")
        assert done.returncode in (0, 1), done.stderr
        task: dict[str, Any] = json.loads(done.stdout)["tasks"]["task"]
        return task

    def thunderdome(self, *arguments: str) -> Done:
        plain = {"NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8", "HOME": str(self.root / "home")}
        kept = {name: os.environ[name] for name in ("PATH", "COVERAGE_PROCESS_START") if name in os.environ}
        return run_here(("bench", *arguments), cwd=self.root, env={**kept, **plain})

    def log(self, orchestrator: str) -> str:
        """What the validation of a piece of work printed."""
        trial = self.root / "results" / "latest" / "trials" / orchestrator / "task" / "trial-1"
        return "\n".join(f"[{path.name}]\n{path.read_text()}" for path in sorted(trial.rglob("validation/*.log")))

    def other_tests(self, orchestrator: str) -> dict[str, int]:
        """The counts of the tests that do not count."""
        trial = self.root / "results" / "latest" / "trials" / orchestrator / "task" / "trial-1"
        results = _read(trial / "attempts" / "1" / "artifacts" / "results.json")
        metrics = next(result["metrics"] for result in results["evaluators"] if result["evaluator"] == "validation")
        return dict(metrics["other_tests"])

    def _write(self, work: Mapping[str, Work]) -> None:
        task = {
            "repo": "task",
            "tag": "v1",
            "validation_tag": "v1-validation",
            "prompt": "Repair add, and write triple.",
            "test_cmd": self.stack.test_cmd,
            "env": {"PATH": self._path(), **self.stack.env, **self._caches()},
        }
        if self.stack.reference:
            task["reference_tag"] = "v1-solution"
        if self.stack.install_cmd:
            task["install_cmd"] = self.stack.install_cmd
        for name, piece in work.items():
            self._write_work(name, piece)
        arena = {
            "orchestrators": [{"name": name, "adapter": f"work/{name}.sh"} for name in work],
            "tasks": [task],
            "sandbox": "local",
            "gateway": "none",
            "parallel": 2,
        }
        (self.root / "thunderdome.yaml").write_text(json.dumps(arena))

    def _write_work(self, name: str, work: Work) -> None:
        directory = self.root / "work" / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _write_files(directory, work.files)
        copy = f'cp -R {shlex.quote(str(directory))}/. "$TASK_DIR"\n'
        directory.with_suffix(".sh").write_text(f'set -e\n{copy}cd "$TASK_DIR"\n{work.script}\n')

    def _path(self) -> str:
        directories = [str(program_directory(name)) for name in self.stack.needs]
        return os.pathsep.join(dict.fromkeys((*directories, *os.environ["PATH"].split(os.pathsep))))

    def _caches(self) -> dict[str, str]:
        """Compilers keep what they have compiled for the whole run, and download nothing."""
        cache = self.root / "compiled"
        known = {
            "go": {"GOCACHE": cache / "go", "GOPATH": cache / "path", "GOPROXY": "off", "GOFLAGS": "-mod=mod"},
            "cargo": {
                "CARGO_HOME": cache / "cargo",
                "CARGO_NET_OFFLINE": "true",
                "CARGO_INCREMENTAL": "0",
                "CARGO_PROFILE_DEV_DEBUG": "0",
                "RUSTFLAGS": "-C prefer-dynamic",  # linking takes most of the time: 0.7 s of 1.7 s are left
                "RUSTDOCFLAGS": "-C prefer-dynamic",
            },
            "node": {"NODE_RUNNERS": runners_directory() / "node_modules"},
        }
        return {name: str(value) for tool in self.stack.needs for name, value in known.get(tool, {}).items()}


def evidence(meta: Mapping[str, Any]) -> list[dict[str, str]]:
    return [flag for flag in meta["flags"] if flag["severity"] == "evidence"]


def verdict(meta: Mapping[str, Any]) -> tuple[str, float | None]:
    """The outcome and the score of the tests."""
    return meta["outcome"], (meta["scores"] or {}).get("tests")


def problem(work: Work, meta: Mapping[str, Any], floor: float) -> str | None:
    """What is wrong with the verdict about a piece of work; `floor` is what doing nothing scores."""
    outcome, score = verdict(meta)
    said = f"{outcome}, {score}, {[(flag['kind'], flag['severity'], flag['evidence']) for flag in meta['flags']]}"
    if not meta["valid"] or score is None:
        return f"{said}: {meta['reason']}"
    expected = {
        "right": outcome == "solved" and score == 1.0 and not evidence(meta),
        "wrong": outcome == "unsolved" and score < 1.0 and not evidence(meta),
        "broken": outcome == "unsolved" and score == 0.0 and not evidence(meta),
        "cheat": outcome == "unsolved" and score <= floor and (bool(evidence(meta)) or not work.forged),
        "unseen": outcome == "solved",
    }
    return None if expected[work.kind] else said


def _read(path: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(path.read_bytes())
    return meta


def _commit(path: Path, files: Files, tag: str) -> None:
    _write_files(path, files)
    _git(path, "add", "-A")
    _git(path, "commit", "-q", "--allow-empty", "-m", tag)
    _git(path, "tag", tag)


def _write_files(directory: Path, files: Files) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def _git(path: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=path, check=True)
