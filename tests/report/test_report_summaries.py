"""The short forms: the last lines on a terminal, and what GitHub shows."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import sample

from youbencha.report.html import render_html
from youbencha.report.junit import render_junit
from youbencha.report.summary import (
    github_annotations,
    render_step_summary,
    render_terminal,
    terminal_text,
    write_step_summary,
)
from youbencha.store.bundle import ResultsBundle

ON_GITHUB = {"GITHUB_ACTIONS": "true"}


def test_the_last_lines() -> None:
    lines = render_terminal(sample.bundle(), Path("runs") / "1")
    judged = (
        "✗ no_unrelated_changes: expected 0.8, got 0.4: The image in docs/ has nothing to do with the task — größer"
    )
    assert [value for label, value in lines if not label] == [
        "✗ threshold: expected 0.8, got 0.784",
        f"{judged} als nötig, 不必要。",
        "→ Install pytest, or give its full path in `command`.",
    ]
    assert dict(lines) == {
        "Verdict": "failed",
        "Outcome": "unsolved: 2 of 4 evaluators did not pass",
        "Agent": "claude-code 2.1.120, as careful-coder",
        "Agent status": "success (exit code 0)",
        "Model": "claude-sonnet-4-5-20250929",
        "Agent time": "2 min 40 s",
        "Tokens": "12,345 in · 6,789 out · 1,204,000 cache read · 45,100 cache write",
        "Cost": "$0.4321 (metered by the gateway)",
        "Turns": "14",
        "Tools": "23 calls: Bash 9, Read 7, Edit 6, Write 1",
        "Duration": "3 min 07 s",
        "Judging cost": "$0.1387",
        "git-diff": "passed: 3 files changed, 42 lines added, 7 removed",
        "expected-diff": "failed: Similarity 78.4%, below the threshold of 80%",
        "agentic-judge-quality": "failed: 1 of 3 assertions below its threshold",
        "command": "skipped: Could not start: pytest: pytest is not on PATH.",
        "": "→ Install pytest, or give its full path in `command`.",
        "Warning": "2 tool calls were denied: WebFetch, WebSearch",
        "Hook": "webhook failed: No answer after 3 attempts",
        "Results": str(Path("runs") / "1"),
    }


def test_hint_for_a_failed_agent() -> None:
    failed = {
        "message": "No valid API key.",
        "timestamp": sample.LATER,
        "code": "CLAUDE_AUTH_FAILED",
        "hint": "Log in.",
    }
    agent = {**sample.document()["agent"], "status": "failed", "errors": [failed], "warnings": []}
    lines = render_terminal(sample.bundle(agent=agent, evaluators=[]))
    assert [label for label, _ in lines][:4] == ["Verdict", "Outcome", "", "Agent"]
    assert lines[2] == ("", "→ Log in.")
    named = {**failed, "message": sample.document()["outcome"]["reason"], "hint": "Wait."}
    both = {**agent, "errors": [failed, named]}
    assert render_terminal(sample.bundle(agent=both, evaluators=[]))[2] == ("", "→ Wait.")
    unanswered = {**failed, "hint": "Use another key.", "context": {"unanswered": True}}
    late = {**both, "errors": [failed, unanswered]}
    assert render_terminal(sample.bundle(agent=late, evaluators=[]))[2] == ("", "→ Use another key.")
    done = render_terminal(sample.bundle(agent={**agent, "status": "success"}, evaluators=[]))
    assert ("", "→ Log in.") not in done


def test_only_the_first_of_many_warnings() -> None:
    one = {"message": "denied", "timestamp": sample.LATER, "code": "CLAUDE_TOOL_DENIED"}
    agent = {**sample.document()["agent"], "warnings": [one] * 8}
    shown = [value for label, value in render_terminal(sample.bundle(agent=agent)) if label == "Warning"]
    assert shown == [*["denied"] * 5, "and 3 more: see the report"]


def test_unknown_values_are_listed_in_one_line() -> None:
    lines = dict(render_terminal(sample.bundle(agent={"type": "command", "status": "success"}, evaluators=[])))
    assert lines["Not known"] == "model, agent time, tokens, cost, turns, tools"
    assert "unknown" not in lines.values()


def test_without_an_agent_and_without_a_path() -> None:
    lines = dict(render_terminal(sample.bundle(agent=None, outcome=None, evaluators=[])))
    assert list(lines) == ["Verdict", "Duration", "Hook", "Results"]
    assert lines["Results"] == sample.document()["execution"]["environment"]["workspace_dir"]


def test_a_path_is_never_cut() -> None:
    path = Path("x" * 1000)
    assert dict(render_terminal(sample.bundle(), path))["Results"] == str(path)


def test_no_control_sequences_reach_the_terminal_or_ci() -> None:
    lines = terminal_text(render_terminal(sample.hostile_bundle())).split("\n")
    assert len(lines) == len(render_terminal(sample.bundle()))
    for line in lines:
        assert line.isprintable(), line
        assert not line.lstrip().startswith("::")
        assert len(line) < 600 or line.startswith("Results ")


def test_values_are_aligned() -> None:
    assert terminal_text([("a", "1"), ("long", "2")]) == "a     1\nlong  2"
    assert terminal_text([]) == ""


def test_a_step_summary_is_appended(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Before\n")
    env = {"GITHUB_STEP_SUMMARY": str(file)}
    assert write_step_summary(render_step_summary(sample.bundle()), env)
    assert write_step_summary(render_step_summary(sample.hostile_bundle()), env)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Before\n### ❌ Prices are rounded half up\n")
    assert text.count("### ❌") == 2


def test_an_unwritable_summary_is_not_a_failure(tmp_path: Path) -> None:
    assert not write_step_summary(render_step_summary(sample.bundle()), {})
    assert not write_step_summary(render_step_summary(sample.bundle()), {"GITHUB_STEP_SUMMARY": ""})
    assert not write_step_summary(render_step_summary(sample.bundle()), {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert not write_step_summary(
        render_step_summary(sample.bundle()), {"GITHUB_STEP_SUMMARY": str(tmp_path / "gone" / "x")}
    )


def test_a_summary_that_github_would_drop_is_not_written(tmp_path: Path) -> None:
    many = [sample.git_diff() | {"evaluator": f"e{at}", "message": "x" * 300} for at in range(5000)]
    file = tmp_path / "summary.md"
    assert not write_step_summary(
        render_step_summary(sample.bundle(evaluators=many)), {"GITHUB_STEP_SUMMARY": str(file)}
    )
    assert not file.exists()


def test_contents_of_the_step_summary() -> None:
    text = render_step_summary(sample.bundle())
    assert "| ❌ | expected-diff | Similarity 78.4%, below the threshold of 80% | 184 ms |" in text
    assert "| **Cost** | $0.4321 (metered by the gateway) |" in text


OUTPUT = (
    "".join(f"line {at}\n" for at in range(300))
    + "  10%\r  99%\r  indented\n\n::error::gotcha\n\x1b[31mE\x1b[0m 300 != 400\n"
)
COMMAND = sample.git_diff() | {"evaluator": "command", "status": "failed", "message": "its exit code is 1, not 0"}
EXIT_CODE = {"name": "exit_code", "passed": False, "expected": 0, "actual": 1, "message": "its exit code is 1, not 0"}
WHY: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a command's output": (
        COMMAND | {"metrics": {"output_tail": OUTPUT}, "assertions": [EXIT_CODE]},
        ["line 299", "  indented", "::error::gotcha", "E 300 != 400"],
    ),
    "output of one line": (COMMAND | {"metrics": {"output_tail": "no such table"}}, ["no such table"]),
    "a judge's reason": (sample.judge(), ["no_unrelated_changes", "The image in docs/ has nothing"]),
    "a check that could not be made": (
        sample.broken() | {"metrics": {"output_tail": "No module named pytest"}},
        ["No module named pytest"],
    ),
}
PLACES: dict[str, Callable[[ResultsBundle], str]] = {
    "terminal": lambda bundle: terminal_text(render_terminal(bundle)),
    "junit": render_junit,
    "summary": render_step_summary,
    "annotations": lambda bundle: unquote("\n".join(github_annotations(bundle, ON_GITHUB))),
    "markdown": sample.markdown,
    "html": lambda bundle: html.unescape(render_html(bundle)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reason", WHY)
def test_why_a_check_failed_stands_where_people_look(reason: str, place: str) -> None:
    result, lines = WHY[reason]
    text = PLACES[place](sample.bundle(evaluators=[result]))
    for line in lines:
        assert line in text.replace("\\_", "_"), line


@pytest.mark.parametrize("place", ["terminal", "summary", "annotations"])
def test_only_the_last_lines_where_there_is_little_room(place: str) -> None:
    result, _ = WHY["a command's output"]
    text = PLACES[place](sample.bundle(evaluators=[result]))
    assert "line 200" not in text
    assert "10%" not in text
    assert "exit_code: expected" not in text  # the message says so


def test_a_passed_check_needs_no_reason() -> None:
    passed = COMMAND | {"status": "passed", "metrics": {"output_tail": "all\nfine\n"}}
    for place in ("terminal", "junit", "summary"):
        assert "fine" not in PLACES[place](sample.bundle(evaluators=[passed])), place


def test_the_output_of_a_failed_hook() -> None:
    failed = sample.document()["hooks"]["pre_execution"][0] | {
        "status": "failed",
        "metadata": {"output_tail": "No net\n"},
    }
    lines = render_terminal(sample.bundle(evaluators=[], hooks={"pre_execution": [failed]}))
    assert lines[-3:-1] == [("Hook", "script failed: make deps"), ("  │ No net", "")]


def test_annotations_only_in_github_actions() -> None:
    assert github_annotations(sample.bundle(), {}) == []
    assert github_annotations(sample.bundle(), {"GITHUB_ACTIONS": "false"}) == []


def test_one_annotation_for_each_evaluator_that_did_not_pass() -> None:
    name = "Prices are rounded half up%3A"
    assert github_annotations(sample.bundle(), ON_GITHUB) == [
        f"::error title={name} expected-diff::Similarity 78.4%25, below the threshold of 80%25"
        "%0Athreshold: expected 0.8, got 0.784",
        f"::error title={name} agentic-judge-quality::1 of 3 assertions below its threshold"
        "%0Ano_unrelated_changes: expected 0.8, got 0.4: The image in docs/ has nothing to do with the task"
        " — größer als nötig, 不必要。",
        f"::warning title={name} command::pytest is not on PATH.",
    ]


@pytest.mark.parametrize("status", ["failed", "timeout"])
def test_an_agent_that_failed(status: str) -> None:
    agent = sample.document()["agent"] | {"status": status}
    first = github_annotations(sample.bundle(agent=agent), ON_GITHUB)[0]
    assert first.endswith(f" agent::The agent ended with {status}.")


def test_an_annotation_is_one_command_on_one_line() -> None:
    for line in github_annotations(sample.hostile_bundle(), ON_GITHUB):
        assert "\n" not in line
        assert "\r" not in line
        title, _, message = line.split(" title=", 1)[1].partition("::")
        assert ":" not in title
        assert "," not in title
        assert message


def test_annotations_are_limited_to_ten() -> None:
    many = [sample.expected_diff()] * 30
    assert len(github_annotations(sample.bundle(evaluators=many), ON_GITHUB)) == 10


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ({"cap_usd": 0.02, "spent_usd": 0.02}, "$0.0200, kept"),
        ({"cap_usd": 0.02, "spent_usd": 0.0256, "exceeded": True}, "$0.0200, overrun by the last call"),
        ({"cap_tokens": 500, "spent_tokens": 501, "exceeded": True}, "500 tokens, overrun by the last call"),
        ({"cap_usd": 0.02, "spent_usd": 0.0256, "exceeded": True, "reason": "spent"}, "$0.0200, EXCEEDED"),
    ],
)
def test_a_budget_is_not_called_kept_if_more_was_spent(budget: dict[str, Any], text: str) -> None:
    gateway = {"type": "builtin", "ledger": "gateway-ledger.jsonl", "budget": budget}
    agent = {**sample.document()["agent"], "gateway": gateway}
    assert dict(render_terminal(sample.bundle(agent=agent)))["Budget"] == text
