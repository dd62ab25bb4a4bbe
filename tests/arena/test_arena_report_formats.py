"""Every format shows flags, exclusions and coverage, and no text of an agent changes its structure."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from arena_trees import meta, original, small_results, write_run
from youbencha.cli.app import arena_app, run_app
from youbencha.report.arena_selection import RULES
from youbencha.report.charts import frontier_chart
from youbencha.report.leaderboard import Leaderboard, make_leaderboard
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import CSV_COLUMNS, ArenaFormat, render_leaderboard
from youbencha.report.leaderboard_html import MAX_TRIALS
from youbencha.store.read import load_runs

HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>\"'><img src=x onerror=x>|`*_[a](b)\n::error::x\r\n=cmd()"


@pytest.fixture
def board(tmp_path: Path) -> Leaderboard:
    return make_leaderboard(load_runs([small_results(tmp_path / "results")]), ["task=unknown", "outcome=limit"])


@pytest.fixture
def hostile(tmp_path: Path) -> Leaderboard:
    flags = [{"kind": "network", "evidence": HOSTILE, "severity": "evidence"}]
    harmful = {"category": HOSTILE, "reason": HOSTILE, "exit_reason": HOSTILE, "flags": flags}
    name = '=<img src=x onerror=x>"\x1b[2J|`='
    records = [meta(name, f"task{n}", **harmful) for n in range(2)] + [meta("other", "task0"), original("o", "task1")]
    for record in records:
        record["composite_score"] = 0.5
    run = tmp_path / "run"
    write_run(run, records)
    (run / "trials" / "other" / "task0" / "trial-1" / "meta.json").write_text(HOSTILE)
    return make_leaderboard(load_runs([run]), [f"task={HOSTILE}"])


def render(board: Leaderboard, form: ArenaFormat, by: Grouping = Grouping.AGENT, base: Path = Path("/")) -> str:
    return render_leaderboard(board, form, by, width=200, base=base)


@pytest.mark.parametrize("form", ArenaFormat)
def test_every_format_has_flags_with_evidence_exclusions_and_coverage(board: Leaderboard, form: ArenaFormat) -> None:
    text = render(board, form)
    for needed in (
        "/validation/test_hidden.py",
        "hidden",
        "12 of 20 tests ran",
        "task=unknown",
        "outcome=limit",
        "claude-code",
    ):
        assert needed in text.replace("\\_", "_")


@pytest.mark.parametrize("width", [200, 100, 60])
def test_outcomes_have_names_however_narrow_the_terminal_is(board: Leaderboard, width: int) -> None:
    text = render_leaderboard(board, ArenaFormat.TABLE, width=width, base=Path("/"))
    assert text.count("1 solved, 1 unsolved, 1 infra error") == 1
    assert "OUTCOMES" in text or "aider: 1 solved, 1 unsolved, 1 infra error\n" in text


def test_the_unit_of_the_interval_is_named(board: Leaderboard) -> None:
    for form in (ArenaFormat.TABLE, ArenaFormat.MARKDOWN, ArenaFormat.HTML):
        assert "the tasks are a sample, not only the trials" in render(board, form)
    assert json.loads(render(board, ArenaFormat.JSON))["agents"][0]["score"]["unit"] == "task"
    assert next(csv.DictReader(io.StringIO(render(board, ArenaFormat.CSV))))["score_unit"] == "task"
    assert 'name="score_unit" value="task"' in render(board, ArenaFormat.JUNIT)


def test_json_keeps_texts_as_they_are(hostile: Leaderboard) -> None:
    document = json.loads(render(hostile, ArenaFormat.JSON))
    assert document["trials"][0]["flags"][0]["evidence"] == HOSTILE
    assert len(document["unreadable"]) == 1


def test_junit_counts_agree_and_invalid_trials_are_errors(board: Leaderboard, hostile: Leaderboard) -> None:
    root = ElementTree.fromstring(render(board, ArenaFormat.JUNIT))
    cases = {
        f"{suite.get('name')} {case.get('name')}": case[0].tag if len(case) else "passed"
        for suite in root
        for case in suite.iter("testcase")
    }
    assert cases == {
        "youbencha.aider clock trial 1": "passed",
        "youbencha.aider clock trial 2": "error",  # it is not finished
        "youbencha.aider parser trial 1": "failure",
        "youbencha.aider parser trial 2": "error",
        "youbencha.claude-code clock trial 1": "passed",
        "youbencha.claude-code parser trial 1": "passed",
        "youbencha.claude-code parser trial 2": "failure",
    }
    for suite in root:
        tags = [case[0].tag for case in suite.iter("testcase") if len(case)]
        assert (suite.get("failures"), suite.get("errors")) == (str(tags.count("failure")), str(tags.count("error")))
    other = ElementTree.fromstring(render(hostile, ArenaFormat.JUNIT))
    assert [case[0].tag for case in other.iter("testcase") if len(case)] == ["skipped"]  # the original's outcome


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_links_lead_to_the_files_of_a_trial(board: Leaderboard, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    page = Page(render(board, ArenaFormat.HTML, base=tmp_path / "pages"))
    files = [
        found["href"] or "" for tag, found in page.tags if tag == "a" and not (found["href"] or "").startswith("#")
    ]
    assert len(files) == 2 * len(board.trials)
    assert all((tmp_path / "pages" / file).is_file() for file in files)
    assert {os.path.basename(file) for file in files} == {"diff.patch", "meta.json"}


def test_a_page_of_many_trials_is_bounded(tmp_path: Path) -> None:
    run = write_run(tmp_path, [meta("a", "t", n) for n in range(1, MAX_TRIALS + 3)])
    text = render(make_leaderboard(load_runs([run])), ArenaFormat.HTML)
    assert "2 more trials: in the formats json and csv" in text


@pytest.mark.parametrize("costs", [[0.0, 0.0], [0.5], [0.001, 20.0], [0.3, 0.31, 0.32] * 15, [1e-9, 1e9]])
def test_the_chart_stays_in_its_frame_and_labels_apart(tmp_path: Path, costs: list[float]) -> None:
    records = [
        meta(f"agent-{n}", task, total_cost_usd=cost, composite_score=1 / (n + 1))
        for n, cost in enumerate(costs)
        for task in ("t", "u")
    ]
    chart = frontier_chart(make_leaderboard(load_runs([write_run(tmp_path, records)])).agents)
    assert chart is not None
    assert chart.log_scale == (min(costs) > 0 and max(costs) / min(costs) >= 30)
    assert 2 <= len(chart.x_ticks) <= 25
    for tick in chart.x_ticks:
        assert chart.left - 0.1 <= tick.at <= chart.right + 0.1
    for point in chart.points:
        assert chart.left <= point.x <= chart.right
        assert chart.top <= point.high <= point.y <= point.low <= chart.bottom
    labels = sorted(point.label_y for point in chart.points if point.label and point.anchor == "start")
    if len({point.x for point in chart.points}) == 1:
        assert all(b - a >= 15 for a, b in itertools.pairwise(labels))


def test_agents_without_a_cost_are_named_under_the_chart(tmp_path: Path) -> None:
    run = write_run(tmp_path, [meta("a", "t"), meta("unpriced", "t", total_cost_usd=None)])
    board = make_leaderboard(load_runs([run]))
    chart = frontier_chart(board.agents)
    assert chart is not None
    assert chart.left_out == ("unpriced",)
    assert frontier_chart([row for row in board.agents if row.agent == "unpriced"]) is None


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_narrow_terminal_has_fewer_columns(board: Leaderboard, width: int) -> None:
    header = render_leaderboard(board, ArenaFormat.TABLE, width=width, base=Path("/")).splitlines()[0]
    assert len(header) <= max(width, 60)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_only_columns_that_are_shown_are_explained(board: Leaderboard, width: int) -> None:
    header, *lines = render_leaderboard(board, ArenaFormat.TABLE, width=width, base=Path("/")).splitlines()
    explained = "\n".join(lines[lines.index("") :])
    for title in ("COST", "NOT COUNTED", "PARETO"):
        assert (f"{title}:" in explained) == (title in re.split(" {2,}", header))
    assert header.startswith("AGENT")
    assert "SCORE [95%]" in header


def test_nothing_left_is_said(tmp_path: Path) -> None:
    board = make_leaderboard(load_runs([small_results(tmp_path / "results")]), ["agent=*"])
    for form in ArenaFormat:
        assert render(board, form)
    assert "No trials." in render(board, ArenaFormat.TABLE)
    assert "excluded by agent=*: 8 trials" in render(board, ArenaFormat.TABLE)


def test_output_goes_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_results(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thunderdome.yaml").write_text("results: {dir: elsewhere}\n")  # the rest may be missing
    assert run_app(["report", "--format", "html", "--output", "page.html"], arena_app) == 0
    assert capsys.readouterr().out == "page.html\n"
    assert "elsewhere/runs/" in (tmp_path / "page.html").read_text()
    assert run_app(["report", "--results", "elsewhere", "--output", "missing/page.html"], arena_app) == 2
    assert "REPORT_NOT_WRITTEN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report"], "There is no run in results"),
        (["report", "nothing"], "No run begins with nothing in results"),
        (["leaderboard"], "There is no directory results"),
        (["report", "--config", "missing.yaml"], "missing.yaml"),
        (["report", "--format", "pdf"], "pdf"),
    ],
)
def test_bad_input_is_one_clear_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_app(arguments, arena_app) == 2
    error = capsys.readouterr().err
    assert error.startswith("error ")
    assert message in error
    assert "Traceback" not in error


def test_every_key_column_and_rule_is_documented(board: Leaderboard) -> None:
    page = (Path(__file__).parents[2] / "docs" / "leaderboard.md").read_text()
    document = json.loads(render(board, ArenaFormat.JSON))
    row, trial = document["agents"][0], document["trials"][0]
    names = {*document, *document["interval"], *document["coverage"], *row, *row["score"], *row["cost_usd"], *trial}
    names |= {*document["exclusions"][0], *document["unfinished"][0], *document["unreadable"][0]}
    names |= {*CSV_COLUMNS, *ArenaFormat, *Grouping}
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert {name for name in RULES if not re.search(rf"^\| `{name}[=`]", page, re.MULTILINE)} == set()
