"""Which trials are compared, and what the comparison says about them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from arena_trees import HASH, meta, original, write_run
from youbencha.errors import YouBenchaError
from youbencha.report.comparison import make_comparison
from youbencha.report.comparison_document import comparison_document, shown_name, verdict_sentence
from youbencha.report.comparison_model import ComparisonReport, PairComparison
from youbencha.report.contestants import find_pairs
from youbencha.report.document import render_terminal
from youbencha.report.gate import Gate, Measure, apply_gate

TASKS = ("cache", "clock", "ledger", "parser", "router", "shop", "stack", "words")
RUN = "2026-01-02T03-00-00Z-0000aaaa"
LATER = "2026-01-03T03-00-00Z-0000bbbb"


def trials(agent: str, solved: int, of: int, tasks: tuple[str, ...] = TASKS, **changes: Any) -> list[dict[str, Any]]:
    """So many trials of each task, the first ones solved."""
    return [
        meta(agent, task, number, **_outcome(number <= solved), identity=identity(agent), **changes)
        for task in tasks
        for number in range(1, of + 1)
    ]


def identity(agent: str, **changes: Any) -> dict[str, Any]:
    return {**HASH, "agent_hash": agent, "task_commit": "c1", "cpus": 2.0, "memory": 1024, **changes}


def _outcome(solved: bool) -> dict[str, Any]:
    return {"composite_score": 1.0, "outcome": "solved"} if solved else {"composite_score": 0.0, "outcome": "unsolved"}


def write(results: Path, *records: dict[str, Any], name: str = RUN, planned: int | None = 4, **info: Any) -> Path:
    run = write_run(results / "runs" / name, list(records), planned=planned)
    if info:
        document = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**document, **info}))
    return run


def compare(results: Path, *names: str, **options: Any) -> ComparisonReport:
    return make_comparison(find_pairs(results, *names), **options)


def only(report: ComparisonReport) -> PairComparison:
    (pair,) = report.comparisons
    return pair


def sentence(report: ComparisonReport) -> str:
    return verdict_sentence(only(report), report.margin)


def test_an_agent_that_solves_more_is_better(tmp_path: Path) -> None:
    write(tmp_path, *trials("good", 4, 4), *trials("bad", 1, 4))
    pair = only(report := compare(tmp_path, "good", "bad"))
    assert (pair.verdict, pair.difference.estimate) == ("better", pytest.approx(0.75))
    assert sentence(report).startswith("good is better than bad by 0.75 (on these tasks 0.")
    assert pair.difference.on_these_tasks is not None
    assert pair.difference.on_these_tasks.low > 0
    turned = only(compare(tmp_path, "bad", "good"))
    assert (turned.verdict, turned.difference.estimate) == ("worse", pytest.approx(-0.75))


def test_what_trials_cost_and_how_long_they_took(tmp_path: Path) -> None:
    cheap = trials("cheap", 2, 4, total_cost_usd=0.1, duration_s=10.0, total_tokens=100)
    unknown = trials("unknown", 2, 4, total_cost_usd=None, duration_s=20.0, total_tokens=300)
    pair = only(compare_written(tmp_path, *cheap, *unknown))
    assert pair.cost_usd.difference is None
    assert pair.duration_s.difference == pytest.approx(-10)
    assert pair.tokens.difference == pytest.approx(-200)
    assert pair.first.figures.cost_per_solved_usd == pytest.approx(0.2)
    assert pair.second.figures.cost_per_solved_usd is None
    assert pair.more_trials_cost_usd is None  # what the other costs is not known


@pytest.mark.parametrize(
    ("first", "second", "row"),
    [
        (0.04, 0.09, ["40", "ms", "90", "ms", "-50", "ms"]),
        (2.0, 2.01, ["2.0", "s", "2.0", "s", "+0.0", "s"]),
        (30, 90, ["30.0", "s", "1.5", "min", "-1.0", "min"]),
    ],
)
def test_short_and_long_times(tmp_path: Path, first: float, second: float, row: list[str]) -> None:
    records = [*trials("a", 1, 1, duration_s=first), *trials("b", 1, 1, duration_s=second)]
    text = render_terminal(comparison_document(compare_written(tmp_path, *records), tmp_path, details=False), 120)
    (line,) = [line for line in text.splitlines() if line.startswith("Time per trial")]
    assert line.split()[3:9] == row


def compare_written(results: Path, *records: dict[str, Any]) -> ComparisonReport:
    write(results, *records)
    return compare(results, *dict.fromkeys(record["orchestrator"] for record in records))


def test_passes_of_k_trials_and_flaky_tasks(tmp_path: Path) -> None:
    pair = only(compare_written(tmp_path, *trials("steady", 3, 3), *trials("flaky", 1, 3)))
    assert [(each.k, round(each.any, 3), round(each.all, 3)) for each in pair.second.passes] == [
        (1, 0.333, 0.333),
        (2, 0.667, 0.0),
        (3, 1.0, 0.0),
    ]
    assert [each.all for each in pair.first.passes] == [1, 1, 1]
    assert [each.task for each in pair.flaky] == list(TASKS)
    assert not pair.flaky[0].first.flaky
    assert pair.flaky[0].second.flaky


def test_trials_that_are_not_valid_are_in_no_score_and_in_the_coverage(tmp_path: Path) -> None:
    broken = [
        meta("second", task, 4, valid=False, outcome="infra_error", composite_score=0.0, identity=identity("second"))
        for task in TASKS
    ]
    pair = only(compare_written(tmp_path, *trials("first", 4, 4), *trials("second", 3, 3), *broken))
    assert (pair.difference.estimate, pair.pass_rate.estimate) == (0, 0)
    assert (pair.second.coverage.valid, pair.second.coverage.finished, pair.second.coverage.planned) == (24, 32, 32)
    assert pair.tasks[0].second.scored == 3


def test_only_tasks_of_both_are_compared(tmp_path: Path) -> None:
    first = trials("first", 4, 4, tasks=("a", "b", "c"))
    second = trials("second", 0, 4, tasks=("b", "c", "d", "e"))
    pair = only(compare_written(tmp_path, *first, *second))
    assert sorted(task.task for task in pair.tasks) == ["b", "c"]
    assert (pair.only_first, pair.only_second) == (("a",), ("d", "e"))
    assert pair.first.figures.trials.finished == 8
    assert pair.first.coverage.finished == 12


def test_the_largest_difference_comes_first_with_the_files_of_both(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        *trials("a", 4, 4, tasks=("x", "y")),
        *trials("b", 4, 4, tasks=("x",)),
        *trials("b", 1, 4, tasks=("y",)),
    )
    log = run / "trials" / "a" / "y" / "trial-1" / "attempts" / "1" / "artifacts" / "youbencha-log.json"
    log.parent.mkdir(parents=True)
    log.write_text("{}")
    pair = only(compare(tmp_path, "a", "b"))
    assert [(task.task, task.difference) for task in pair.tasks] == [("y", 0.75), ("x", 0)]
    trial = pair.tasks[0].first.trials[0]
    assert (trial.diff, trial.log) == (log.parents[3] / "diff.patch", log)
    assert pair.tasks[0].second.trials[0].log is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task_commit": "c2"}, "different commits on cache, clock"),
        ({"validation_hash": "other"}, "validated differently"),
        ({"cpus": 4.0}, "different CPU limits"),
        ({"memory": None}, "different memory limits"),
        ({"agent_hash": "first"}, "Both have the same configuration"),
        ({"youbencha_version": "9"}, ""),
        ({}, ""),
    ],
)
def test_trials_under_other_conditions_are_not_comparable(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    second = [trial | {"identity": identity("second", **changes)} for trial in trials("second", 1, 2)]
    warnings = only(compare_written(tmp_path, *trials("first", 2, 2), *second)).warnings
    assert [warning for warning in warnings if words and words in warning] == list(warnings)
    assert bool(warnings) == bool(words)


def test_runs_are_compared_by_name(tmp_path: Path) -> None:
    write(tmp_path, *trials("claude-code", 1, 4), *trials("aider", 1, 4))
    write(tmp_path, *trials("claude-code", 4, 4), *trials("codex", 1, 4), name=LATER)
    pair = only(report := compare(tmp_path, "2026-01-03", RUN))
    assert (pair.first.name, pair.second.name) == ("2026-01-03:claude-code", f"{RUN}:claude-code")
    assert (pair.verdict, report.one_pair, report.runs) == ("better", True, (LATER, RUN))
    assert only(compare(tmp_path, "codex", f"{RUN}:aider")).first.runs == (LATER,)


def test_runs_with_one_orchestrator_each_are_compared_whatever_their_names(tmp_path: Path) -> None:
    one = write(tmp_path / "one", *trials("old", 1, 4))
    two = write(tmp_path / "two", *trials("new", 4, 4))
    pair = only(compare(tmp_path / "nothing-here", str(two), str(one)))
    assert (pair.first.name, pair.second.name, pair.verdict) == ("new", "old", "better")


def test_several_runs_of_a_directory_count_as_one_with_each_trial_once(tmp_path: Path) -> None:
    write(tmp_path / "a", *trials("agent", 1, 2))
    write(tmp_path / "a", *trials("agent", 2, 2, completed_at="2026-02-02T03:04:05Z"), name=LATER)
    write(tmp_path / "b", *trials("agent", 0, 2))
    report = compare(tmp_path, str(tmp_path / "a"), str(tmp_path / "b"))
    assert (report.superseded, only(report).difference.estimate) == (16, 1)


def test_without_the_second_it_is_the_recorded_baseline(tmp_path: Path) -> None:
    records = [*trials("cc+tdd", 4, 4), *trials("cc", 1, 4), *trials("cc+skill", 1, 4)]
    write(tmp_path, *records, baselines={"cc+tdd": "cc", "cc+skill": "cc"})
    assert only(compare(tmp_path, "cc+tdd")).second.orchestrator == "cc"
    report = compare(tmp_path)
    assert [(comparison.first.name, comparison.second.name) for comparison in report.comparisons] == [
        ("cc+skill", "cc"),
        ("cc+tdd", "cc"),
    ]
    assert (report.one_pair, report.confidence) == (False, pytest.approx(0.975))
    assert [comparison.p_adjusted for comparison in report.comparisons] == [1.0, pytest.approx(2 / 2**7)]


def test_results_of_the_original_keep_their_note(tmp_path: Path) -> None:
    records = [
        original(agent, task, composite_score=score) for agent, score in (("a", 0.9), ("b", 0.2)) for task in TASKS
    ]
    write(tmp_path, *records, planned=None)
    pair = only(report := compare(tmp_path, "a", "b"))
    assert pair.difference.estimate == pytest.approx(0.7)
    assert "unknown validity (results of the original Thunderdome)" in report.notes[0]
    assert "is not known" in pair.warnings[0]
    assert pair.first.coverage.planned is None
    assert (pair.tasks[0].first.judged, pair.first.passes) == (0, ())


def test_a_trial_that_was_taken_over_is_not_two(tmp_path: Path) -> None:
    first = trials("agent", 2, 2, started_at="2026-01-01T00:00:00Z")
    write(tmp_path, *first)
    write(tmp_path, *(each | {"reused_from": RUN} for each in first), name=LATER)
    (warning,) = [warning for warning in only(compare(tmp_path, LATER, RUN)).warnings if "--reuse" in warning]
    assert warning.startswith("16 trials counted on both sides")


def test_trials_can_be_excluded(tmp_path: Path) -> None:
    write(tmp_path, *trials("a", 4, 4), *trials("b", 1, 4))
    report = compare(tmp_path, "a", "b", rules=["task=c*"])
    assert (report.exclusions[0].dropped, only(report).difference.tasks) == (16, 6)
    write(tmp_path, *trials("a", 4, 4), name=LATER)
    (exclusion,) = compare(tmp_path, f"{RUN}:a", "a", rules=["task=c*"]).exclusions  # of both runs
    assert exclusion.dropped == 24


@pytest.mark.parametrize(
    ("names", "code", "message", "hint"),
    [
        (
            ("good", "baad"),
            "COMPARISON_UNKNOWN_NAME",
            "baad is neither a run nor an orchestrator",
            "Did you mean 'bad'?",
        ),
        ((RUN + ":god", "bad"), "COMPARISON_UNKNOWN_NAME", "has no orchestrator god", "Did you mean 'good'?"),
        (("good", "good"), "COMPARISON_SAME", "are the same: good", "Name two that differ"),
        (("good", "latest"), "COMPARISON_SAME", "are the same", "Name two"),
        (("good",), "COMPARISON_NO_BASELINE", "No baseline of good is recorded", "bad, none, other"),
        ((), "COMPARISON_NO_BASELINE", "No baselines are recorded", "bad, good, none, other"),
        (("good", "none"), "NOT_COMPARABLE", "None of the 8 trials of none is valid", "the disk is full"),
        (("good", "other"), "NOT_COMPARABLE", "no task in common", "other has elsewhere"),
        (("2026-01-0", "good"), "RUN_NOT_FOUND", "Several runs begin with 2026-01-0", "longer part"),
        (("early",), "COMPARISON_UNKNOWN_NAME", "early is neither", "2026-01-01T03-00-00Z-0000cccc:early"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path, names: tuple[str, ...], code: str, message: str, hint: str
) -> None:
    invalid = {"valid": False, "outcome": "infra_error", "composite_score": None, "reason": "the disk is full"}
    none = [trial | invalid for trial in trials("none", 1, 1)]
    other = trials("other", 1, 1, tasks=("elsewhere",))
    write(tmp_path, *trials("early", 1, 1), name="2026-01-01T03-00-00Z-0000cccc")
    write(tmp_path, *trials("good", 1, 1), *trials("bad", 0, 1), *none, *other)
    with pytest.raises(YouBenchaError) as caught:
        compare(tmp_path, *names)
    assert (caught.value.code, message in caught.value.message) == (code, True), caught.value
    assert hint in (caught.value.hint or "")


def test_runs_of_several_orchestrators_without_a_common_name_are_ambiguous(tmp_path: Path) -> None:
    write(tmp_path, *trials("a", 1, 1), *trials("b", 1, 1))
    write(tmp_path, *trials("c", 1, 1), *trials("d", 1, 1), name=LATER)
    with pytest.raises(YouBenchaError) as caught:
        compare(tmp_path, RUN, LATER)
    assert f"{RUN} has a, b; {LATER} has c, d" in caught.value.message
    assert caught.value.hint == f"Name one of them: {RUN}:NAME or {LATER}:NAME."


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, float("nan")])
def test_a_margin_is_between_0_and_1(tmp_path: Path, margin: float) -> None:
    write(tmp_path, *trials("a", 1, 2), *trials("b", 1, 2))
    with pytest.raises(YouBenchaError, match="not between 0 and 1"):
        compare(tmp_path, "a", "b", margin=margin)


def test_a_baseline_that_did_not_run_is_named(tmp_path: Path) -> None:
    write(tmp_path, *trials("cc+tdd", 1, 2), baselines={"cc+tdd": "cc"})
    with pytest.raises(YouBenchaError, match="cc, the baseline of cc\\+tdd, is not in the latest run"):
        compare(tmp_path)


def test_one_trial_says_nothing_about_chance(tmp_path: Path) -> None:
    write(tmp_path, meta("a", "task"), meta("b", "task", composite_score=0.0, outcome="unsolved"))
    report = compare(tmp_path, "a", "b")
    assert only(report).verdict == "undecided"
    assert "Undecided: a and b differ by +1.00" in sentence(report)


def test_damaged_results_are_listed_and_the_others_compared(tmp_path: Path) -> None:
    run = write(tmp_path, *trials("a", 4, 4), *trials("b", 1, 4), planned=None)
    (run / "trials" / "a" / "cache" / "trial-1" / "meta.json").write_text("{")
    report = compare(tmp_path, "a", "b")
    assert (only(report).first.coverage.finished, report.unreadable[0].reason) == (
        31,
        "is not JSON, or only half of it",
    )
    for file in run.glob("trials/a/*/*/meta.json"):
        file.write_text("{")
    with pytest.raises(YouBenchaError, match="a is neither") as raised:
        compare(tmp_path, "a", "b")
    assert (raised.value.hint or "").startswith("32 results of it cannot be read. The first: ")


def until_decided(results: Path, rounds: int, *, solved: bool) -> Path:
    """A run with `--until-decided` whose baseline solves nothing, with one pair for each task in each round."""
    first = trials("cc+tdd", rounds if solved else 0, rounds)
    until = {"margin": 0.1, "max_trials": 400}
    return write(
        results,
        *first,
        *trials("cc", 0, rounds),
        planned=400,
        baselines={"cc+tdd": "cc"},
        until_decided=until,
    )


def test_a_run_until_decided_is_judged_by_the_sequence_that_ended_it(tmp_path: Path) -> None:
    until_decided(tmp_path, 2, solved=True)
    pair = only(report := compare(tmp_path))
    assert pair.decided_early is not None
    early = pair.decided_early
    assert (pair.verdict, early.rounds, early.trials, early.max_trials, early.saved) == ("better", 2, 32, 400, 368)
    assert report.margin == 0.1
    assert (pair.difference.p_value, pair.difference.detectable, pair.p_adjusted) == (None, None, None)
    assert (pair.pass_rate.estimate, pair.pass_rate.on_tasks_like_these) == (1, None)
    assert pair.pass_rate.on_these_tasks == pair.difference.on_these_tasks, "every score is 0 or 1"
    assert pair.difference.on_these_tasks is not None
    assert pair.difference.on_tasks_like_these is not None
    assert pair.difference.on_tasks_like_these.low <= pair.difference.on_these_tasks.low
    assert "after 2 rounds: 32 trials of at most 400, 368 saved." in render_terminal(
        comparison_document(report, tmp_path, details=False), 1000
    )
    turned = only(compare(tmp_path, "cc", "cc+tdd"))
    assert turned.verdict == "worse"
    assert turned.decided_early is not None
    assert turned.decided_early.rounds == early.rounds
    for one, other in ((turned.difference, pair.difference), (turned.pass_rate, pair.pass_rate)):
        assert one.on_these_tasks == tuple(-end for end in reversed(other.on_these_tasks or ()))


def test_a_gate_after_a_run_until_decided_sees_what_partial_credit_hides(tmp_path: Path) -> None:
    run = until_decided(tmp_path, 3, solved=False)
    for file in run.glob("trials/*/*/*/meta.json"):
        is_baseline = file.parts[-4] == "cc"
        changed = {"composite_score": 0.9, "outcome": "solved" if is_baseline else "unsolved"}
        file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    (gated,) = apply_gate(compare(tmp_path), Gate.WORSE).pairs
    assert (gated.decisive, gated.pair.verdict) == ((Measure.SOLVED,), "undecided")
    (score,) = [judgement for judgement in gated.judgements if judgement.measure is Measure.SCORE]
    assert gated.pair.difference.on_these_tasks is not None
    assert score.unnoticed == -gated.pair.difference.on_these_tasks.low


def test_another_pair_of_a_run_until_decided_is_warned_about(tmp_path: Path) -> None:
    until_decided(tmp_path, 2, solved=True)
    write(tmp_path, *trials("cc+skill", 0, 2), planned=None)
    pair = only(compare(tmp_path, "cc+tdd", "cc+skill"))
    assert pair.decided_early is None
    assert "ended as soon as other comparisons were decided" in pair.warnings[0]


def test_rounds_that_are_not_complete_do_not_count(tmp_path: Path) -> None:
    run = until_decided(tmp_path, 3, solved=False)
    shutil.rmtree(run / "trials" / "cc" / "shop" / "trial-3")
    pair = only(compare(tmp_path, "cc+tdd"))
    assert pair.decided_early is not None
    assert (pair.decided_early.rounds, pair.decided_early.trials) == (2, 47)


def test_a_run_that_ended_undecided_has_saved_nothing(tmp_path: Path) -> None:
    until_decided(tmp_path, 2, solved=False)
    pair = only(compare(tmp_path))
    assert pair.decided_early is not None
    assert (pair.verdict, pair.decided_early.saved) == ("undecided", 0)
    assert pair.difference.more_trials is not None
    assert pair.difference.more_trials % 16 == 0, "whole rounds of both"


def test_trials_that_were_taken_over_are_not_among_those_of_a_run(tmp_path: Path) -> None:
    run = until_decided(tmp_path, 2, solved=True)
    write_run(run, [trial | {"reused_from": LATER} for trial in trials("cc", 0, 2)])
    early = only(compare(tmp_path)).decided_early
    assert early is not None
    assert (early.trials, early.saved) == (16, 384)


def test_long_names_keep_their_ends() -> None:
    first, second = (shown_name(f"/home/me/{'results-' * 20}{which}:claude-code") for which in ("before", "after"))
    assert (len(first), len(second)) == (60, 60)
    assert first.startswith("/home/me/results-")
    assert first.endswith("before:claude-code")
    assert second.endswith("after:claude-code")
