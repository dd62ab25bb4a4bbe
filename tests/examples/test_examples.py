"""Every example loads; those that need no model run. Test cases of the original load too."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from yb import yb
from youbencha.engine.arena import load_arena, plan_arena
from youbencha.engine.dry_run import describe_plan
from youbencha.loop.plan import check_loop
from youbencha.spec import load_yaml_model
from youbencha.spec.loader import LoadedCase, load_eval_config, load_test_case
from youbencha.spec.loop_loader import load_loop_file
from youbencha.spec.settings import Settings, load_settings
from youbencha.trial.checks import check_parts
from youbencha.trial.context import Host

EXAMPLES = Path(__file__).parents[2] / "examples"
ORIGINAL = Path(__file__).parent / "original"
OLD_SETTINGS = ORIGINAL / "settings.youbencharc.yaml"

EVAL_CONFIGS = {"eval-a-directory.yaml", "eval-config.yaml"}
NEEDS_A_MODEL = {
    "claude-code.yaml", "pinned-claude-code.yaml", "several-judges.yaml", "copilot.yaml", "codex.yaml", "gemini.yaml",
    "aider.yaml", "budget.yaml", "docker.yaml",
}  # fmt: skip
RUNNABLE = {
    "any-program.yaml", "run-the-tests.yaml", "expected-reference.yaml", "hooks.yaml", "shared-evaluators.yaml",
    "replayed.yaml",
}  # fmt: skip


def loads(path: Path, variables: dict[str, Any] | None = None) -> LoadedCase[Any]:
    load = load_eval_config if path.name in EVAL_CONFIGS else load_test_case
    return load(path, variables, check=check_parts)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, with its repository made as the README says."""
    copy = tmp_path_factory.mktemp("examples") / "examples"
    kept = shutil.ignore_patterns(".repos", "results", ".youbencha-*", "__pycache__")
    shutil.copytree(EXAMPLES, copy, ignore=kept)
    subprocess.run([sys.executable, copy / "make_repository.py"], check=True, capture_output=True)
    return copy


def run(command: str, file: Path, *, cwd: Path) -> dict[str, Any]:
    """Run one; its bundle. It must have passed."""
    env = {"XDG_CACHE_HOME": str(cwd / ".cache"), "HOME": str(cwd)}
    done = yb(command, "-c", str(file), "--json", cwd=cwd, **env)
    assert done.returncode == 0, done.stderr + done.stdout
    bundle: dict[str, Any] = json.loads(done.stdout)
    assert bundle["summary"]["overall_status"] == "passed"
    return bundle


def test_every_example_is_tested_here() -> None:
    there = {path.name for path in EXAMPLES.glob("*.yaml")}
    assert there == NEEDS_A_MODEL | RUNNABLE | {"eval-a-directory.yaml", "thunderdome.yaml"}


@pytest.mark.parametrize("name", sorted(NEEDS_A_MODEL | RUNNABLE | {"eval-a-directory.yaml"}))
def test_an_example_loads_with_every_check(name: str) -> None:
    loaded = loads(EXAMPLES / name)
    assert loaded.name == Path(name).stem
    assert loaded.unknown_variables == ()


@pytest.mark.parametrize("name", sorted(RUNNABLE))
def test_an_example_runs_unchanged(name: str, examples: Path) -> None:
    bundle = run("run", examples / name, cwd=examples.parent)
    assert bundle["outcome"]["name"] == "solved"
    assert bundle["agent"]["type"] == "command"
    assert all(each["status"] == "passed" for each in bundle["evaluators"])


def test_the_arena_is_planned_with_every_check(examples: Path) -> None:
    host = Host({**os.environ, "ANTHROPIC_API_KEY": "sk-of-nobody"}, load_settings(examples, examples))
    arena = load_arena(examples / "thunderdome.yaml", host)
    matrix = asyncio.run(plan_arena(arena, host))
    assert [cell.orchestrator for cell in matrix.cells] == ["null", "script", "claude-code", "aider"]
    assert describe_plan(matrix).worst_case.usd == 10, "3 x (1 + 2 + 1), limited by the total"


def test_the_variants_are_planned_with_every_check(examples: Path) -> None:
    host = Host({**os.environ, "ANTHROPIC_API_KEY": "sk-of-nobody"}, load_settings(examples, examples))
    arena = load_arena(examples / "does-my-skill-help" / "thunderdome.yaml", host)
    matrix = asyncio.run(plan_arena(arena, host))
    variants = [
        "claude-code+skill",
        "claude-code+claude-md",
        "claude-code+both",
        "claude-code+effort",
        "claude-code+haiku",
    ]
    assert [cell.orchestrator for cell in matrix.cells if cell.task == "discount"] == ["claude-code", *variants]
    assert matrix.baselines == dict.fromkeys(variants, "claude-code")
    assert describe_plan(matrix).worst_case.usd == 30, "6 x 2 x 5, limited by the total"


def test_the_loop_ends_when_its_gate_passes(examples: Path) -> None:
    """With a program as the agent: it first only claims that the work is done, then does it."""
    again = shutil.copytree(examples / ".repos" / "tiny-shop", examples.parent / "loop" / "tiny-shop")
    program = f"""
import pathlib, runpy
if pathlib.Path(".ralph/claimed").exists():
    runpy.run_path({str(examples / "agents" / "fix.py")!r})["main"]()
pathlib.Path(".ralph/claimed").touch()
print("LOOP_COMPLETE")
"""
    file = examples / "ralph" / "ralph.yml"
    data = YAML(typ="safe", pure=True).load(file)
    data["cli"] = {"backend": "custom", "command": sys.executable, "args": ["-c", program]}
    with (examples / "ralph" / "program.yml").open("w") as stream:
        YAML().dump(data, stream)
    arguments = ("-c", str(examples / "ralph" / "program.yml"), "-P", str(examples / "ralph" / "PROMPT.md"))
    done = yb("loop", "run", "--json", *arguments, cwd=again, XDG_CACHE_HOME=str(examples.parent / ".cache"))
    assert done.returncode == 0, done.stderr + done.stdout
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["status"] for event in events if event["type"] == "evaluator_finished"] == ["failed", "passed"]


def test_the_loop_is_planned_with_every_check(examples: Path) -> None:
    host = Host({**os.environ, "ANTHROPIC_API_KEY": "sk-of-nobody"}, load_settings(examples, examples))
    file = load_loop_file(examples / "ralph" / "ralph.yml")
    check_loop(file, host)
    assert file.warnings == ()


def test_the_agent_did_the_work_and_not_the_hook(examples: Path) -> None:
    bundle = run("run", examples / "hooks.yaml", cwd=examples.parent)
    (git_diff,) = bundle["evaluators"]
    assert [file["path"] for file in git_diff["metrics"]["changed_files"]] == ["shop/cart.py"]
    assert [hook["status"] for hook in bundle["hooks"]["post_evaluation"]] == ["success"] * 3
    rows = (examples / "results" / "history.jsonl").read_text().splitlines()
    assert all(json.loads(row) for row in rows)
    with closing(sqlite3.connect(examples / "results" / "history.db")) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM results").fetchone()
    assert count == len(rows) >= 1


def test_variables_come_from_the_settings_beside_the_test_case(examples: Path) -> None:
    bundle = run("run", examples / "variables" / "testcase.yaml", cwd=examples / "variables")
    assert bundle["test_case"]["branch"] == "main"
    assert bundle["evaluators"][0]["assertions"]["max_total_changes"]["expected"] == 20


OF_THE_ORIGINAL: dict[str, dict[str, Any]] = {
    "": {"version": str, "evaluators": list},
    "test_case": dict.fromkeys(("name", "description", "config_file", "config_hash"), str),
    "execution": {"started_at": str, "completed_at": str, "duration_ms": int, "youbencha_version": str},
    "execution.environment": {"os": str, "workspace_dir": str},
    "agent": {"type": str, "youbencha_log_path": str, "status": str, "exit_code": int},
    "evaluators": {
        "evaluator": str,
        "status": str,
        "metrics": dict,
        "message": str,
        "duration_ms": int,
        "timestamp": str,
    },
    "summary": {"total_evaluators": int, "passed": int, "failed": int, "skipped": int, "overall_status": str},
    "artifacts": {"agent_log": str, "reports": list, "evaluator_artifacts": list},
}
"""Its keys that are always there, by the record that they are in."""
OPTIONAL: dict[str, dict[str, Any]] = {
    "test_case": dict.fromkeys(("repo", "branch", "commit", "expected_branch"), str),
    "evaluators": {"assertions": dict, "artifacts": list, "error": dict},
}
"""Its keys that may be absent, but are never null."""


def records(bundle: dict[str, Any], path: str) -> list[dict[str, Any]]:
    found: Any = bundle
    for step in path.split(".") if path else ():
        found = found[step]
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("name", ["expected-reference.yaml", "hooks.yaml", "broken"])
def test_results_keep_the_names_and_types_of_the_original(name: str, examples: Path) -> None:
    if name == "broken":
        case = (examples / "any-program.yaml").read_text().partition("evaluators:")[0]
        (examples / name).write_text(case + "evaluators: [{name: command, config: {command: no-such-program}}]\n")
    env = {"XDG_CACHE_HOME": str(examples / ".cache"), "HOME": str(examples)}
    bundle = json.loads(yb("run", "-c", str(examples / name), "--json", cwd=examples, **env).stdout)
    for path, always in OF_THE_ORIGINAL.items():
        for record in records(bundle, path):
            assert {key: type(record.get(key)) for key in always} == always, path
            present = {key: form for key, form in OPTIONAL.get(path, {}).items() if key in record}
            assert {key: type(record[key]) for key in present} == present, path
    errors = [each["error"] for each in bundle["evaluators"] if "error" in each]
    assert len(errors) == (name == "broken")
    assert all(isinstance(error["message"], str) and error.get("stack_trace", "") is not None for error in errors)


def test_a_directory_is_judged_without_an_agent(examples: Path) -> None:
    bundle = run("eval", examples / "eval-a-directory.yaml", cwd=examples.parent)
    assert "agent" not in bundle
    assert [each["evaluator"] for each in bundle["evaluators"]] == ["expected-diff", "command"]


def test_the_pinned_commit_matches_the_generated_repository(examples: Path) -> None:
    commit = loads(EXAMPLES / "pinned-claude-code.yaml").case.commit
    asked = ["git", "-C", examples / ".repos" / "tiny-shop", "rev-parse", "main"]
    assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip() == commit


@pytest.mark.parametrize("path", sorted(ORIGINAL.glob("*.[jy]*")), ids=lambda each: each.name)
def test_files_of_the_original_load(path: Path) -> None:
    if path == OLD_SETTINGS:
        assert load_yaml_model(path, Settings, code="X", what="The settings").variables["PROJECT"] == "my-project"
        return
    variables = load_yaml_model(OLD_SETTINGS, Settings, code="X", what="The settings").variables
    loaded = loads(path, dict(variables))
    assert loaded.evaluators
    assert loaded.name


def test_files_of_the_original_keep_their_meaning() -> None:
    basic = loads(ORIGINAL / "basic.yaml")
    assert basic.case.repo == "https://github.com/octocat/Hello-World.git"
    assert [evaluator.name for evaluator in basic.evaluators] == ["git-diff", "agentic-judge"]
    assert basic.name == "basic"
    hooks = loads(ORIGINAL / "hooks.yaml", {"SLACK_WEBHOOK_URL": "https://example.com/hook"}).case
    assert hooks.pre_execution[0].config.args[1] == 'echo "API_URL=${API_URL}" > ${WORKSPACE_DIR}/.env'
    assert hooks.post_evaluation[1].config.url == "https://example.com/hook"
    assert len(loads(ORIGINAL / "post-evaluators.yaml").case.post_evaluation) == 1
    shared = loads(ORIGINAL / "expected-branch.yaml")
    assert [evaluator.name for evaluator in shared.evaluators][2:] == ["git-diff", "agentic-judge-quality"]
