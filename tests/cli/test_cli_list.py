"""`yb list`: what a test case can name."""

from __future__ import annotations

import json
import re

from yb import yb
from youbencha.adapters import adapter_descriptions, adapter_names
from youbencha.evaluators import all_evaluators
from youbencha.spec import parse_yaml_model
from youbencha.spec.testcase import TestCase


def test_every_evaluator_and_agent_is_listed() -> None:
    done = yb("list")
    assert (done.returncode, done.stderr) == (0, "")
    for evaluator in all_evaluators():
        assert f"  {evaluator.name}" in done.stdout
        assert evaluator.description in done.stdout
    for agent in adapter_names():
        assert re.search(rf"^  {agent}(  .+)?$", done.stdout, re.MULTILINE)


def test_built_in_agents_have_descriptions() -> None:
    assert all(adapter_descriptions().values())
    assert "\n  claude-code    Claude Code, by Anthropic.\n" in yb("list").stdout


def test_built_in_names_are_listed() -> None:
    listed = json.loads(yb("list", "--json").stdout)
    names = {evaluator["name"] for evaluator in listed["evaluators"]}
    assert {"git-diff", "expected-diff", "command", "agentic-judge"} <= names
    assert {"claude-code", "copilot-cli", "codex", "gemini-cli", "opencode", "command"} <= set(listed["agents"])
    assert all(evaluator["description"] for evaluator in listed["evaluators"])


def test_the_snippet_is_valid() -> None:
    text = yb("list").stdout
    snippet = text[text.index("  agent:\n") : text.index("\nSeveral judges")]
    case = parse_yaml_model(f"  repo: .\n{snippet}", TestCase, code="X", what="The snippet")
    assert case.agent.type == "claude-code"
