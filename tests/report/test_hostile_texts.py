"""No text of an agent changes the structure of a report: each renderer, with each hostile text.

A report with hostile texts is compared with one in which every character of these texts is harmless.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import comparison_sample
import pytest
import sample
from markdown_it import MarkdownIt

from arena_trees import small_results
from youbencha.loop.summary import render_summary
from youbencha.report.comparison_formats import ComparisonFormat, render_comparison, render_comparison_junit
from youbencha.report.comparison_model import ComparisonReport
from youbencha.report.html import Attachments, render_html
from youbencha.report.junit import render_junit
from youbencha.report.leaderboard import Leaderboard, make_leaderboard
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
from youbencha.report.summary import github_annotations, render_step_summary, render_terminal, terminal_text
from youbencha.store.loops import GateRecord, IterationRecord, LoopState
from youbencha.store.read import load_runs

BASE = Path("results")
WHEN = "2026-03-01T09:30:00.000Z"
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Structure(HTMLParser):
    """The tags of a page, with the names of their attributes and where their links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        links = [(value or "")[:2] for name, value in attrs if name in ("href", "src", "action")]
        if tag != "code":  # text between backticks is shown as code
            self.tags.append((tag, *(name for name, _ in attrs), *links))


def structure_of_terminal(text: str) -> object:
    assert all(line.isprintable() for line in text.split("\n"))
    assert not re.search(r"^\s*::", text, re.MULTILINE), "a command for GitHub Actions"
    return text.count("\n")


def structure_of_annotations(text: str) -> object:
    return [
        re.sub(r" title=[^:,]*::", " title=::", line).partition("::")[2].partition("::")[0] for line in text.split("\n")
    ]


def structure_of_markdown(text: str) -> object:
    tokens = MARKDOWN.parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    outside_of_code = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
    cells = [line.count("|") for line in outside_of_code.split("\n") if line.startswith("| ")]
    html = [
        child.content for child in inline if child.type == "html_inline" and child.content not in ("<code>", "</code>")
    ]
    links = [str(child.attrs["href"])[:2] for child in inline if child.type == "link_open"]
    marks = [child.type for child in inline if child.type in ("image", "em_open", "s_open", "hardbreak")]
    assert not re.search(r"@everyone|#1\b", re.sub(r"`[^`]*`", "", outside_of_code)), "a mention"
    return [token.type for token in tokens], cells, html, links, marks


def structure_of_html(text: str) -> object:
    return Structure(text).tags


def structure_of_xml(text: str) -> object:
    return [(element.tag, *element.attrib) for element in ElementTree.fromstring(text.encode()).iter()]


def structure_of_csv(text: str) -> object:
    rows = list(csv.reader(io.StringIO(text)))
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@", "\t"))], "a formula"
    return [len(row) for row in rows]


def structure_of_json(text: str) -> object:
    def shape(value: Any) -> object:
        if isinstance(value, dict):
            return [shape(inner) for inner in value.values()]
        return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__

    return shape(json.loads(text))


class Renderer(NamedTuple):
    render: Callable[[str], str]
    """Renders a report that has this text wherever a text may come from an agent or a repository."""
    structure: Callable[[str], object]


def leaderboard(text: str) -> Leaderboard:
    """Return a leaderboard whose names, reasons and evidence contain the text."""
    results = load_runs([BASE if BASE.exists() else small_results(BASE)])
    trials = [
        trial._replace(meta=trial.meta.model_validate(poison(trial.meta.model_dump(), text)))
        for trial in results.trials
    ]
    return make_leaderboard(replace(results, trials=tuple(trials)), [f"task={without_surrogates(text)}"])


def poison(record: Any, text: str, key: str = "") -> Any:
    if isinstance(record, dict):
        return {name: poison(value, text, name) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [poison(value, text, key) for value in record]
    free = ("orchestrator", "task", "reason", "evidence", "category", "exit_reason")
    return f"{record} {without_surrogates(text)}" if isinstance(record, str) and key in free else record


def without_surrogates(text: str) -> str:
    """Remove half characters, which no file of results can hold."""
    return text.replace("\ud800", "")


def comparison(text: str) -> ComparisonReport:
    text = without_surrogates(text)
    warned = comparison_sample.pair(first=f"a {text}", warnings=(text,), only_first=(text,), unchanged=text)
    return comparison_sample.report(
        warned, comparison_sample.one_trial(), notes=(text,), runs=(text,), more_trials_command=text
    )


def loop_summary(text: str) -> str:
    record = IterationRecord(
        iteration=1,
        outcome="failed",
        reason=text,
        hat=text,
        backend=text,
        model=text,
        started_at=WHEN,
        duration_ms=1,
        refusal=text,
        gates=(GateRecord(name=text, status="failed", message=text),),
    )
    state = LoopState(loop_id="loop", config_file=None, started_at=WHEN, objective=text, reason=f"because {text}")
    return render_summary(state, [record, record.model_copy(update={"iteration": 2, "backend": "other"})])


def page(text: str) -> str:
    patch = sample.PATCH + f"diff --git a/x b/x\n@@ -0,0 +1 @@\n+{text.splitlines()[0]}\n"
    return render_html(
        sample.hostile_bundle(text), Attachments(diff=patch, diff_file="git-diff.patch", log=sample.log(text=text))
    )


ON_GITHUB = {"GITHUB_ACTIONS": "true"}
RENDERERS = {
    "run, terminal": Renderer(
        lambda text: terminal_text(render_terminal(sample.hostile_bundle(text))), structure_of_terminal
    ),
    "run, markdown": Renderer(lambda text: sample.markdown(sample.hostile_bundle(text)), structure_of_markdown),
    "run, step summary": Renderer(lambda text: render_step_summary(sample.hostile_bundle(text)), structure_of_markdown),
    "run, annotations": Renderer(
        lambda text: "\n".join(github_annotations(sample.hostile_bundle(text), ON_GITHUB)), structure_of_annotations
    ),
    "run, html": Renderer(page, structure_of_html),
    "run, junit": Renderer(lambda text: render_junit(sample.hostile_bundle(text)), structure_of_xml),
    "comparison, junit": Renderer(lambda text: render_comparison_junit(comparison(text), None), structure_of_xml),
    "loop, markdown": Renderer(loop_summary, structure_of_markdown),
}
STRUCTURES: dict[str, Callable[[str], object]] = {
    "table": structure_of_terminal,
    "markdown": structure_of_markdown,
    "html": structure_of_html,
    "csv": structure_of_csv,
    "json": structure_of_json,
    "junit": structure_of_xml,
}


def render_board(text: str, form: ArenaFormat, by: Grouping) -> str:
    return render_leaderboard(leaderboard(text), form, by, width=10_000, base=BASE)


for arena_form in ArenaFormat:
    for grouping in Grouping:
        RENDERERS[f"leaderboard by {grouping}, {arena_form}"] = Renderer(
            lambda text, form=arena_form, by=grouping: render_board(text, form, by), STRUCTURES[arena_form]
        )
for comparison_form in ComparisonFormat:
    RENDERERS[f"comparison, {comparison_form}"] = Renderer(
        lambda text, form=comparison_form: render_comparison(comparison(text), form, width=10_000, base=BASE),
        STRUCTURES[comparison_form],
    )


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", sample.HOSTILE)
@pytest.mark.parametrize("name", RENDERERS)
def test_a_hostile_text_changes_no_structure(name: str, text: str) -> None:
    renderer = RENDERERS[name]
    rendered = renderer.render(text)
    rendered.encode()
    if not name.endswith("json"):
        assert not set(rendered) & {"\x1b", "\u202e", "\r", "\x00"}
    harmless = re.sub(r"[^\n]", "x", text)
    assert renderer.structure(rendered) == renderer.structure(renderer.render(harmless))
