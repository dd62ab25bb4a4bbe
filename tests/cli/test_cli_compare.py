"""`yb compare`: its formats, its gate for CI, its exit codes, and names that are not to be trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from arena_trees import meta, write_run
from yb import yb, yb_process

TASKS = [f"task-{number}" for number in range(8)]


def make_results(results: Path, good: str = "good", bad: str = "bad", tasks: list[str] = TASKS) -> Path:
    """The first solves every trial, the second one of four."""
    records = [meta(good, task, number) for task in tasks for number in range(1, 5)]
    records += [
        meta(bad, task, number, composite_score=float(number == 1), outcome="solved" if number == 1 else "unsolved")
        for task in tasks
        for number in range(1, 5)
    ]
    return write_run(results / "runs" / "2026-01-02T03-00-00Z-0000aaaa", records, planned=4)


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    make_results(tmp_path / "results")
    done = yb("compare", "good", "bad", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].startswith("good is better than bad by 0.75 (on these tasks ")
    assert ". On tasks like these: better (" in lines[0]
    assert lines[2].split() == ["good", "bad", "DIFFERENCE", "[95%]"]
    assert any(line.startswith("Trials ") and line.split()[1:] == ["32/32/32", "32/32/32"] for line in lines)
    path = "results/runs/2026-01-02T03-00-00Z-0000aaaa/trials/good/task-0/trial-1/diff.patch"
    assert f"  {path}" in lines
    assert (
        "flaky with bad, sometimes solved and sometimes not: task-0, task-1, task-2, task-3, task-4 and 3 more" in lines
    )


def test_thunderdome_and_bench_have_the_same_command(tmp_path: Path) -> None:
    make_results(tmp_path / "results")
    same = yb("compare", "good", "bad", cwd=tmp_path).stdout
    assert yb("bench", "compare", "good", "bad", cwd=tmp_path).stdout == same


def test_json_has_all_that_a_program_needs(tmp_path: Path) -> None:
    make_results(tmp_path)
    found = json.loads(yb("compare", "bad", "good", "--results", str(tmp_path), "--format", "json").stdout)
    assert (found["verdict"], found["difference"], found["tasks"]) == ("worse", -0.75, 8)
    assert (found["trials"], found["valid"], found["more_trials_needed"]) == (64, 64, None)
    low, high = found["interval_on_these_tasks"]
    wider_low, wider_high = found["interval_on_tasks_like_these"]
    assert wider_low <= low < high <= wider_high < 0
    assert found["first"]["name"] == "bad"
    assert found["by_task"][0]["second"]["trials"][0]["diff"].endswith("trials/good/task-0/trial-1/diff.patch")


@pytest.mark.parametrize(
    ("names", "gate", "code"),
    [
        (("good", "bad"), "worse", 0),
        (("good", "bad"), "not-better", 0),
        (("bad", "good"), "worse", 1),
        (("bad", "good"), "not-better", 1),
        (("good", "other"), "worse", 0),  # undecided
        (("good", "other"), "not-better", 1),
    ],
)
def test_a_gate_decides_the_exit_code(tmp_path: Path, names: tuple[str, str], gate: str, code: int) -> None:
    run = make_results(tmp_path / "results")
    write_run(run, [meta("other", "task-0", composite_score=0.5, outcome="unsolved")])
    junit = tmp_path / "junit.xml"
    done = yb("compare", *names, "--fail-if", gate, "--junit", str(junit), cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(f"yb compare --fail-if {gate}: {'failed' if code else 'passed'}")
    suite = ElementTree.parse(junit).getroot()
    assert suite.attrib["failures"] == str(code)
    assert suite[0][-1].attrib["name"] == f"{names[0]} against {names[1]}"


def test_github_gets_a_summary_and_an_annotation(tmp_path: Path) -> None:
    make_results(tmp_path / "results")
    summary = tmp_path / "summary.md"
    env = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"}
    done = yb("compare", "bad", "good", "--fail-if", "worse", cwd=tmp_path, **env)
    assert done.returncode == 1
    assert done.stderr.startswith("::error title=yb compare --fail-if worse::failed by score and solved: bad against ")
    assert "**bad is worse than good by 0.75" in summary.read_text()
    passed = yb("compare", "good", "bad", "--fail-if", "worse", cwd=tmp_path, **env)
    assert passed.stderr.startswith("::notice title=yb compare --fail-if worse::passed: good against bad: ")


def write_measured(results: Path, **first: Any) -> None:
    """Two tasks, three trials of each: `new` solves with the score 1, for a dollar and in a minute, but for `first`."""
    same = {"composite_score": 1.0, "outcome": "solved", "total_cost_usd": 1.0, "duration_s": 60.0}
    records = [
        meta(name, task, number, **{**same, **more})
        for name, more in (("new", first), ("old", {}))
        for task in ("task-0", "task-1")
        for number in (1, 2, 3)
    ]
    run = results / "runs" / "2026-01-02T03-00-00Z-0000aaaa"
    write_run(run, records, planned=3, baselines={"new": "old"})


FALLEN = {"composite_score": 0.8, "outcome": "unsolved"}
"""6/6 solved became 0/6, which partial credit hides."""


@pytest.mark.parametrize(
    ("first", "options", "code", "line"),
    [
        (FALLEN, ("worse",), 1, "failed by solved: new against old: score -0.20 ("),
        (FALLEN, ("worse", "--measure", "solved"), 1, "failed by solved: new against old: solved -100 points ("),
        (FALLEN, ("worse", "--measure", "score"), 0, "passed: new against old: score -0.20 ("),
        ({"total_cost_usd": 2.0}, ("worse",), 0, "passed: "),
        ({"total_cost_usd": 2.0}, ("worse", "--measure", "cost"), 1, "failed by cost: new against old: cost +$1.00 ("),
        ({"total_cost_usd": 1.01}, ("worse", "--measure", "cost"), 0, "passed: "),  # within the margin of 5 %
        ({"total_cost_usd": 0.5}, ("not-better", "--measure", "cost", "--measure", "score"), 0, "passed: "),
        ({"total_cost_usd": None}, ("worse", "--measure", "cost"), 2, "not decided, because the cost is not known"),
        ({"duration_s": 90.0}, ("worse", "--measure", "time"), 1, "failed by time: new against old: time +30.0 s ("),
        ({"duration_s": 30.0}, ("not-better", "--measure", "time"), 0, "passed: "),
        ({"duration_s": 90.0}, ("not-better",), 1, "failed, because it is not known to be better by score or solved: "),
    ],
)  # fmt: skip
def test_the_gate_names_the_measure_that_decides(
    tmp_path: Path, first: dict[str, Any], options: tuple[str, ...], code: int, line: str
) -> None:
    write_measured(tmp_path / "results", **first)
    done = yb("compare", "--fail-if", *options, "--junit", "junit.xml", cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith(f"yb compare --fail-if {options[0]}: {line}")) == (code, True), done
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.attrib["failures"], suite.attrib["errors"]) == (str(int(code == 1)), str(int(code == 2)))


def test_a_gate_says_what_could_have_gone_unnoticed(tmp_path: Path) -> None:
    write_measured(tmp_path / "few", outcome="unsolved", composite_score=0.8)
    few = yb("compare", "--fail-if", "worse", "--measure", "score", "--results", "few", cwd=tmp_path)
    assert re.search(r"Could have gone unnoticed: a fall of up to 0\.\d\d in score\.$", few.stderr.strip()), few.stderr
    write_run(tmp_path / "one", [meta("new", "task"), meta("old", "task")], planned=1, baselines={"new": "old"})
    one = yb("compare", "--fail-if", "worse", "--results", "one", cwd=tmp_path)
    assert one.stderr.endswith("unnoticed: a fall of any size in score, a fall of any size in solved.\n"), one.stderr
    make_results(tmp_path / "results")
    assert "unnoticed" not in yb("compare", "good", "bad", "--fail-if", "worse", cwd=tmp_path).stderr


def test_several_that_pass_are_one_line(tmp_path: Path) -> None:
    names = [f"agent-{number}" for number in range(10)]
    records = [meta(name, task) for name in (*names, "base") for task in TASKS]
    write_run(tmp_path / "run", records, planned=1, baselines=dict.fromkeys(names, "base"))
    done = yb("compare", "--fail-if", "worse", "--results", "run", cwd=tmp_path)
    assert done.stderr.startswith("yb compare --fail-if worse: passed: 10 comparisons. Could have gone unnoticed: "), (
        done
    )
    assert len(done.stderr.splitlines()) == 1


def test_the_report_can_be_a_file_with_links_relative_to_it(tmp_path: Path) -> None:
    make_results(tmp_path / "results")
    (tmp_path / "out").mkdir()
    done = yb("compare", "good", "bad", "-f", "markdown", "-o", "out/report.md", cwd=tmp_path)
    assert done.stdout == "out/report.md\n"
    text = (tmp_path / "out" / "report.md").read_text()
    link = "../results/runs/2026-01-02T03-00-00Z-0000aaaa/trials/good/task-0/trial-1/diff.patch"
    assert f"[diff]({link})" in text
    assert (tmp_path / "out" / link).is_file()


HOSTILE = "\x1b[31m<blink>|`*_[x](evil)\u202e$$"


@pytest.mark.parametrize("form", ["table", "markdown", "json", "html"])
def test_names_are_escaped_in_every_format(tmp_path: Path, form: str) -> None:
    make_results(tmp_path, good=f"a{HOSTILE}", bad="b", tasks=[f"{task}{HOSTILE}" for task in TASKS])
    done = yb("compare", f"a{HOSTILE}", "b", "--results", str(tmp_path), "--format", form)
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stdout)
    assert "<blink>" not in done.stdout or form in ("table", "json")
    assert "[x](evil)" not in done.stdout or form in ("table", "json", "html")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("good", "goood"), "Did you mean 'good'?"),
        (("good", "bad", "--margin", "5"), "MARGIN_INVALID"),
        (("good", "bad", "--fail-if", "better"), "'better' is not one of"),
        (("good", "bad", "--measure", "score"), "--measure needs --fail-if."),
        (("good", "bad", "--exclude", "nonsense"), "RULE_INVALID"),
        (("good", "bad", "--results", "empty"), "There is no run in empty."),
        (("good", "bad", "--exclude", "agent=bad"), "bad has no finished trial."),
    ],
)
def test_mistakes_end_with_code_2_and_one_message(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    make_results(tmp_path / "results")
    (tmp_path / "empty").mkdir()
    done = yb("compare", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_comparison_of_a_run_that_cannot_be_made_is_code_2_although_others_can(tmp_path: Path) -> None:
    run = make_results(tmp_path / "results")
    none = meta("none", "task-0", valid=False, outcome="infra_error", composite_score=None)
    write_run(run, [none])
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "baselines": {"good": "bad", "none": "bad"}}))
    done = yb("compare", "--fail-if", "worse", "--junit", "junit.xml", cwd=tmp_path)
    assert done.returncode == 2
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.findtext(".//error", default="") != "" for suite in suites] == [False, True]
    properties = [[each.attrib["name"] for each in suite.iter("property")] for suite in suites]
    assert [len(names) for names in properties] == [len(set(names)) for names in properties]
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith("good ")] == [
        ["good", "bad", "better"]
    ]
    assert "none and bad cannot be compared: " in done.stdout
    found = json.loads(yb("compare", "--format", "json", cwd=tmp_path).stdout)
    assert [each["verdict"] for each in found["comparisons"]] == ["better", "undecided"]


def test_a_comparison_imports_no_engine(tmp_path: Path) -> None:
    """It is a report: it starts fast, and on machines without Docker."""
    make_results(tmp_path / "results")
    done = yb_process("compare", "good", "bad", cwd=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"aiohttp", "textual", "ray", "youbencha.engine.run"} & imported
