"""command: all problems of a configuration are reported before the agent runs."""

from __future__ import annotations

from typing import Any

import pytest
from evaluating import problems

from youbencha.evaluators.command import CommandEvaluatorConfig
from youbencha.evaluators.programs import command_environment

JUNIT = {"junit": "report.xml"}
SCORE = {"metrics": {"score": {"pattern": r"score (\d+)"}}}


@pytest.mark.parametrize(
    "config",
    [
        {"command": "pytest -q"},
        {"command": ["pytest", "-k", "a && b"], "args": ["|"]},
        {"command": "npm ci && npm test", "shell": True, "timeout": 1},
        {"command": "make", "timeout_ms": 5, "working_dir": "sub/dir", "expect_exit_code": [0, 5], "copy": False},
        {"command": "x", "name": "Unit tests", "env": {"A": "b"}, "expect_exit_code": 3},
        {"command": "x", **JUNIT, "assertions": {"min_pass_rate": 0.9, "max_failures": 0, "max_duration_ms": 5}},
        {"command": "x", **SCORE, "assertions": {"min_score": 1, "max_score": 1}},
        {"command": "x", "metrics": {"tests": {"pattern": "(?P<n>[0-9]+)", "type": "int", "group": "n"}}},
        {"command": "x", "junit": ["a/*.xml", "**/TEST-*.xml"]},
    ],
)
def test_valid_configurations(config: dict[str, Any]) -> None:
    assert problems("command", **config) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "command: is required"),
        ({"command": ""}, "command: must"),
        ({"command": "''"}, "command: must name a program"),
        ({"command": []}, "command: must name a program"),
        ({"command": [" "]}, "command: must name a program"),
        ({"command": 5}, "command: must be text or a list, not a number"),
        ({"command": "npm ci && npm test"}, "command: '&&' requires a shell (add `shell: true`"),
        ({"command": "pytest | tee log"}, "'|' requires a shell"),
        ({"command": "cd a; make"}, "'a;' requires a shell"),
        ({"command": "CI=1 npm test"}, "command: must begin with a program (variables go into `env`)"),
        ({"command": "echo 'open"}, "command: cannot be split into words: no closing quotation"),
        ({"command": ["a"], "shell": True}, "command: must be one line of text if `shell` is true"),
        ({"command": "x", "args": "y"}, "args: must be a list, not text"),
        ({"command": "x", "timeout": 0}, "timeout: must be more than 0"),
        ({"command": "x", "timout": 5}, "timout: unknown key (did you mean 'timeout'?)"),
        ({"command": "x", "env": {"A": 1}}, "env.A: must be text, not a number (put it in quotes)"),
        ({"command": "x", "env": {"A": "${NOT_SET_ANYWHERE}"}}, "env.A: refers to NOT_SET_ANYWHERE, which is not set"),
        ({"command": "x", "working_dir": "../up"}, "working_dir: must be a path below the tree"),
        ({"command": "x", "working_dir": "/tmp"}, "working_dir: must be a path below the tree"),
        ({"command": "x", "working_dir": "C:\\x"}, "working_dir: must be a path below the tree"),
        ({"command": "x", "working_dir": "a\\..\\..\\b"}, "working_dir: must be a path below the tree"),
        ({"command": "x", "expect_exit_code": "0"}, "expect_exit_code"),
        ({"command": "x", "expect_exit_code": []}, "expect_exit_code: must have at least 1"),
        ({"command": "x", "junit": "../r.xml"}, "junit: must not contain `..`"),
        ({"command": "x", "metrics": {"n": {"pattern": "("}}}, "metrics.n.pattern: is not a regular expression"),
        ({"command": "x", "metrics": {"n": {"pattern": "(a)", "group": 2}}}, "metrics.n.group: `pattern` has only 1"),
        ({"command": "x", "metrics": {"n": {"pattern": "a", "group": "g"}}}, "metrics.n.group: `pattern` has no group"),
        ({"command": "x", "metrics": {"n": {"pattern": "a", "type": "number"}}}, "metrics.n.type: must be one of"),
        (
            {"command": "x", "metrics": {"exit_code": {"pattern": "a"}}},
            "metrics.exit_code: is the name of a built-in",
        ),
        (
            {"command": "x", **JUNIT, "metrics": {"tests": {"pattern": "a"}}},
            "metrics.tests: is the name of a built-in",
        ),
        ({"command": "x", "assertions": {"min_pass_rate": 1}}, "assertions.min_pass_rate: requires `junit`"),
        (
            {"command": "x", **SCORE, "assertions": {"min_scor": 1}},
            "min_scor: is not the limit of a known metric (did",
        ),
        ({"command": "x", "assertions": {"speed": 1}}, "assertions.speed: is not the limit of a known metric (known"),
        ({"command": "x", **SCORE, "assertions": {"min_score": 2, "max_score": 1}}, "min_score: must not be more than"),
        ({"command": "x", **SCORE, "assertions": {"min_score": "1"}}, "assertions.min_score: must be a number"),
        ({"command": "x", "metrics": {"s": {"pattern": "a", "type": "string"}}, "assertions": {"min_s": 1}}, "min_s"),
    ],
)
def test_problems_are_reported_before_the_run(config: dict[str, Any], expected: str) -> None:
    found = problems("command", **config)
    assert len(found) == 1
    assert expected in found[0]


def test_all_problems_are_reported_together() -> None:
    found = problems("command", command="a | b", assertions={"min_x": 1, "max_y": 2}, env={"A": "${NOT_SET_ANYWHERE}"})
    assert len(found) == 4


def test_command_words() -> None:
    config = CommandEvaluatorConfig.model_validate({"command": "a 'b c' \"d\"", "args": ["$x y"]})
    assert config.words() == ("a", "b c", "d", "$x y")


HARNESS = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "JAVA_HOME": "/jdk",
    "HTTP_PROXY": "http://proxy:1",
    "https_proxy": "http://me:password@proxy:1",
    "ANTHROPIC_API_KEY": "sk-ant-12345678",
    "OPENAI_API_KEY": "secret",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "DATABASE_PASSWORD": "secret",
}


def test_no_secret_is_inherited_unless_given() -> None:
    given = {"DB": "user:${DATABASE_PASSWORD}@host", "HOME": "/elsewhere"}
    env = command_environment(HARNESS, given, HARNESS)
    assert env == {
        "PATH": "/bin",
        "HOME": "/elsewhere",
        "LC_ALL": "C",
        "JAVA_HOME": "/jdk",
        "HTTP_PROXY": "http://proxy:1",
        "DB": "user:secret@host",
    }
