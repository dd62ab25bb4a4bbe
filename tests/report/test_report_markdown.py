"""report.md shows the bundle. Parsed as GitHub does."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sample
from markdown_it import MarkdownIt
from markdown_it.token import Token

from youbencha.report.document import Code, Column, NoteList, Paragraph, Preformatted, Span, Table
from youbencha.report.markdown import render_markdown
from youbencha.text import one_line

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OURS = {"<details>", "</details>", "<summary>", "</summary>", "<code>", "</code>"}
SECTIONS = ["Summary", "Outcome", "Test Case", "Execution", "Agent", "Evaluators", "Hooks", "Artifacts"]


def tokens(text: str) -> list[Token]:
    return [inner for token in READER.parse(text) for inner in (token, *(token.children or ()))]


def sections(text: str) -> list[str]:
    parsed = READER.parse(text)
    return [
        parsed[at + 1].content for at, token in enumerate(parsed) if token.type == "heading_open" and token.tag == "h2"
    ]


def shown(text: str) -> str:
    """What a reader sees, without the zero-width gaps."""
    return "".join(token.content for token in tokens(text) if token.type in ("text", "code_inline")).replace(
        "\u200b", ""
    )


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a line."""
    lines = text.split(heading, 1)[1].lstrip("\n").split("\n\n")
    body = next(part for part in lines if part.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()[2:]]


def test_sections_of_the_report() -> None:
    assert sections(sample.markdown(sample.bundle())) == SECTIONS


def test_a_bundle_of_eval_has_no_agent_and_no_outcome() -> None:
    text = sample.markdown(sample.bundle(agent=None, outcome=None, hooks={}))
    assert sections(text) == [name for name in SECTIONS if name not in ("Outcome", "Hooks")]
    assert "No agent ran" in text


def test_an_empty_bundle() -> None:
    nothing = {"total_evaluators": 0, "passed": 0, "failed": 0, "skipped": 0, "overall_status": "failed"}
    text = sample.markdown(sample.bundle(evaluators=[], summary=nothing, artifacts={}))
    assert "None ran." in text


@pytest.mark.parametrize(
    "fact",
    [
        "| **Verdict** | ❌ failed |",
        "| **Tokens** | 12,345 in · 6,789 out · 1,204,000 cache read · 45,100 cache write |",
        "| **Cost** | $0.4321 (metered by the gateway) |",
        "| **Turns** | 14 |",
        "| **Tools** | 23 calls: Bash 9, Read 7, Edit 6, Write 1 |",
        "| **Model** | `claude-sonnet-4-5-20250929` |",
        "| **Judging cost** | $0.1387 |",
        "| ❌ | no\\_unrelated\\_changes | 0.4 | 0.8 | The image in docs/",
        "| Current commit | unknown |",
        '| Judges | {"model": "claude-sonnet-4-5", "agreement": \\[1, 0.66\\]} |',
        "| `docs/größe-价格.png` | added | binary | binary | 0 |",
        "**Error** `COMMAND_NOT_FOUND`: pytest is not on PATH.",
        "| ❌ | webhook | after | No answer after 3 attempts (503 Service Unavailable) | 1.0 s |",
        "| Changes | `git-diff.patch` |",
    ],
)
def test_contents(fact: str) -> None:
    assert fact in sample.markdown(sample.bundle())


def test_unknown_is_never_zero() -> None:
    text = sample.markdown(sample.bundle(agent={"type": "command"}))
    for name in ("Model", "Tokens", "Cost", "Turns", "Tools", "Agent time"):
        assert re.search(rf"\| \*\*{name}\*\* \| `?unknown`? \|", text), name
    assert "not completed" in text


def test_a_part_of_the_usage_is_unknown() -> None:
    agent = sample.document()["agent"] | {"usage": {"output_tokens": 0, "cost_usd": 0.0, "partial": True}}
    text = sample.markdown(sample.bundle(agent=agent))
    assert "at least unknown in · 0 out" in text
    assert "at least $0.00 (source unknown)" in text


def test_limitations_are_shown_beside_the_verdict() -> None:
    execution = sample.document()["execution"] | {"interrupted": True, "complete": False}
    outcome = {"name": "provider_error", "valid": False, "reason": "529", "retry": True}
    text = sample.markdown(sample.bundle(execution=execution, outcome=outcome))
    assert "❌ failed, interrupted, not complete, not valid |" in text
    assert "no: exclude it from scores" in text
    assert "may end differently" in text


def test_the_twenty_least_similar_files() -> None:
    listed = rows(sample.markdown(sample.bundle()), "**Least similar files**")
    assert [row[0] for row in listed] == [f"`src/file_{at:02d}.py`" for at in range(29, 9, -1)]
    assert listed[0][1] == "71%"
    assert "… and 9 more" in sample.markdown(sample.bundle())


def with_metrics(**metrics: Any) -> str:
    return sample.markdown(sample.bundle(evaluators=[sample.git_diff() | {"metrics": metrics}]))


def test_fifty_changed_files() -> None:
    text = with_metrics(changed_files=sample.changed_files(63))
    assert len(rows(text, "**Changed files**")) == 50
    assert "… and 13 more" in text


def test_omitted_files_count_too() -> None:
    text = with_metrics(changed_files=sample.changed_files(63), changed_files_omitted=1000)
    assert "… and 1,013 more" in text
    assert "omitted" not in text


def test_program_output_is_in_a_code_block() -> None:
    text = with_metrics(output_tail="3 passed\n````\n1 failed", exit_code=1, signal=None, duration_ms=2500)
    assert "**Output tail**\n\n`````text\n3 passed\n````\n1 failed\n`````" in text
    assert "| Duration | 2.5 s |" in text
    assert "ignal" not in text


def test_scores_and_reasons_are_shown_once() -> None:
    judged = sample.judge()
    judged["metrics"] = {each["name"]: each["actual"] for each in judged["assertions"]} | {"overall_score": 0.7}
    judged["metrics"]["reasons"] = {each["name"]: each["message"] for each in judged["assertions"]}
    text = sample.markdown(sample.bundle(evaluators=[judged]))
    assert text.count("A new test file covers") == 1
    assert "| Overall score | 0.7 |" in text
    assert "| Tests added |" not in text


def test_rendering_is_deterministic() -> None:
    assert sample.markdown(sample.hostile_bundle()) == sample.markdown(sample.hostile_bundle())


def table(cell: Span) -> Table:
    return Table((Column("a"), Column("b")), [(cell, "x")])


@pytest.mark.parametrize("text", sample.HOSTILE)
def test_escaped_text_renders_as_the_text_itself(text: str) -> None:
    for block in (Paragraph(text), NoteList([text]), Paragraph(Code(text))):
        assert shown(render_markdown([block])) == one_line(text)
    for cell in (text, Code(text)):
        written = render_markdown([table(cell)])
        cells = [token.content for token in READER.parse(written) if token.type == "inline"]
        assert len(cells) == 4
        assert shown(written) == "ab" + one_line(text) + "x"


@pytest.mark.parametrize(
    "start", ["# a", "- a", "+ a", "1. a", "1) a", "> a", "=== a", "::: a", "    a", "```", "| a |"]
)
def test_a_paragraph_is_only_a_paragraph(start: str) -> None:
    written = render_markdown([Paragraph("before"), Paragraph(start)])
    assert [token.type for token in READER.parse(written) if token.type.endswith("_open")] == ["paragraph_open"] * 2
    assert shown(written) == "before" + start.strip()


@pytest.mark.parametrize("text", ["```", "a\n```\nb", "`````x", "~~~", ""])
def test_a_code_block_contains_exactly_its_text(text: str) -> None:
    parsed = READER.parse(render_markdown([Preformatted(text), Paragraph("after")]))
    assert [token.type for token in parsed][:2] == ["fence", "paragraph_open"]
    assert parsed[0].content.rstrip("\n") == text


def test_dollar_signs_are_not_a_formula() -> None:
    assert render_markdown([Paragraph("$1")]) == "$1\n"
    assert "$" not in render_markdown([Paragraph(("$x", " and ", "y$"))])


def test_an_unknown_model_is_not_shown_as_code() -> None:
    text = sample.markdown(sample.bundle(agent={"type": "command"}))
    assert "| **Model** | unknown |" in text
