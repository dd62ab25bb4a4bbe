"""Test cases and eval configurations, from their files to what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from youbencha.errors import ConfigError, Problem
from youbencha.spec.base import added, trial_identity
from youbencha.spec.gateway import GatewaySpec
from youbencha.spec.loader import CaseParts, is_eval_config, load_eval_config, load_test_case
from youbencha.spec.testcase import TestCase

MINIMAL = "repo: https://example.org/shop.git\nagent: {type: claude-code}\nevaluators: [git-diff]\n"


def write(tmp_path: Path, text: str, name: str = "case.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def problems(file: Path, variables: Mapping[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_test_case(file, variables)
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_test_case(tmp_path: Path) -> None:
    loaded = load_test_case(write(tmp_path, MINIMAL))
    assert loaded.name == "case"  # the file's, because it has none of its own
    assert loaded.case.timeout is None
    assert [evaluator.name for evaluator in loaded.evaluators] == ["git-diff"]
    assert loaded.directory == tmp_path


def test_json_is_accepted(tmp_path: Path) -> None:
    case = {"name": "j", "repo": "x", "agent": {"type": "a"}, "evaluators": [{"name": "git-diff", "config": {"a": 1}}]}
    loaded = load_test_case(write(tmp_path, json.dumps(case, indent="\t"), "case.json"))
    assert loaded.evaluators[0].config == {"a": 1}


@pytest.mark.parametrize(
    "repo",
    ["https://h/r.git", "http://h/r", "ssh://git@h/r", "git@h:o/r.git", "file:///x/y", "../there", "/abs", "~/r", "."],
)
def test_repositories_of_every_kind_are_accepted(tmp_path: Path, repo: str) -> None:
    text = MINIMAL.replace("https://example.org/shop.git", json.dumps(f" {repo}\n"))
    assert load_test_case(write(tmp_path, text)).case.repo == repo


@pytest.mark.parametrize("model", ["gpt-5", "gemini-3-pro-preview", "claude-sonnet-4.5", "openrouter/glm-4.6:free"])
def test_any_model_name(tmp_path: Path, model: str) -> None:
    text = MINIMAL.replace("{type: claude-code}", json.dumps({"type": "x", "model": model}))
    assert load_test_case(write(tmp_path, text)).case.agent.model == model


# -- variables -------------------------------------------------------------------------------------------------------


def test_variables_are_substituted_everywhere(tmp_path: Path) -> None:
    text = (
        "name: Case of ${WHO}\nrepo: ${BASE}/shop.git\ntimeout: ${MS}\n"
        "agent: {type: a, config: {prompt: 'for ${WHO}, not $${WHO}', nested: [{deep: '${MS}'}]}}\n"
        "evaluators: [{name: x, config: {assertions: {a: 'about ${WHO}'}}}]\n"
    )
    loaded = load_test_case(write(tmp_path, text), {"WHO": "Ann", "BASE": "https://h", "MS": 5000})
    assert loaded.name == "Case of Ann"
    assert loaded.case.repo == "https://h/shop.git"
    assert loaded.case.timeout == 5000  # a number stays one
    assert loaded.case.agent.config == {"prompt": "for Ann, not ${WHO}", "nested": [{"deep": 5000}]}
    assert loaded.evaluators[0].config == {"assertions": {"a": "about Ann"}}


def test_an_undefined_variable_outside_free_text(tmp_path: Path) -> None:
    file = write(tmp_path, MINIMAL + "branch: ${BRNCH}\nworkspace_name: ${W}\n")
    assert problems(file, {"BRANCH": "main"}) == [
        f"{file}:4:9: branch: ${{BRNCH}} is not defined (did you mean 'BRANCH'?)",
        f"{file}:5:17: workspace_name: ${{W}} is not defined "
        "(define it under `variables` in .youbencharc, or give --var W=VALUE)",
    ]


def test_an_undefined_variable_in_free_text_stays_and_is_reported(tmp_path: Path) -> None:
    text = MINIMAL.replace("{type: claude-code}", "{type: a, config: {prompt: 'use `${name}`'}, env: {K: '${KEY}'}}")
    loaded = load_test_case(write(tmp_path, text))
    assert loaded.case.agent.config["prompt"] == "use `${name}`"
    assert [problem.path for problem in loaded.unknown_variables] == ["agent.config.prompt", "agent.env.K"]


# -- problems --------------------------------------------------------------------------------------------------------


def test_all_problems_are_reported_together_with_those_of_checks(tmp_path: Path) -> None:
    write(tmp_path, "name: x\nconfg: {}\n", "evaluator.yaml")
    file = write(
        tmp_path,
        "repo: 5\nagent: {typ: x, config: {bad: 1}}\nevaluators:\n  - {name: a, config: {wrong: 1}}\n"
        "  - {file: evaluator.yaml}\n  - {file: missing.yaml}\n  - {}\n  - {name: a, file: b}\n",
    )

    def check(parts: CaseParts) -> list[Problem]:
        assert parts.agent is not None
        found = [parts.document.problem(("agent", "config", "bad"), "is bad", at_key=True)]
        return found + [
            evaluator.problem("is wrong", key=("config", "wrong")) for evaluator in parts.evaluators if evaluator.config
        ]

    with pytest.raises(ConfigError) as caught:
        load_test_case(file, check=check)
    found = {(problem.file and problem.file.name, problem.line, problem.path) for problem in caught.value.problems}
    assert found == {
        ("case.yaml", 1, "repo"),
        ("case.yaml", 2, "agent.type"),
        ("case.yaml", 2, "agent.typ"),
        ("case.yaml", 2, "agent.config.bad"),
        ("case.yaml", 4, "evaluators.0.config.wrong"),
        ("evaluator.yaml", 2, "confg"),
        ("case.yaml", 6, "evaluators.2.file"),
        ("case.yaml", 7, "evaluators.3"),
        ("case.yaml", 8, "evaluators.4.name"),
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("timeout: 0\n", "must be more than 0"),
        ("timeout: soon\n", "must be a whole number"),
        ("commit: not-a-commit\n", "must be 4 to 64 hexadecimal digits"),
        ("workspace_name: ../out\n", "must be letters, digits"),
        ("expected_source: branch\n", "requires `expected`"),
        ("expected_source: moon\nexpected: x\n", "must be one of"),
        ("pre_execution: [{name: webhook, config: {command: x}}]\n", "must be 'script'"),
        ("post_evaluation: [{name: mail}]\n", "must be one of"),
        ("post_evaluation: [{name: database, config: {type: json-file}}]\n", "is required"),
        ("post_evaluation: [{name: script, config: {command: x, arg: [1]}}]\n", "did you mean 'args'?"),
        ("description: [x]\n", "must be text"),
    ],
)
def test_invalid_test_cases(tmp_path: Path, more: str, said: str) -> None:
    (problem,) = problems(write(tmp_path, MINIMAL + more))
    assert said in problem


def test_no_evaluators_at_all(tmp_path: Path) -> None:
    (problem,) = problems(write(tmp_path, MINIMAL.replace("[git-diff]", "[]")))
    assert "evaluators" in problem


# -- evaluator files -------------------------------------------------------------------------------------------------


def test_an_evaluator_file_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    write(tmp_path, "name: git-diff\ndescription: few changes\nconfig: {n: '${N}'}\n", "shared/few.yaml")
    text = MINIMAL.replace("[git-diff]", "[{file: ./shared/few.yaml}]")
    (evaluator,) = load_test_case(write(tmp_path, text), {"N": 3}).evaluators
    assert (evaluator.name, evaluator.config) == ("git-diff", {"n": 3})
    assert evaluator.config_dir == tmp_path / "shared"
    assert str(evaluator.problem("is wrong", key=("config", "n"))).startswith(f"{tmp_path / 'shared/few.yaml'}:3:13")


# -- identity --------------------------------------------------------------------------------------------------------


def test_the_hash_depends_on_the_meaning_and_not_on_the_spelling(tmp_path: Path) -> None:
    write(tmp_path, "name: git-diff\nconfig: {a: 1}\n", "e.yaml")
    plain = MINIMAL.replace("[git-diff]", "[{name: git-diff, config: {a: 1}}]")
    same = "# a comment\nevaluators: [{file: e.yaml}]\nagent:\n  type: claude-code\nrepo: ${R}\n"
    first = load_test_case(write(tmp_path, plain)).config_hash
    assert load_test_case(write(tmp_path, same), {"R": "https://example.org/shop.git"}).config_hash == first
    assert load_test_case(write(tmp_path, plain.replace("a: 1", "a: 2"))).config_hash != first
    assert load_test_case(write(tmp_path, plain + "timeout: 5\n")).config_hash != first


# -- eval configurations ---------------------------------------------------------------------------------------------


def test_an_eval_configuration(tmp_path: Path) -> None:
    file = write(tmp_path, "directory: ./out\nexpected_directory: ./ref\nevaluators: [expected-diff]\n", "eval.yaml")
    loaded = load_eval_config(file)
    assert (loaded.case.directory, loaded.case.expected_directory) == ("./out", "./ref")
    assert is_eval_config(file)
    assert not is_eval_config(write(tmp_path, MINIMAL))
    assert not is_eval_config(tmp_path / "nothing.yaml")


class NewerTestCase(TestCase):
    retries: int = added(3)


def test_a_key_that_was_added_later_counts_only_if_it_is_set() -> None:
    """Otherwise results of today could not be compared with those of a year ago."""
    case = {"repo": ".", "agent": {"type": "command"}, "evaluators": ["git-diff"]}
    older = TestCase.model_validate(case).model_dump(mode="json")
    assert NewerTestCase.model_validate(case).model_dump(mode="json") == older
    assert NewerTestCase.model_validate({**case, "retries": 4}).model_dump(mode="json") == {**older, "retries": 4}


def test_limits_of_a_whole_run_do_not_change_the_identity_of_a_trial() -> None:
    """A run that has spent its budget is resumed with a larger one."""
    small, large = GatewaySpec(budget_total_usd=1, tokens_per_agent=5), GatewaySpec(budget_total_usd=9)
    assert trial_identity(small) == trial_identity(large) == trial_identity(GatewaySpec())
    assert trial_identity(GatewaySpec(budget_per_trial_usd=1)) != trial_identity(GatewaySpec())
