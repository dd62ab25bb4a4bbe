"""`yb validate`: all problems, and warnings about likely mistakes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from yb import yb

GOOD = """\
name: Fix the tax
description: The tax is wrong.
repo: ./shop
agent:
  type: claude-code
  config:
    prompt: Fix the tax of the shop and run its tests.
evaluators:
  - name: git-diff
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    file = tmp_path / "testcase.yaml"
    file.write_text(GOOD)
    (tmp_path / "shop").mkdir()
    git(tmp_path / "shop", "init", "--quiet")
    git(tmp_path / "shop", "commit", "--quiet", "--allow-empty", "--message=start")
    return file


def git(directory: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True)


def warnings_of(case: Path, **env: str) -> list[tuple[str, int | None]]:
    """The path and the line of each warning about a valid file."""
    done = yb("validate", "-c", str(case), "--json", cwd=case.parent, **env)
    assert done.returncode == 0, done.stdout
    return [(warning["path"], warning["line"]) for warning in json.loads(done.stdout)["warnings"]]


WITH_AGENT = GOOD.replace("  config:\n", "  agent_name: reviewer\n  config:\n", 1)
DEFINITION = "---\nname: reviewer\n---\nYou review.\n"


@pytest.mark.parametrize("place", ["shop", ".", "home", "given"])
def test_the_definition_of_a_custom_agent_is_searched_where_a_run_finds_it(case: Path, place: str) -> None:
    given = "  files: ./given\n" if place == "given" else ""
    case.write_text(WITH_AGENT.replace("  agent_name", f"{given}  agent_name"))
    definition = case.parent / place / ".claude" / "agents" / "reviewer.md"
    (case.parent / "given" / "docs").mkdir(parents=True)
    (case.parent / "given" / "docs" / "a.md").touch()
    assert warnings_of(case, HOME=str(case.parent / "home")) == [("agent.agent_name", 7 if given else 6)]
    definition.parent.mkdir(parents=True)
    definition.write_text(DEFINITION)
    if place == "shop":
        assert len(warnings_of(case)) == 1, "it is not committed"
        git(case.parent / "shop", "add", ".")
        git(case.parent / "shop", "commit", "--quiet", "--message=agent")
    assert warnings_of(case, HOME=str(case.parent / "home")) == []


def test_remote_repositories_are_not_checked(case: Path) -> None:
    case.write_text(WITH_AGENT.replace("./shop", "https://git.example.invalid/shop.git"))
    assert warnings_of(case) == []


def test_a_repository_without_the_branch_is_a_warning(case: Path) -> None:
    case.write_text(GOOD.replace("repo: ./shop\n", "repo: ./shop\nbranch: no-such-branch\n"))
    assert warnings_of(case) == [("repo", 3)]


def test_tools_of_the_original_are_a_warning(case: Path) -> None:
    """SC-009: they are in its test cases for Copilot, and only `agent.type` need be changed."""
    case.write_text(GOOD.replace("  config:\n", "  config:\n    tools: [read, write]\n", 1))
    assert warnings_of(case) == [("agent.config.tools", 7)]


def test_a_valid_file(case: Path) -> None:
    done = yb("validate", "-c", str(case), "-v", cwd=case.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "valid: Fix the tax (git-diff)\n", "")


def test_all_problems_with_their_positions(case: Path) -> None:
    case.write_text(GOOD.replace("prompt:", "promt:").replace("git-diff", "git-dif") + "extra: 1\n")
    done = yb("validate", "-c", str(case), cwd=case.parent)
    assert done.returncode == 2
    for place in (":7:5", ":9:11", ":10:1"):
        assert f"{case}{place}" in done.stderr


COMMAND_WITH_ENV = """\
  - name: command
    config:
      command: "true"
      env:
        "1": ${NOT_SET}
        a.b: ${NOT_SET}
"""
ARENA_WITH_RUBRIC = """\
orchestrators: [{name: claude-code}]
tasks:
  - repo: ./shop
    tag: main
    test_cmd: "true"
    rubric:
      criteria:
        v1.2:
          treshold: 1
          description: x
"""


LOOP_WITH_DOTS = """\
agent: custom
cli: {custom_command: sh}
prompt: Fix it.
hats:
  v1.2: {trigers: [x]}
backpressure:
  gates:
    - name: command
      config:
        command: "true"
        metrics: {"x.1": {patern: a}}
"""


def test_positions_at_keys_with_dots_and_digits(case: Path) -> None:
    """In a test case, an arena and a loop, whose problems are found in what is derived from them."""
    case.write_text(GOOD + COMMAND_WITH_ENV)
    done = yb("validate", "-c", str(case), cwd=case.parent)
    for place in (":14:14", ":15:14"):
        assert f"{case}{place}" in done.stderr
    arena = case.with_name("thunderdome.yaml")
    arena.write_text(ARENA_WITH_RUBRIC)
    done = yb("validate", "-c", str(arena), cwd=case.parent)
    assert f"{arena}:9:11" in done.stderr
    loop = case.with_name("ralph.yml")
    loop.write_text(LOOP_WITH_DOTS)
    done = yb("validate", "-c", str(loop), cwd=case.parent)
    assert f"{loop}:5:10: hats.v1.2.trigers: unknown key" in done.stderr
    loop.write_text(LOOP_WITH_DOTS.replace("trigers", "triggers"))
    done = yb("validate", "-c", str(loop), cwd=case.parent)
    assert f"{loop}:11:27: backpressure.gates.0.config.metrics.x.1.patern: unknown key" in done.stderr


def test_warnings_do_not_make_it_invalid(case: Path) -> None:
    case.write_text(GOOD + "  - name: git-diff\n")
    done = yb("validate", "-c", str(case), cwd=case.parent)
    assert done.returncode == 0
    assert done.stderr.count("git-diff is listed 2 times") == 2


@pytest.mark.parametrize("command", ["validate", "run", "eval"])
def test_expected_diff_needs_a_reference(case: Path, command: str) -> None:
    if command == "eval":
        case.write_text("name: x\ndirectory: ./shop\nevaluators:\n  - name: expected-diff:all\n")
    else:
        case.write_text(GOOD + "  - name: expected-diff\n")
    done = yb(command, "-c", str(case), cwd=case.parent)
    assert done.returncode == 2
    needed = "expected_directory" if command == "eval" else "expected"
    assert f"has nothing to compare with (add `{needed}`)" in done.stderr
    assert not list(case.parent.glob(".youbencha-*"))


JUDGE = "  - {name: agentic-judge, config: {type: claude-code, agent_name: mine, assertions: {a: b}}}\n"
WITH_JUDGE = GOOD + JUDGE


@pytest.mark.parametrize(
    ("case_text", "file", "text", "words"),
    [
        ("", "x", "", "is empty"),
        ("# nothing\n", "x", "", "is empty"),
        ("[]", "x", "", "must be a mapping, not a list"),
        (GOOD.partition("evaluators:")[0] + "evaluators: []\n", "x", "", "must have at least 1, has 0"),
        (GOOD + "  - file: part.yaml\n", "part.yaml", "", "part.yaml: is empty"),
        (GOOD + "  - file: part.yaml\n", "part.yaml", "name:\n", "name: must be text, not empty"),
        (GOOD.replace("prompt:", "prompt_file: p.md #"), "p.md", "", "p.md is empty"),
        (GOOD.replace("prompt:", "prompt_file: p.md #"), "p.md", " \n", "only white space"),
        (WITH_JUDGE.replace("agent_name: mine", "prompt_file: p.md"), "p.md", "", "p.md is empty"),
        (WITH_JUDGE.replace("a: b", ""), "x", "", "must have at least 1, has 0"),
        (WITH_JUDGE, ".claude/agents/mine.md", "", "the definition of mine has no instructions"),
        (
            WITH_JUDGE,
            ".claude/agents/mine.md",
            "---\nname: mine\n---\n\n",
            "the definition of mine has no instructions",
        ),
        (GOOD, ".youbencharc", "[]", "must be a mapping, not a list"),
    ],
)
def test_an_empty_definition_is_an_error_that_says_so(
    case: Path, case_text: str, file: str, text: str, words: str
) -> None:
    case.write_text(case_text)
    (case.parent / file).parent.mkdir(parents=True, exist_ok=True)
    (case.parent / file).write_text(text)
    done = yb("validate", "-c", str(case), cwd=case.parent)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_missing_repository_is_only_a_warning(case: Path) -> None:
    (case.parent / "shop").rename(case.parent / "elsewhere")
    done = yb("validate", "-c", str(case), cwd=case.parent)
    assert done.returncode == 0
    assert f"{case}:3:7: repo: the directory {case.parent / 'shop'} does not exist" in done.stderr
    case.write_text(GOOD.replace("./shop", "https://example.org/shop.git"))
    assert yb("validate", "-c", str(case), cwd=case.parent).stderr == ""


def test_a_short_prompt_is_reported_only_with_verbose(case: Path) -> None:
    case.write_text(GOOD.replace("Fix the tax of the shop and run its tests.", "Fix ${it}."))
    assert yb("validate", "-c", str(case), cwd=case.parent).stderr == ""
    thorough = yb("validate", "-c", str(case), "-v", cwd=case.parent)
    assert thorough.returncode == 0
    assert "very short" in thorough.stderr
    assert "${it} is not defined" in thorough.stderr


def test_a_variable_of_the_agents_environment_comes_from_the_environment(case: Path) -> None:
    case.write_text(GOOD.replace("agent:\n", "agent:\n  env: {A: '${NOT_SET_ANYWHERE}'}\n"))
    done = yb("validate", "-c", str(case), "-v", cwd=case.parent)
    assert done.returncode == 0
    assert "agent.env.A: ${NOT_SET_ANYWHERE} is not defined here; a run takes it from the environment" in done.stderr
    assert "export NOT_SET_ANYWHERE" in done.stderr


def test_variables_of_the_settings_are_substituted(case: Path) -> None:
    case.write_text(GOOD.replace("./shop", "${WHERE}/shop"))
    assert yb("validate", "-c", str(case), cwd=case.parent).returncode == 2
    assert yb("validate", "-c", str(case), "--var", "WHERE=.", cwd=case.parent).returncode == 0
    (case.parent / ".youbencharc").write_text("variables: {WHERE: .}\n")
    assert yb("validate", "-c", str(case), cwd=case.parent).returncode == 0


def test_json_output(case: Path) -> None:
    assert json.loads(yb("validate", "-c", str(case), "--json").stdout) == {
        "valid": True,
        "problems": [],
        "warnings": [],
    }
    case.write_text(GOOD + "extra: 1\n")
    done = yb("validate", "-c", str(case), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["valid"]) == (2, False)
    assert [(problem["line"], problem["path"]) for problem in report["problems"]] == [(10, "extra")]


def test_an_eval_configuration_too(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "eval.yaml").write_text("directory: out\nevaluators: [git-diff]\n")
    done = yb("validate", "-c", str(tmp_path / "eval.yaml"), cwd=tmp_path)
    assert done.returncode == 0
    assert "valid: eval (git-diff)" in done.stdout


def test_environment_variables_need_not_be_set_to_validate(case: Path) -> None:
    case.write_text(
        GOOD.replace("  type: claude-code", "  type: claude-code\n  env: {ANTHROPIC_API_KEY: '${NOT_SET}'}")
    )
    assert yb("validate", "-c", str(case), cwd=case.parent).returncode == 0


def test_a_variable_may_be_a_number(case: Path) -> None:
    case.write_text(GOOD + "    config: {max_files_changed: '${N}'}\n")
    assert "whole number" in yb("validate", "-c", str(case), "--var", "N=3", cwd=case.parent).stderr
    assert yb("validate", "-c", str(case), "--var", "N:=3", cwd=case.parent).returncode == 0
    wrong = yb("validate", "-c", str(case), "--var", "N:=[1]", cwd=case.parent)
    assert (wrong.returncode, "N=TEXT" in wrong.stderr) == (2, True)
