"""An arena becomes plans: every key has an effect, and everything is resolved before anything runs."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from arena_bench import KEY, SMALL, ArenaBench, changed
from hypothesis import given
from hypothesis import strategies as st
from test_arena_spec import SEED

from youbencha.engine.arena import PlanChoices, load_arena, plan_arena
from youbencha.engine.dry_run import describe_plan
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.selection import Selection, select
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.spec.arena import ArenaSpec, BudgetSpec, OrchestratorSpec, TaskSpec
from youbencha.trial.run import run_trial

NO_ENV = PlanChoices(resolve_env=False)


def gateway_of(cell: Cell) -> Any:
    assert cell.plan.gateway is not None
    return cell.plan.gateway.spec


def validation_of(cell: Cell) -> Any:
    assert cell.plan.evaluators[0].name == "validation"
    return cell.plan.evaluators[0].config


def judge_of(cell: Cell) -> Any:
    assert cell.plan.evaluators[1].name == "agentic-judge:rubric"
    return cell.plan.evaluators[1].config


ORCHESTRATOR: dict[str, tuple[Any, Callable[[Cell], Any], Any]] = {
    "name": ("two", lambda cell: cell.orchestrator, "two"),
    "agent": ("codex", lambda cell: cell.plan.case.agent.type, "codex"),
    "image": ("node:22", lambda cell: cell.plan.sandbox.image, "node:22"),
    "env": ({"ANTHROPIC_API_KEY": "k", "A": "1"}, lambda cell: cell.plan.env["A"], "1"),
    "version": ("1.0.128", lambda cell: cell.plan.agent_config["version"], "1.0.128"),
    "model": ("opus", lambda cell: cell.plan.model, "opus"),
    "config": ({"max_turns": 3}, lambda cell: cell.plan.agent_config["max_turns"], 3),
    "budget": (2, lambda cell: gateway_of(cell).budget_per_trial_usd, 2.0),
    "instructions": ("for-agents/CLAUDE.md", lambda cell: cell.plan.case.agent.instructions, "for-agents/CLAUDE.md"),
    "skills": (["for-agents/skill"], lambda cell: cell.plan.case.agent.skills, ("for-agents/skill",)),
    "plugins": (["for-agents/plugin"], lambda cell: cell.plan.case.agent.plugins, ("for-agents/plugin",)),
    "files": ("for-agents/files", lambda cell: cell.plan.case.agent.files, "for-agents/files"),
    "home": ("for-agents/home", lambda cell: cell.plan.case.agent.home, "for-agents/home"),
    "without": (["CLAUDE.md", "./.claude/"], lambda cell: cell.plan.case.agent.without, ("CLAUDE.md", ".claude")),
}
"""A value for each key, and what it changes in the plan. `adapter` and `variants` have tests of their own."""
FOR_AGENTS = {
    "CLAUDE.md": "Be brief.\n",
    "skill/SKILL.md": "---\nname: skill\ndescription: Tests.\n---\nTest first.\n",
    "plugin/.claude-plugin/plugin.json": '{"name": "plugin"}',
    "files/notes.txt": "A note.\n",
    "home/.config/x": "1\n",
}

AGENTS_TASK: dict[str, tuple[Any, Callable[[Cell], Any], Any]] = {
    "id": ("other", lambda cell: cell.task, "other"),
    "name": ("Fix the bug", lambda cell: cell.plan.case.description, "Fix the bug"),
    "repo": ("repos/other", lambda cell: cell.task_text, "Do the other.\n"),
    "tag": ("v1-solution", lambda cell: cell.plan.case.branch, "v1-solution"),
    "category": ("bugs/easy", lambda cell: cell.category, "bugs/easy"),
    "prompt_file": ("v1.txt", lambda cell: cell.plan.agent_config["prompt"], "v1"),
    "prompt": ("Do that.", lambda cell: cell.task_text, "Do that."),
    "time_limit_minutes": (1.5, lambda cell: cell.plan.timeout_s, 90.0),
    "resources": (
        {"cpus": 2, "memory": "1g", "pids": 100, "disk": "2g"},
        lambda cell: [getattr(cell.plan.sandbox, name) for name in ("cpus", "memory", "pids", "disk")],
        [2.0, 1 << 30, 100, 2 << 30],
    ),
    "env": ({"A": "${HOME}"}, lambda cell: validation_of(cell)["env"], {"A": "${HOME}"}),
    "without": (["CLAUDE.md"], lambda cell: cell.plan.case.agent.without, ("CLAUDE.md",)),
}
VALIDATED_TASK: dict[str, tuple[Any, Callable[[Cell], Any], Any]] = {
    "validation_image": ("node:20", lambda cell: validation_of(cell)["image"], "node:20"),
    "install_cmd": ("a", lambda cell: validation_of(cell)["install_cmd"], "a"),
    "test_cmd": ("b", lambda cell: validation_of(cell)["test_cmd"], "b"),
    "build_cmd": ("c", lambda cell: validation_of(cell)["build_cmd"], "c"),
    "lint_cmd": ("d", lambda cell: validation_of(cell)["lint_cmd"], "d"),
    "validation_tag": ("v1-validation", lambda cell: len(validation_of(cell)["validation_tag"]), 40),
    "reference_tag": ("v1-solution", lambda cell: len(validation_of(cell)["reference_tag"]), 40),
    "weights": ({"tests": 1}, lambda cell: validation_of(cell)["weights"]["tests"], 1.0),
    "protected": (["*.snap"], lambda cell: validation_of(cell)["protected"], ["*.snap"]),
    "reward": ("reward.txt", lambda cell: validation_of(cell)["reward"], "reward.txt"),
    "canary": ("none", lambda cell: validation_of(cell)["canary"], "none"),
    "validation": ({"network": "open"}, lambda cell: validation_of(cell)["network"], "open"),
    "rubric": (
        {"criteria": ["Clear."], "model": "opus", "votes": 3, "agent": "claude-code", "threshold": 0.5},
        lambda cell: [judge_of(cell)[name] for name in ("assertions", "model", "votes", "type", "threshold")],
        [["Clear."], "opus", 3, "claude-code", 0.5],
    ),
}
GREEN = {"greenfield": True, "validation_tag": "v1-validation", "green_weights": {"code_metrics": 2}}
ARENA: dict[str, tuple[Any, Callable[[Cell], Any], Any]] = {
    "gateway": ({"budget_per_trial_usd": 3}, lambda cell: gateway_of(cell).budget_per_trial_usd, 3.0),
    "network": ({"allowlist": ["pypi.org"]}, lambda cell: cell.plan.sandbox.allowlist, ("pypi.org",)),
    "sandbox": ("local", lambda cell: cell.plan.sandbox.type, "local"),
    "validation": (
        {"mode": "shared", "timeout_minutes": 2},
        lambda cell: [validation_of(cell)[name] for name in ("mode", "timeout_minutes")],
        ["shared", 2.0],
    ),
}
BUDGETS = {
    "per_call_usd": "budget_per_call_usd",
    "per_trial_usd": "budget_per_trial_usd",
    "per_agent_usd": "budget_per_agent_usd",
    "total_usd": "budget_total_usd",
    **{name: name for name in ("tokens_per_call", "tokens_per_trial", "tokens_per_agent", "tokens_total")},
}
OF_THE_ENGINE = {"trials", "parallel", "parallel_per_provider", "container_starts", "retries", "results"}
"""Keys that change no plan: the engine obeys them. `secrets`, `baseline` and the lists have tests of their own."""


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = ArenaBench(tmp_path_factory.mktemp("arena"))
    made.repository("repos/fix")
    made.repository("repos/other", text="Do the other.\n")
    return made.root / "repos"


@pytest.fixture
def small(arenas: ArenaBench, repositories: Path) -> ArenaBench:
    shutil.copytree(repositories, arenas.root / "repos")
    for name, text in FOR_AGENTS.items():
        arenas.script(f"for-agents/{name}", text)
    return arenas


def test_every_key_is_tested_here() -> None:
    assert set(OrchestratorSpec.model_fields) == {*ORCHESTRATOR, "adapter", "variants"}
    assert set(TaskSpec.model_fields) == {*AGENTS_TASK, *VALIDATED_TASK, "greenfield", "green_weights", "aliases"}
    assert set(BudgetSpec.model_fields) == set(BUDGETS)
    known = {*ARENA, *OF_THE_ENGINE, "budgets", "secrets", "orchestrators", "tasks", "baseline"}
    assert set(ArenaSpec.model_fields) == known


@pytest.mark.parametrize("key", ORCHESTRATOR)
def test_a_key_of_an_orchestrator_has_an_effect(key: str, small: ArenaBench) -> None:
    value, effect, expected = ORCHESTRATOR[key]
    if key == "agent":
        small.env["OPENAI_API_KEY"] = "sk-openai"
    before, after = small.cell(SMALL), small.cell(changed("orchestrators", 0, key, value))
    assert effect(after) == expected
    assert (after.agent_hash == before.agent_hash) == (key == "name")
    assert after.validation_hash == before.validation_hash


@pytest.mark.parametrize("key", AGENTS_TASK)
def test_a_key_about_the_agents_work_changes_the_agents_hash(key: str, small: ArenaBench) -> None:
    value, effect, expected = AGENTS_TASK[key]
    before, after = small.cell(SMALL), small.cell(changed("tasks", 0, key, value))
    assert effect(after) == expected
    assert (after.agent_hash == before.agent_hash) == (key in ("id", "name", "category"))


@pytest.mark.parametrize("key", VALIDATED_TASK)
def test_a_key_about_validation_changes_only_the_validations_hash(key: str, small: ArenaBench) -> None:
    value, effect, expected = VALIDATED_TASK[key]
    before, after = small.cell(SMALL), small.cell(changed("tasks", 0, key, value))
    assert effect(after) == expected
    assert after.agent_hash == before.agent_hash
    assert after.validation_hash != before.validation_hash


@pytest.mark.parametrize("weights", [{}, {"tests": 1}, {"rubric": 0.1}])
def test_a_rubric_without_a_weight_is_advisory(weights: dict[str, float], small: ArenaBench) -> None:
    arena = changed("tasks", 0, "rubric", {"criteria": ["Clear."]})
    arena["tasks"][0]["weights"] = weights
    assert judge_of(small.cell(arena)).get("advisory", False) == ("rubric" not in weights)


def test_greenfield_has_its_own_weights(small: ArenaBench) -> None:
    cell = small.cell(changed("tasks", 0, {**SMALL["tasks"][0], **GREEN}))
    assert validation_of(cell)["greenfield"] is True
    assert validation_of(cell)["green_weights"]["code_metrics"] == 2.0
    assert "weights" not in validation_of(cell)
    assert cell.agent_hash == small.cell(SMALL).agent_hash


@pytest.mark.parametrize("key", ARENA)
def test_a_key_of_the_arena_has_an_effect(key: str, small: ArenaBench) -> None:
    value, effect, expected = ARENA[key]
    arena = changed(key, value)
    assert effect(small.cell(arena)) == expected


@pytest.mark.parametrize("key", BUDGETS)
def test_budgets_of_the_command_line_override_those_of_the_file(key: str, small: ArenaBench) -> None:
    in_file = changed("budgets", {key: 7})
    assert getattr(gateway_of(small.cell(in_file)), BUDGETS[key]) == 7
    choices = PlanChoices(budget=BudgetSpec.model_validate({key: 9}))
    assert getattr(gateway_of(small.cell(in_file, choices)), BUDGETS[key]) == 9
    if "total" not in key:
        own = changed("orchestrators", 0, "budget", {key: 8}, arena=in_file)
        assert getattr(gateway_of(small.cell(own)), BUDGETS[key]) == 8
    same = key in ("per_agent_usd", "total_usd", "tokens_per_agent", "tokens_total")
    assert (small.cell(in_file).agent_hash == small.cell(in_file, choices).agent_hash) == same


def test_an_adapter_script_gets_the_task_by_file(small: ArenaBench) -> None:
    small.script("adapters/mine.sh", "echo one\n")
    arena = changed("orchestrators", [{"name": "mine", "adapter": "./adapters/mine.sh"}])
    cell = small.cell(arena)
    assert cell.plan.case.agent.type == "command"
    assert cell.plan.agent_config["command"] == ["bash", "{config_dir}/adapters/mine.sh"]
    assert cell.plan.agent_config["prompt_by"] == "file"
    assert cell.plan.agent_config["prompt"] == cell.task_text == "Fix it.\n"
    small.script("adapters/mine.sh", "echo two\n")
    assert small.cell(arena).agent_hash != cell.agent_hash


def test_an_adapter_script_runs_in_the_task(small: ArenaBench) -> None:
    small.script("adapters/mine.sh", 'cp "$TASK_DESCRIPTION" "$TASK_DIR/$NAME.txt"\n')
    arena = {**changed("tasks", 0, "env", {"NAME": "task's"}), "sandbox": "local"}
    arena["orchestrators"] = [{"name": "mine", "adapter": "adapters/mine.sh", "env": {"NAME": "orchestrator's"}}]
    arena["tasks"][0]["test_cmd"] = "true"
    cell = small.cell(arena)
    assert validation_of(cell)["env"] == {"NAME": "task's"}
    run = small.root / "run"
    asyncio.run(run_trial(cell.plan, small.host(), directory=run))
    assert (run / "src-modified" / "orchestrator's.txt").read_text() == "Fix it.\n"


def test_null_does_nothing_and_needs_no_key(small: ArenaBench) -> None:
    del small.env["ANTHROPIC_API_KEY"]
    small.script("adapters/null.sh")
    arena = {**SMALL, "budgets": {"per_trial_usd": 5}}
    built_in = small.cell(changed("orchestrators", [{"name": "null"}], arena=arena))
    assert built_in.plan.agent_config["command"] == ["true"]
    script = small.cell(changed("orchestrators", [{"name": "null", "adapter": "adapters/null.sh"}], arena=arena))
    assert built_in.plan.gateway is script.plan.gateway is None


def test_a_script_without_any_key_spends_nothing(small: ArenaBench) -> None:
    """It reaches only the gateway. A budget is kept without one; elsewhere it could not be."""
    small.script("mine.sh")
    arena = {**changed("orchestrators", [{"name": "mine", "adapter": "mine.sh"}]), "budgets": {"per_trial_usd": 5}}
    assert small.cell(arena).plan.gateway is not None
    del small.env["ANTHROPIC_API_KEY"]
    assert small.cell(arena).plan.gateway is None
    for wanted in ({"gateway": "builtin"}, {"sandbox": "local"}):
        with pytest.raises(ConfigError, match="no key"):
            small.cell({**arena, **wanted})


def test_the_originals_orchestrators_get_virtual_keys(arenas: ArenaBench) -> None:
    """Their containers reach only the gateway, so a key in `env` is for the gateway."""
    for name in ("null.sh", "claude-code/adapter.sh", "aider/adapter.sh"):
        arenas.script(f"adapters/{name}")
    arenas.repository("repos/fix")
    text = SEED + "tasks: [{repo: repos/fix, tag: v1, test_cmd: npm test}]\n"
    null, claude, aider = arenas.matrix(text).cells
    assert null.plan.gateway is None
    for cell in (claude, aider):
        assert cell.plan.gateway is not None
        assert cell.plan.gateway.upstreams["anthropic"].key == KEY
        assert cell.plan.sandbox.image == f"thunderdome/{cell.orchestrator}:latest"


def test_variables_come_from_the_secrets_file_then_from_the_environment(small: ArenaBench) -> None:
    env = {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}", "B": "${B}", "C": "$${C}"}
    arena = {**changed("orchestrators", 0, "env", env), "secrets": {"env_file": ".env.secrets"}}
    secrets = small.root / ".env.secrets"
    secrets.write_text("ANTHROPIC_API_KEY=sk-from-the-file\n")
    secrets.chmod(0o600)
    small.env["B"] = "from the environment"
    cell = small.cell(arena)
    assert cell.plan.env == {"ANTHROPIC_API_KEY": "sk-from-the-file", "B": "from the environment", "C": "${C}"}
    assert cell.plan.case.agent.env == env
    secrets.write_text("ANTHROPIC_API_KEY=another\n")
    host = small.host()
    load_arena(small.file, host, resolve_env=False)
    assert host.env["ANTHROPIC_API_KEY"] == "another", "for the validation, which may need it without an agent"
    assert small.cell(arena).agent_hash == cell.agent_hash


def test_an_undefined_variable_is_a_problem_only_of_a_run(small: ArenaBench) -> None:
    arena = changed("orchestrators", 0, "env", {"ANTHROPIC_API_KEY": "${NO_SUCH_KEY}"})
    arena["orchestrators"].append({"name": "null"})
    with pytest.raises(ConfigError) as caught:
        small.matrix(arena)
    (problem,) = caught.value.problems
    assert problem.path == "orchestrators.0.env.ANTHROPIC_API_KEY"
    assert problem.line == 1
    assert "NO_SUCH_KEY" in problem.message
    assert len(small.matrix(arena, choices=NO_ENV).cells) == 2
    assert len(small.matrix(arena, Selection(orchestrators=("null",))).cells) == 1
    of_task = changed("tasks", 0, "env", {"A": "${NO_SUCH_KEY}"})
    with pytest.raises(ConfigError) as caught:
        small.matrix(of_task)
    assert [problem.path for problem in caught.value.problems] == ["tasks.0.env.A"]
    assert len(small.matrix(of_task, choices=NO_ENV).cells) == 1
    secrets = {**arena, "secrets": {"env_file": "nowhere"}}
    assert len(small.matrix(secrets, choices=NO_ENV).cells) == 2


def test_a_missing_key_names_the_orchestrator(small: ArenaBench) -> None:
    del small.env["ANTHROPIC_API_KEY"]
    with pytest.raises(ConfigError) as caught:
        small.matrix(changed("orchestrators", 0, {"name": "one", "agent": "claude-code"}))
    (problem,) = caught.value.problems
    assert problem.path == "orchestrators.0"
    assert "no key" in problem.message


def test_tags_branches_and_commits_are_resolved(small: ArenaBench) -> None:
    path = small.root / "repos/fix"
    commit = small.git(path, "rev-parse", "v1")
    for written in ("v1", commit, commit[:10]):
        assert small.cell(changed("tasks", 0, "tag", written)).plan.case.commit == commit
    assert small.cell(changed("tasks", 0, "tag", "main")).plan.case.commit == small.git(path, "rev-parse", "main")
    hashes = {small.cell(changed("tasks", 0, "tag", tag)).agent_hash for tag in ("main", "v1-solution")}
    assert len(hashes) == 1, "the same commit by two names"


WRONG = {
    "tag": ("v2", "no branch or tag `v2`", "v1"),
    "validation_tag": ("v1-validatoin", "no branch or tag", "did you mean 'v1-validation'?"),
    "reference_tag": ("abcdef1", "no commit abcdef1", None),
    "prompt_file": ("TASKS.md", "has no file TASKS.md", "TASK.md"),
}


@pytest.mark.parametrize("key", WRONG)
def test_what_is_missing_in_a_repository_is_named_with_what_exists(key: str, small: ArenaBench) -> None:
    value, message, hint = WRONG[key]
    with pytest.raises(ConfigError) as caught:
        small.matrix(changed("tasks", 0, key, value))
    (problem,) = caught.value.problems
    assert problem.path == f"tasks.0.{key}"
    assert problem.line == 1
    assert "task fix, tag" in problem.message
    assert message in problem.message
    assert hint is None or hint in (problem.hint or "")


def test_problems_of_all_tasks_are_one_error(small: ArenaBench) -> None:
    tasks = [{**SMALL["tasks"][0], "id": f"t{n}", "repo": repo} for n, repo in enumerate(("a", "repos/fix", "b"))]
    with pytest.raises(ConfigError) as caught:
        small.matrix({**SMALL, "tasks": tasks})
    assert caught.value.code == "TASK_UNUSABLE"
    assert [problem.path for problem in caught.value.problems] == ["tasks.0.tag", "tasks.2.tag"]


def test_a_description_may_be_in_a_directory(small: ArenaBench) -> None:
    path = small.root / "repos/fix"
    (path / "docs").mkdir()
    (path / "docs" / "task.md").write_text("In a directory.\n")
    small.git(path, "add", "-A")
    small.git(path, "commit", "-qm", "x")
    tagged = changed("tasks", 0, "tag", "main")
    assert (
        small.cell(changed("tasks", 0, "prompt_file", "./docs/task.md", arena=tagged)).task_text == "In a directory.\n"
    )
    for wrong in ("docs", "../fix/TASK.md", "/etc/passwd", "docs/nothing.md"):
        with pytest.raises(ConfigError, match="has no file"):
            small.cell(changed("tasks", 0, "prompt_file", wrong, arena=tagged))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_description_must_be_text(content: bytes, small: ArenaBench) -> None:
    path = small.root / "repos/fix"
    (path / "TASK.md").write_bytes(content)
    small.git(path, "commit", "-qam", "x")
    with pytest.raises(ConfigError, match=r"TASK\.md"):
        small.matrix(changed("tasks", 0, "tag", "main"))


def test_a_description_is_never_read_through_a_link(small: ArenaBench) -> None:
    path = small.root / "repos/fix"
    (path / "TASK.md").unlink()
    (path / "TASK.md").symlink_to("/etc/passwd")
    small.git(path, "commit", "-qam", "x")
    with pytest.raises(ConfigError, match=r"has no file TASK\.md"):
        small.matrix(changed("tasks", 0, "tag", "main"))


def test_a_repository_is_asked_once_for_all_of_its_tasks(small: ArenaBench) -> None:
    tasks = [{**SMALL["tasks"][0], "id": f"t{number}"} for number in range(20)]
    host = small.host()
    arena = load_arena(small.write({**SMALL, "tasks": tasks}), host)
    matrix = asyncio.run(plan_arena(arena, host))
    small.git(small.root / "repos/fix", "tag", "-f", "v1", "main")
    later = asyncio.run(plan_arena(arena, host))
    assert {cell.plan.case.commit for cell in (*matrix.cells, *later.cells)} == {matrix.cells[0].plan.case.commit}


# Selection


def many() -> ArenaSpec:
    common = {"tag": "v1", "test_cmd": "x"}
    return ArenaSpec.model_validate(
        {
            "orchestrators": [{"name": name} for name in ("null", "claude-code", "claude-old", "aider")],
            "tasks": [
                {
                    **common,
                    "id": "T1",
                    "repo": "https://x.org/b/time-tracker.git",
                    "category": "green/easy",
                    "name": "Time",
                },
                {**common, "id": "T2", "repo": "https://x.org/b/tracker", "category": "green/hard"},
                {**common, "id": "tracker", "repo": "./local/other/", "category": "bugs"},
            ],
        }
    )


SELECTIONS: dict[str, tuple[Selection, list[str], list[str]]] = {
    "everything": (Selection(), ["null", "claude-code", "claude-old", "aider"], ["T1", "T2", "tracker"]),
    "a name": (Selection(orchestrators=("aider",)), ["aider"], ["T1", "T2", "tracker"]),
    "a pattern": (Selection(("claude-*",)), ["claude-code", "claude-old"], ["T1", "T2", "tracker"]),
    "both, in the arena's order": (Selection(("aider", "nul?")), ["null", "aider"], ["T1", "T2", "tracker"]),
    "an id before a repository": (Selection(("null",), ("tracker",)), ["null"], ["tracker"]),
    "a name of a task": (Selection(("null",), ("Time",)), ["null"], ["T1"]),
    "a repository": (Selection(("null",), ("https://x.org/b/time-tracker",)), ["null"], ["T1"]),
    "its last part": (Selection(("null",), ("time-tracker",)), ["null"], ["T1"]),
    "its last parts": (Selection(("null",), ("b/tracker",)), ["null"], ["T2"]),
    "its end": (Selection(("null",), ("-tracker",)), ["null"], ["T1"]),
    "two tasks": (Selection(("null",), ("T2", "T1")), ["null"], ["T1", "T2"]),
    "a category": (Selection(("null",), (), ("bugs",)), ["null"], ["tracker"]),
    "a suite": (Selection(("null",), (), ("green/*",)), ["null"], ["T1", "T2"]),
    "two categories": (Selection(("null",), (), ("bugs", "green/hard")), ["null"], ["T2", "tracker"]),
    "both filters": (Selection(("null",), ("T1",), ("green/*",)), ["null"], ["T1"]),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection(name: str) -> None:
    selection, orchestrators, tasks = SELECTIONS[name]
    found = select(many().orchestrators, many().tasks, selection)
    assert [orchestrator.name for orchestrator in found.orchestrators] == orchestrators
    assert [task.key for task in found.tasks] == tasks


NOTHING = {
    "orchestrator": (Selection(("claude-cod",)), "did you mean 'claude-code'?"),
    "pattern": (Selection(("aider", "gemini*")), "The arena has: null"),
    "task": (Selection((), ("T3",)), "T1"),
    "empty": (Selection((), ("",)), "The arena has"),
    "category": (Selection((), (), ("green",)), "green/*"),
    "both": (Selection((), ("T1",), ("bugs",)), "must match --task and --category"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_filter_that_matches_nothing_is_an_error(name: str) -> None:
    selection, hint = NOTHING[name]
    with pytest.raises(YouBenchaError) as caught:
        select(many().orchestrators, many().tasks, selection)
    assert caught.value.code == "NOTHING_SELECTED"
    assert hint in (caught.value.hint or "")


@given(st.sets(st.sampled_from(["null", "claude-code", "claude-old", "aider"]), min_size=1))
def test_each_name_selects_itself(names: set[str]) -> None:
    found = select(many().orchestrators, many().tasks, Selection(tuple(names)))
    assert {orchestrator.name for orchestrator in found.orchestrators} == names
    assert len(found.orchestrators) == len(names)


# Order


def matrix_of(shape: set[tuple[int, int]], trials: int) -> Matrix:
    """A matrix of (task, orchestrator); its order does not depend on plans."""
    fields: Any = {"plan": None, "task_text": "", "agent_hash": "", "validation_hash": ""}
    return Matrix(
        cells=tuple(Cell(orchestrator=f"o{o}", task=f"t{t}", **fields) for t, o in sorted(shape)), trials=trials
    )


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1), st.integers(1, 6))
def test_order_is_complete_and_interleaved(shape: set[tuple[int, int]], trials: int) -> None:
    matrix = matrix_of(shape, trials)
    keys = [key for key, _ in matrix.order()]
    assert len(set(keys)) == len(keys) == len(shape) * trials
    assert [key.number for key in keys] == sorted(key.number for key in keys)
    assert all((key.orchestrator, key.task) == (cell.orchestrator, cell.task) for key, cell in matrix.order())
    rounds = [[key.task for key in keys if key.number == number] for number in range(1, trials + 1)]
    assert all(each == rounds[0] for each in rounds)
    assert len(Counter(rounds[0])) == sum(1 for a, b in zip(rounds[0], [None, *rounds[0]], strict=False) if a != b)


@given(st.integers(1, 5), st.integers(1, 5))
def test_each_agent_is_first_equally_often(agents: int, tasks: int) -> None:
    matrix = matrix_of({(t, o) for t in range(tasks) for o in range(agents)}, agents)
    first = Counter[str]()
    seen = set()
    for key, _ in matrix.order():
        if (key.task, key.number) not in seen:
            seen.add((key.task, key.number))
            first[key.orchestrator] += 1
    assert set(first.values()) == {tasks}


# Dry run


CAPS: dict[str, tuple[dict[str, Any], float | None, float | None, str | None]] = {
    "nothing": ({}, None, None, "nothing limits one: set a budget, or use --budget"),
    "per trial": ({"per_trial_usd": 2}, 2 * 2 * 3 * 2, 2 * 2 * 3 * 2 * 3, None),
    "per agent": ({"per_agent_usd": 5}, 10, 10, None),
    "total": ({"total_usd": 7.5}, 7.5, 7.5, None),
    "all": ({"per_trial_usd": 0.1, "per_agent_usd": 5, "total_usd": 3}, 1.2, 3, None),
    "tokens only": ({"tokens_total": 1000}, None, None, "nothing limits one"),
}
"""Budgets of two orchestrators on two tasks with three trials each, beside `null`, and the most that they allow."""


@pytest.mark.parametrize("name", CAPS)
def test_the_worst_case_is_the_sum_of_the_caps(name: str, small: ArenaBench) -> None:
    budgets, expected, with_retries, reason = CAPS[name]
    arena = {
        "orchestrators": [{"name": "null"}, *({"name": name, "agent": "claude-code"} for name in ("one", "two"))],
        "tasks": [{**SMALL["tasks"][0], "id": name} for name in ("a", "b")],
        "trials": 3,
        "budgets": budgets,
    }
    about = describe_plan(small.matrix(arena, choices=NO_ENV), parallel=2, attempts=3)
    data = about.as_data()
    assert data["worst_case_usd"] == (None if expected is None else pytest.approx(expected))
    assert data["worst_case_with_retries_usd"] == (None if with_retries is None else pytest.approx(with_retries))
    assert (reason is None) == (data["worst_case_reason"] is None)
    assert reason is None or reason in data["worst_case_reason"]
    assert ("unlimited" in about.as_text()) == (expected is None)


def test_a_judge_is_limited_by_the_total_only(small: ArenaBench) -> None:
    arena = {**changed("tasks", 0, "rubric", {"criteria": ["Good."]}), "budgets": {"per_trial_usd": 1}}
    worst = describe_plan(small.matrix(arena)).worst_case
    assert worst.usd is None
    assert "judge of fix" in (worst.reason or "")
    arena["budgets"]["total_usd"] = 4
    assert describe_plan(small.matrix(arena)).worst_case.usd == 1


def test_a_plan_is_described(small: ArenaBench) -> None:
    arena = {**SMALL, "trials": 2}
    arena["orchestrators"] = [*SMALL["orchestrators"], {"name": "null"}]
    arena["tasks"] = [{**SMALL["tasks"][0], "time_limit_minutes": 10, "category": "bugs/easy"}]
    about = describe_plan(small.matrix(arena), parallel=3)
    data = about.as_data()
    commit = small.git(small.root / "repos/fix", "rev-parse", "v1")
    assert data["tasks"][0] == {
        "id": "fix", "category": "bugs/easy", "repo": "repos/fix", "tag": "v1", "commit": commit, "time_limit_s": 600.0
    }  # fmt: skip
    assert [each["name"] for each in data["orchestrators"]] == ["one", "null"]
    assert (data["trials"], data["trials_each"], data["parallel"]) == (4, 2, 3)
    assert data["order"] == [key._asdict() for key, _ in about.matrix.order()]
    assert data["longest_s"] == (4 - 1) * 600 / 3 + 600
    text = about.as_text()
    assert "one/fix/1, null/fix/1, null/fix/2, one/fix/2" in text
    assert commit[:12] in text
    assert KEY not in text + str(data)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=8), st.integers(1, 4), st.integers(1, 5))
def test_no_schedule_takes_longer_than_the_longest_time(limits: list[int], trials: int, parallel: int) -> None:
    """However the trials are ordered: each starts when one of those before it has ended."""
    fields: Any = {"task": "", "task_text": "", "agent_hash": "", "validation_hash": ""}
    cells = [Cell(orchestrator="", plan=SimpleNamespace(timeout_s=limit), **fields) for limit in limits]  # type: ignore[arg-type]
    longest = describe_plan(Matrix(cells=tuple(cells), trials=trials), parallel=parallel).longest_s
    for order in (sorted(limits * trials), sorted(limits * trials, reverse=True), limits * trials):
        free = [0.0] * parallel
        for limit in order:
            free.sort()
            free[0] += limit
        assert max(free) <= longest + 1e-9
