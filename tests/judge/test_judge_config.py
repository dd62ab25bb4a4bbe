"""The judge's configuration, and the messages about invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judge_bench import ASSERTIONS, Judge, JudgeBench, StrictJudge

from systems import posix_only
from youbencha.adapters import get_adapter
from youbencha.errors import ConfigError, Problem
from youbencha.evaluators import Evaluator, get_evaluator
from youbencha.evaluators.judge import AgenticJudge
from youbencha.evaluators.judge.setup import read_config
from youbencha.spec.testcase import AgentSpec


def problems(config: dict[str, Any], config_dir: Path = Path(), judge: Judge | None = None) -> list[Problem]:
    return list(AgenticJudge(judge or Judge([""])).check_config(config, config_dir, agent_type="copilot-cli"))


def problem_texts(config: dict[str, Any], config_dir: Path = Path(), judge: Judge | None = None) -> dict[str, str]:
    return {problem.path: problem.message for problem in problems(config, config_dir, judge)}


def asked(**config: Any) -> list[tuple[str, str, float, float]]:
    judge, found = read_config(config)
    assert judge is not None, found
    return [(each.name, each.text, each.threshold, each.weight) for each in judge.asked()]


@pytest.mark.parametrize("name", ["agentic-judge", "agentic-judge-docs", "agentic-judge:tests"])
def test_names_of_the_evaluator(name: str) -> None:
    found = get_evaluator(name)
    assert isinstance(found, AgenticJudge)
    assert isinstance(found, Evaluator)


# -- assertions ------------------------------------------------------------------------------------------------------


def test_assertions_as_texts_and_as_mappings() -> None:
    config = {
        "assertions": {"a": "A holds.", "b": {"description": "B holds.", "threshold": 0, "weight": 3}},
        "threshold": 0.9,
    }
    assert asked(**config) == [("a", "A holds.", 0.9, 1.0), ("b", "B holds.", 0.0, 3.0)]


def test_the_default_threshold_is_between_half_and_full() -> None:
    [(_, _, threshold, _)] = asked(assertions={"a": "A."})
    assert 0.5 < threshold < 1


@pytest.mark.parametrize("key", ["assertions", "criteria"])
def test_names_are_derived_from_a_lists_descriptions(key: str) -> None:
    listed = [
        "Tests were added, and they pass in every environment that there is.",
        {"description": "Tests were added, and they pass in every environment", "severity": "high"},
        {"name": "mine", "description": "Votes"},
        "votes",
        "→ !",
    ]
    assert [name for name, *_ in asked(**{key: listed})] == [
        "tests_were_added_and_they_pass_in_every",
        "tests_were_added_and_they_pass_in_every_2",
        "mine",
        "votes_2",
        "assertion_5",
    ]


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    config = {
        "type": "no-such-agent",
        "timeout": 0,
        "votes": 10,
        "max_concurrent_votes": "3",
        "threshold": 1.5,
        "env": {"A": 1},
        "prompt": "Be strict.",
        "prompt_file": "missing.md",
        "assertions": {"a": {"description": "", "treshold": 1}, "b": {"description": "x", "threshold": 2}},
        "config": {"prompt": "no"},
    }
    assert set(problem_texts(config, tmp_path)) == {
        "type",
        "timeout",
        "votes",
        "max_concurrent_votes",
        "threshold",
        "env.A",
        "prompt_file",
        "assertions.a.description",
        "assertions.a.treshold",
        "assertions.b.threshold",
        "config.prompt",
    }


@pytest.mark.parametrize(
    ("config", "path", "says"),
    [
        ({}, "assertions", "is required"),
        ({"assertions": {}}, "assertions", "at least 1"),
        ({"assertions": []}, "assertions", "at least 1"),
        ({"assertions": "all is well"}, "assertions", "must be a mapping or a list, not text"),
        ({"assertions": {"a": 5}}, "assertions.a", "must be a mapping"),
        ({"assertions": {"a": "x"}, "criteria": ["y"]}, "criteria", "cannot be combined"),
        ({"assertions": {"votes": "x"}}, "assertions", "'votes' is a built-in metric of the judge"),
        ({"assertions": {"no_errors": "x", "No-Errors": "y"}}, "assertions", "used twice"),
        ({"assertions": [{"name": "a", "description": "x"}, {"name": "A", "description": "y"}]}, "assertions", "twice"),
        ({"assertions": {"!": "x"}}, "assertions", "no letter or digit"),
        ({"assertions": {"a": {"description": "x", "weight": 0}}}, "assertions.a.weight", "more than 0"),
        ({"assertions": {"a": "x"}, "votes": 0}, "votes", "at least 1"),
    ],
)
def test_one_problem(config: dict[str, Any], path: str, says: str) -> None:
    [problem] = problems({"type": "tiny", **config})
    assert problem.path == path
    assert says in problem.message


# -- guidance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["prompt_file", "instructions-file", "instructions_file"])
def test_guidance_from_a_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "strict.txt").write_text("Be strict.\n")
    assert problem_texts({"assertions": ASSERTIONS, key: "./prompts/strict.txt"}, tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../secret.md", "contains '..'"),
        ("a/..\\b.md", "contains '..'"),
        ("/etc/passwd", "is absolute"),
        ("C:\\x.md", "is absolute"),
        ("missing.md", "does not exist"),
        ("empty.md", "is empty"),
        ("folder", "is not a regular file"),
        ("latin.md", "is not UTF-8 text"),
        ("long.md", "is longer than"),
        ("a\0b", "NUL"),
    ],
)
def test_guidance_that_cannot_be_used(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.md").write_bytes(b"\xff\xfe!")
    (tmp_path / "long.md").write_text("x" * 200_001)
    assert says in problem_texts({"assertions": ASSERTIONS, "prompt_file": name}, tmp_path)["prompt_file"]


@posix_only("links need a privilege there")
def test_guidance_behind_a_link_out_of_its_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "link.md").symlink_to(tmp_path / "secret")
    says = problem_texts({"assertions": ASSERTIONS, "instructions-file": "link.md"}, tmp_path / "case")
    assert "leads out of" in says["instructions-file"]


@pytest.mark.parametrize("other", ["prompt_file", "instructions-file", "instructions_file"])
def test_only_one_kind_of_guidance(other: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Be kind.")
    says = problem_texts({"assertions": ASSERTIONS, "prompt": "Be strict.", other: "a.md"}, tmp_path)
    assert "cannot be combined with `prompt`" in says[other]


# -- the agent's own options -----------------------------------------------------------------------------------------


def test_agent_options_may_be_at_the_top_level_or_under_config() -> None:
    config = {"type": "tiny", "assertions": ASSERTIONS, "max_turns": 3}
    assert problem_texts(config, judge=StrictJudge([""])) == {}
    assert (
        problem_texts({"type": "tiny", "assertions": ASSERTIONS, "config": {"max_turns": 3}}, judge=StrictJudge([""]))
        == {}
    )


def test_invalid_agent_options_are_reported_with_their_path() -> None:
    config = {"type": "tiny", "assertions": ASSERTIONS, "turns": 3, "treshold": 1, "config": {"other": 1}}
    found = {p.path: p.hint for p in problems(config, judge=StrictJudge([""]))}
    assert found == {
        "turns": "known keys: max_turns",
        "treshold": "did you mean 'threshold'?",
        "config.other": "known keys: max_turns",
    }


def test_without_agent_checks_unknown_top_level_keys_are_refused() -> None:
    [problem] = problems({"type": "tiny", "assertions": ASSERTIONS, "treshold": 0.5, "config": {"anything": 1}})
    assert (problem.path, problem.message, problem.hint) == ("treshold", "unknown key", "did you mean 'threshold'?")


def test_an_option_given_in_both_places() -> None:
    config = {"type": "tiny", "assertions": ASSERTIONS, "model": "m", "max_turns": 3}
    config["config"] = {"model": "n", "max_turns": 4}
    says = problem_texts(config, judge=StrictJudge([""]))
    assert "set twice" in says["config.max_turns"]
    assert "set twice" in says["config.model"]


def test_a_real_agent_checks_its_options() -> None:
    config = {"type": "claude-code", "assertions": ASSERTIONS, "permission_mode": "plan", "system_prompt": "x"}
    real = AgenticJudge(get_adapter)
    assert list(real.check_config(config, Path())) == []
    [problem] = real.check_config({**config, "allow_all_tools": True}, Path())
    assert (problem.path, problem.message) == ("allow_all_tools", "unknown key")


def test_without_a_type_the_options_are_those_of_the_test_cases_agent() -> None:
    [problem] = AgenticJudge(StrictJudge([""])).check_config(
        {"assertions": ASSERTIONS, "votse": 3}, Path(), agent_type="tiny"
    )
    assert (problem.path, problem.hint) == ("votse", "did you mean 'votes'?")


def test_without_an_agent_a_type_is_required() -> None:
    judge = AgenticJudge(Judge([""]))
    for config in ({}, {"type": None}):
        [problem] = judge.check_config({"assertions": ASSERTIONS, **config}, Path())
        assert (problem.path, problem.message) == ("type", "is required: which agent judges")
    assert list(judge.check_config({"assertions": ASSERTIONS, "type": "tiny"}, Path())) == []


async def test_without_a_type_the_options_are_checked_again_when_it_judges(bench: JudgeBench) -> None:
    with pytest.raises(ConfigError) as raised:
        await bench.judge(StrictJudge([""]), {"type": None, "nonsense": 1}, agent=AgentSpec(type="tiny"))
    assert [problem.path for problem in raised.value.problems] == ["nonsense"]


async def test_a_type_is_required_when_judging(bench: JudgeBench) -> None:
    with pytest.raises(ConfigError, match="which agent judges"):
        await bench.judge(Judge([""]), {"type": None}, agent=None, log=None)


def test_a_command_agent_cannot_judge() -> None:
    real = AgenticJudge(get_adapter)
    config = {"assertions": ASSERTIONS, "max_turns": 3}
    [problem] = real.check_config(config, Path(), agent_type="command")
    assert problem.path == "type"
    assert "the test case's agent, `command`, cannot judge without a program" in problem.message
    judging = {"assertions": ASSERTIONS, "command": "./judge.py"}
    assert list(real.check_config(judging, Path(), agent_type="command")) == []
    assert list(real.check_config({**config, "type": "claude-code"}, Path(), agent_type="command")) == []
