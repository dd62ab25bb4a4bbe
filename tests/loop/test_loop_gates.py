"""Gates: evaluators on the user's own tree, with what failed ones printed for the next prompt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docker_engine import Engine
from youbencha.events import EvaluatorFinished, Event
from youbencha.loop.gates import MAX_CHARACTERS, GateReport, run_gates
from youbencha.loop.plan import find_loop_file, plan_loop
from youbencha.spec.settings import load_settings
from youbencha.trial.context import Host
from youbencha.workspace import RunDirectory

SECRET = "sk-ant-dummy-0123456789"


class Project:
    def __init__(self, root: Path) -> None:
        self.tree = root / "project"
        self.tree.mkdir()
        (self.tree / "PROMPT.md").write_text("Do it.")
        (self.tree / "data.txt").write_text("ten\n")
        self.events: list[Event] = []
        self.root = root

    async def gates(self, text: str, **env: str) -> GateReport:
        (self.tree / "ralph.yml").write_text(f"cli: {{backend: custom, command: 'true'}}\n{text}")
        host = Host({**os.environ, **env}, load_settings(self.tree, self.root))
        plan = plan_loop(find_loop_file(self.tree), host, self.tree)
        with RunDirectory.create_at(
            self.tree / f".ralph/loops/{len(list(self.tree.rglob('artifacts')))}",
            cache_dir=self.root / "cache",
            tree=self.tree,
        ) as run:
            return await run_gates(
                plan,
                host,
                run,
                artifacts_dir=run.artifacts / "1",
                on_event=self.events.append,
            )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


async def test_without_gates_nothing_fails(project: Project) -> None:
    report = await project.gates("")
    assert (report.passed, report.output) == (True, "")


async def test_gates_that_pass_and_fail(project: Project) -> None:
    report = await project.gates("""
gates:
  - {name: content, command: "grep ten data.txt"}
  - {name: tests, command: "echo 2 failed; echo why >&2; exit 3", on_fail: Fix the tests first.}
  - {name: words, command: [test, -f, missing.txt]}
""")
    assert [(record.name, record.status) for record in report.records] == [
        ("content", "passed"),
        ("tests", "failed"),
        ("words", "failed"),
    ]
    assert not report.passed
    assert "Gate `tests` failed" in report.output
    assert "Fix the tests first.\n```\n2 failed\nwhy\n```" in report.output
    assert "content" not in report.output
    finished = [event for event in project.events if isinstance(event, EvaluatorFinished)]
    assert {event.evaluator: event.status for event in finished} == {
        "content": "passed",
        "tests": "failed",
        "words": "failed",
    }


async def test_a_command_runs_in_the_users_tree(project: Project) -> None:
    await project.gates("gates: [{name: build, command: pwd > built.txt}]")
    assert (project.tree / "built.txt").read_text() == f"{project.tree}\n"
    await project.gates("gates: [{name: build, command: pwd > copied.txt, config: {copy: true}}]")
    assert not (project.tree / "copied.txt").exists()


async def test_long_output_is_cut_at_its_beginning(project: Project) -> None:
    line = "for i in $(seq 5000); do echo line $i; done; exit 1"
    report = await project.gates(f"gates: [{{name: loud, command: '{line}'}}]")
    assert len(report.output) < MAX_CHARACTERS + 500
    assert "line 5000" in report.output
    assert "line 1\n" not in report.output


async def test_secrets_are_masked(project: Project) -> None:
    gate = "{name: leak, command: 'echo $LEAKED; exit 1', config: {env: {LEAKED: '${ANTHROPIC_API_KEY}'}}}"
    report = await project.gates(f"gates: [{gate}]", ANTHROPIC_API_KEY=SECRET)
    assert "Gate `leak` failed" in report.output
    assert SECRET not in report.output


async def test_a_gate_that_cannot_be_checked_does_not_pass(project: Project) -> None:
    report = await project.gates("gates: [{name: absent, command: no-such-program-anywhere}]")
    assert [record.status for record in report.records] == ["failed"]
    assert not report.passed
    assert "no-such-program-anywhere: not found" in report.output


async def test_other_evaluators_see_the_changes(project: Project) -> None:
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=project.tree, check=True)
    (project.tree / "new.txt").write_text("new")
    gate = "{name: git-diff, config: {assertions: {max_files_changed: 0}}}"
    report = await project.gates(f"gates: [{gate}]")
    assert [record.status for record in report.records] == ["failed"]
    assert "files_changed is" in report.output


async def test_in_a_container_gates_run_in_one(project: Project, engine: Engine, image: str) -> None:
    report = await project.gates(
        f"""
sandbox: {{type: docker, image: "{image}"}}
gates:
  - {{name: inside, command: "cat data.txt; test ! -e '{sys.executable}'"}}
  - {{name: outside, command: "test ! -e '{sys.executable}'", config: {{sandbox: false}}}}
""",
        DOCKER_HOST=engine.host,
    )
    assert [record.status for record in report.records] == ["passed", "failed"]
