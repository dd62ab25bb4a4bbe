"""A plan is plain data, and needs no file."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from trial_bench import TrialBench

from youbencha.adapters import AgentExecutionContext
from youbencha.errors import ConfigError
from youbencha.spec.settings import load_settings
from youbencha.spec.testcase import TestCase
from youbencha.trial.context import Host
from youbencha.trial.plan import PlanOptions, load_plan, plan_trial
from youbencha.trial.run import run_trial

WRITE = "open('new.txt', 'w').write('x')"
KEYS = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}


def write_case(trials: TrialBench, case: TestCase, suffix: str = "json") -> Path:
    file = trials.root / f"case.{suffix}"
    file.write_text(case.model_dump_json(exclude_unset=True))
    return file


def rich_case(trials: TrialBench) -> TestCase:
    judge = {"name": "agentic-judge", "config": {"type": "claude-code", "assertions": {"good": "It is good."}}}
    hook = {"name": "script", "config": {"command": "git", "args": ["--version"]}}
    return trials.case(
        WRITE,
        gateway={"type": "builtin", "budget_per_trial_usd": 1},
        evaluators=["git-diff", judge],
        pre_execution=[hook],
        post_evaluation=[hook],
    )


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_plan_from_a_file_can_be_pickled(trials: TrialBench, suffix: str) -> None:
    plan = load_plan(write_case(trials, rich_case(trials), suffix), trials.host(KEYS))
    assert plan.gateway is not None
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert copy.gateway.upstreams["anthropic"].key == KEYS["ANTHROPIC_API_KEY"]


def test_a_plan_holds_only_data_of_the_file(trials: TrialBench) -> None:
    """No positions, no nodes of a parser, no adapter."""
    plan = load_plan(write_case(trials, rich_case(trials), "yaml"), trials.host(KEYS))
    assert b"ruamel" not in pickle.dumps(plan)
    assert b"youbencha.adapters" not in pickle.dumps(plan)


async def test_a_pickled_plan_can_be_run(trials: TrialBench) -> None:
    host = trials.host()
    plan = pickle.loads(pickle.dumps(trials.plan(host, trials.case(WRITE))))
    result = await run_trial(plan, host, directory=trials.runs / "one")
    assert result.bundle.summary.overall_status == "passed"
    assert result.directory.path == trials.runs / "one"


def test_with_and_without_a_file_the_plan_is_the_same(trials: TrialBench) -> None:
    case, host = rich_case(trials), trials.host(KEYS)
    from_file, without = load_plan(write_case(trials, case), host), trials.plan(host, case)
    assert without.config_hash == from_file.config_hash
    assert without.config_file is None
    assert without.evaluators == from_file.evaluators
    assert without.gateway == from_file.gateway


def test_problems_of_a_test_case_without_a_file(trials: TrialBench) -> None:
    """The same as with a file, only without a position."""
    command = {"name": "command", "config": {"command": "x", "env": {"A": "${NOT_SET}"}, "nonsense": 1}}
    case = trials.case(WRITE, evaluators=[command, "no-such-evaluator"])
    host = trials.host()
    with pytest.raises(ConfigError) as without:
        trials.plan(host, case)
    with pytest.raises(ConfigError) as from_file:
        load_plan(write_case(trials, case), host)
    assert [problem.path for problem in without.value.problems] == [
        "evaluators.0.config.nonsense",
        "evaluators.0.config.env.A",
        "evaluators.1.name",
    ]
    assert {(problem.path, problem.message) for problem in without.value.problems} == {
        (problem.path, problem.message) for problem in from_file.value.problems
    }
    assert [problem.line for problem in without.value.problems] == [None] * 3
    assert all(problem.line for problem in from_file.value.problems)


def test_variables_are_taken_from_the_hosts_environment(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_PROCESS", "no")
    agent = trials.case(WRITE).agent.model_dump()
    case = TestCase.model_validate(
        {"repo": str(trials.root), "agent": {**agent, "env": {"A": "${OF_THE_HOST}"}}, "evaluators": ["git-diff"]}
    )
    assert trials.plan(trials.host({"OF_THE_HOST": "yes"}), case).env == {"A": "yes"}
    wrong = json.loads(case.model_dump_json(exclude_unset=True).replace("OF_THE_HOST", "OF_THE_PROCESS"))
    with pytest.raises(ConfigError, match="OF_THE_PROCESS"):
        trials.plan(trials.host(), TestCase.model_validate(wrong))


async def test_paths_may_be_text(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trials.root)
    case = trials.case("print('done')", workspace_name="mine").model_dump(mode="json", exclude_unset=True)
    (trials.root / "case.json").write_text(json.dumps(case))
    host = Host(trials.env, load_settings(".", "home"))
    plan = load_plan("case.json", host, options=PlanOptions(workspace_dir="elsewhere"))
    assert plan.config_dir == trials.root
    assert (await run_trial(plan, host, directory="runs/one")).directory.path == trials.root / "runs" / "one"
    assert (await run_trial(plan, host)).directory.path.parent == trials.root / "elsewhere"
    assert plan_trial(plan.case, host, directory=".").config_dir == trials.root
    context = AgentExecutionContext(workspace_dir="w", repo_dir="w", artifacts_dir="a", config={}, scratch_dir="s")  # type: ignore[arg-type]
    assert (context.workspace_dir, context.artifacts_dir, context.scratch_dir) == (Path("w"), Path("a"), Path("s"))
