"""What a comparison says about trials that are missing, and about runs that ended as soon as they were decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_comparison import LATER, RUN, TASKS, compare, identity, only, sentence, trials, until_decided, write

from arena_trees import meta, original
from yb import yb
from youbencha.report.comparison_formats import ComparisonFormat, render_comparison, render_comparison_json
from youbencha.report.gate import Gate, apply_gate


def invalid(agent: str, numbers: range, tasks: tuple[str, ...] = TASKS) -> list[dict[str, Any]]:
    changes = {"valid": False, "outcome": "infra_error", "composite_score": None, "identity": identity(agent)}
    return [meta(agent, task, number, **changes) for task in tasks for number in numbers]


def test_a_verdict_that_the_missing_trials_could_overturn_is_undecided(tmp_path: Path) -> None:
    """Each agent solves half of its trials, and the first makes those that it does not solve invalid."""
    write(tmp_path, *trials("sly", 2, 2), *invalid("sly", range(3, 5)), *trials("plain", 2, 4))
    report = compare(tmp_path, "sly", "plain")
    pair = only(report)
    assert (pair.verdict, pair.difference.estimate, pair.difference.overturned) == ("undecided", 0.5, True)
    assert sentence(report).startswith("Undecided: 16 of 32 trials of sly are missing. ")
    assert "If the missing trials had all failed, the difference would be +0.00 (" in sentence(report)
    found = json.loads(render_comparison_json(report, Path()))
    bounds = found["bounds"]
    assert (bounds["of"], bounds["missing"], bounds["trials"], bounds["overturned"]) == ("first", 16, 32, True)
    assert (bounds["if_failed"]["difference"], bounds["if_solved"]["difference"]) == (0, 0.5)
    low, high = bounds["if_failed"]["interval_on_these_tasks"]
    assert low < 0 < high
    turned = only(compare(tmp_path, "plain", "sly"))
    assert turned.verdict == "undecided"
    assert turned.difference.bounds is not None
    assert not turned.difference.bounds.of_first


def test_a_verdict_that_stands_names_the_bounds(tmp_path: Path) -> None:
    write(tmp_path, *trials("good", 3, 3), *invalid("good", range(4, 5)), *trials("bad", 0, 4))
    report = compare(tmp_path, "good", "bad")
    assert only(report).verdict == "better"
    assert sentence(report).startswith("good is better than bad by 1.00 (on these tasks ")
    bounds = "8 of 32 trials of good are missing. If the missing trials had all failed, the difference would be +0.75 ("
    assert bounds in sentence(report)


def test_trials_that_were_planned_and_never_ran_are_missing(tmp_path: Path) -> None:
    write(tmp_path, *trials("half", 2, 2), *trials("whole", 2, 4))
    pair = only(compare(tmp_path, "half", "whole"))
    assert pair.difference.bounds is not None
    assert (pair.verdict, pair.difference.bounds.missing) == ("undecided", 16)


def test_the_verdict_must_hold_for_the_agent_that_it_favours(tmp_path: Path) -> None:
    """What the other is missing, by accident or by will, is no reason for doubt, nor an excuse."""
    lucky = [*trials("lucky", 2, 2), *invalid("lucky", range(3, 5))]
    write(tmp_path, *lucky, *trials("plain", 1, 2), *invalid("plain", range(3, 5)))
    assert sentence(compare(tmp_path, "lucky", "plain")).startswith("Undecided: 16 of 32 trials of lucky are missing.")
    write(tmp_path, *trials("good", 4, 4), *trials("bad", 0, 2), *invalid("bad", range(3, 5)), name=LATER)
    report = compare(tmp_path, "good", "bad")
    assert only(report).verdict == "better"
    assert "16 of 32 trials of bad are missing. If the missing trials had all failed, " in sentence(report)


def retried(agent: str, numbers: range) -> list[dict[str, Any]]:
    """Solved at the second attempt."""
    attempts = [{"number": 1, "outcome": "provider_error"}, {"number": 2, "outcome": "solved"}]
    changes = {"attempts": attempts, "identity": identity(agent)}
    return [meta(agent, task, number, **changes) for task in TASKS for number in numbers]


def test_trials_that_were_retried_until_they_were_solved_do_not_win(tmp_path: Path) -> None:
    write(tmp_path, *trials("sly", 2, 2), *retried("sly", range(3, 5)), *trials("plain", 2, 4))
    report = compare(tmp_path, "sly", "plain")
    assert only(report).verdict == only(report).pass_rate.verdict == "undecided"
    text = render_comparison(report, ComparisonFormat.TABLE, width=120, base=tmp_path)
    assert text.startswith("Undecided: 16 of 32 trials of sly were retried. In the valid trials, sly and plain differ")
    assert "If the retried trials had all failed, the difference would be +0.00 (" in text
    assert "retried after an attempt that was not valid: 16 trials of sly" in text
    found = json.loads(render_comparison_json(report, Path()))
    assert (found["bounds"]["missing"], found["bounds"]["retried"]) == (0, 16)
    assert found["first"]["trials"]["retried"] == 16
    line = str(apply_gate(compare(tmp_path, "plain", "sly"), Gate.WORSE).pairs[0])
    assert line.count("undecided, because 16 of 32 trials of sly were retried") == 2


def test_an_interrupted_attempt_is_no_retry(tmp_path: Path) -> None:
    """The agent cannot cause it."""
    attempts = [{"number": 1, "outcome": "interrupted"}, {"number": 2, "outcome": "solved"}]
    write(tmp_path, *trials("a", 4, 4, attempts=attempts), *trials("b", 0, 4))
    pair = only(compare(tmp_path, "a", "b"))
    assert (pair.verdict, pair.difference.bounds) == ("better", None)


def test_a_trial_of_a_later_run_that_replaces_one_that_was_not_valid_is_retried(tmp_path: Path) -> None:
    write(tmp_path, *trials("sly", 2, 2), *invalid("sly", range(3, 5)), *trials("plain", 2, 4))
    again = [trial for trial in trials("sly", 4, 4, completed_at="2026-01-03T03:04:05Z") if trial["trial"] > 2]
    write(tmp_path, *again, name=LATER, planned=None)
    pair = only(compare(tmp_path, f"{tmp_path}:sly", f"{tmp_path}:plain"))
    assert pair.difference.bounds is not None
    assert (pair.verdict, pair.difference.bounds.retried) == ("undecided", 16)


def test_solved_trials_have_bounds_too(tmp_path: Path) -> None:
    """A gate that looks at the solved trials must not be passed by voiding the others."""
    write(tmp_path, *trials("sly", 2, 2), *invalid("sly", range(3, 5)), *trials("plain", 2, 4))
    assert only(compare(tmp_path, "sly", "plain")).pass_rate.verdict == "undecided"


def test_a_gate_names_the_missing_trials_and_what_they_could_hide(tmp_path: Path) -> None:
    """An interval without 0 beside "undecided" is not understood without the reason."""
    write(tmp_path, *trials("sly", 2, 2), *invalid("sly", range(3, 5)), *trials("plain", 2, 4))
    report = compare(tmp_path, "plain", "sly")
    (gated,) = apply_gate(report, Gate.WORSE).pairs
    assert not gated.failed
    assert str(gated).count("undecided, because 16 of 32 trials of sly are missing") == 2
    for judgement, found in zip(gated.judgements, (only(report).difference, only(report).pass_rate), strict=True):
        assert found.on_these_tasks is not None
        assert judgement.unnoticed is None or judgement.unnoticed >= -found.on_these_tasks.low


def test_a_single_missing_trial_is_one(tmp_path: Path) -> None:
    write(tmp_path, *trials("good", 4, 4)[1:], *trials("bad", 0, 4))
    report = compare(tmp_path, "good", "bad")
    assert "1 of 32 trials of good is missing. If the missing trial had failed, the difference" in sentence(report)
    assert "; if it had been solved, +1.00" in sentence(report)


def test_a_run_until_decided_with_missing_trials_is_undecided(tmp_path: Path) -> None:
    run = until_decided(tmp_path, 1, solved=True)
    for record in [*invalid("cc+tdd", range(2, 8)), *trials("cc", 7, 7)]:
        directory = run / "trials" / record["orchestrator"] / record["task"] / f"trial-{record['trial']}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "meta.json").write_text(json.dumps(record))
    pair = only(compare(tmp_path, "cc+tdd"))
    assert pair.decided_early is not None
    assert pair.verdict == "undecided"
    assert pair.difference.bounds is not None
    assert pair.difference.bounds.of_first
    turned = only(compare(tmp_path, "cc", "cc+tdd"))
    assert turned.difference.bounds is not None
    assert not turned.difference.bounds.of_first
    mirrored = tuple(-end for end in reversed(pair.difference.bounds.if_failed.on_these_tasks))
    assert turned.difference.bounds.if_failed.on_these_tasks == mirrored


def test_a_tree_with_a_run_until_decided_is_judged_by_its_sequence(tmp_path: Path) -> None:
    until_decided(tmp_path, 2, solved=True)
    write(tmp_path, *trials("other", 1, 4), name=LATER)
    pair = only(report := compare(tmp_path, f"{tmp_path}:cc+tdd", f"{tmp_path}:cc"))
    assert pair.decided_early is not None
    assert (pair.verdict, pair.decided_early.trials, pair.warnings) == ("better", 32, ())
    assert report.margin == 0.1


def test_a_tree_with_further_trials_says_why_not(tmp_path: Path) -> None:
    until_decided(tmp_path, 2, solved=True)
    more = [trial | {"identity": identity("cc", agent_hash="another")} for trial in trials("cc", 0, 2)]
    write(tmp_path, *more, name=LATER)
    pair = only(compare(tmp_path, f"{tmp_path}:cc+tdd", f"{tmp_path}:cc"))
    assert pair.decided_early is None
    (warning,) = [warning for warning in pair.warnings if "--until-decided" in warning]
    assert RUN in warning
    assert "trials of other runs also count" in warning


def test_the_whole_tree_is_searched_if_the_newest_run_does_not_have_both(tmp_path: Path) -> None:
    write(tmp_path, *trials("old", 4, 4))
    write(tmp_path, *trials("new", 0, 4), name=LATER)
    done = yb("compare", "old", "new", "--results", str(tmp_path), "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["runs"]) == ("better", [RUN, LATER])
    assert "compared over all 2 runs" in found["notes"][0]
    newest = write(tmp_path, *trials("old", 0, 4), *trials("new", 4, 4), name="2026-01-04T03-00-00Z-0000dddd")
    assert compare(tmp_path, "old", "new").runs == (newest.name,)


def test_several_comparisons_are_one_table(tmp_path: Path) -> None:
    names = [f"cc+{number}" for number in range(10)]
    records = [record for name in names for record in trials(name, 4, 4)]
    write(tmp_path, *records, *trials("cc", 1, 4), baselines=dict.fromkeys(names, "cc"))
    lines = render_comparison(compare(tmp_path), ComparisonFormat.TABLE, width=200, base=tmp_path).splitlines()
    assert lines[0].startswith("FIRST ")
    assert [line.split()[:3] for line in lines[1:11]] == [[name, "cc", "better"] for name in names]
    assert not [line for line in lines if "is better than" in line]
    write(tmp_path, *invalid("cc+0", range(1, 5)), *trials("cc+0", 1, 1), planned=None)
    (row,) = [
        line
        for line in render_comparison(compare(tmp_path), ComparisonFormat.TABLE, width=200, base=tmp_path).splitlines()
        if line.startswith("cc+0  ")
    ]
    assert row.split()[2:5] == ["undecided:", "24", "missing"]


@pytest.mark.parametrize("solved", [0, 1, 2, 3, 4])
def test_a_sentence_has_one_verdict(tmp_path: Path, solved: int) -> None:
    write(tmp_path, *trials("a", solved, 4), *trials("b", 2, 4))
    sentences = sentence(compare(tmp_path, "a", "b")).split(". ")
    for each in sentences:
        assert sum(word in each.lower() for word in ("better", "worse", "equivalent", "undecided")) <= 1, each
    assert sentences[-1].startswith("On tasks like these: ")


def test_a_cost_that_the_original_did_not_measure_is_unknown(tmp_path: Path) -> None:
    free = [original("free", task, total_tokens=tokens) for task, tokens in zip(TASKS, (0, 2500) * 4, strict=True)]
    write(tmp_path, *free, *(original("dear", task, total_cost_usd=1.5) for task in TASKS), planned=None)
    pair = only(compare(tmp_path, "free", "dear"))
    assert (pair.cost_usd.first, pair.first.figures.cost_usd.value, pair.difference.tasks) == (None, None, 8)
    assert pair.second.figures.cost_usd.value == pytest.approx(12)
    assert pair.first.figures.tokens.value == 10_000
    found = json.loads(
        yb("bench", "report", RUN, "--results", str(tmp_path), "-f", "json", "--exclude", "cost=0").stdout
    )
    assert found["exclusions"][0]["dropped"] == 8
