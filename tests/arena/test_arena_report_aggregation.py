"""Figures of agents, tasks and suites: known answers, and what holds for any results."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_trees import HASH, meta, small_results, write_run
from youbencha.errors import YouBenchaError
from youbencha.report.leaderboard import Leaderboard, Row, make_leaderboard, pareto_frontier
from youbencha.store.arena import TrialMeta
from youbencha.store.read import ArenaResults, ArenaTrial, Range, UnfinishedTrial, load_runs


def results_of(*records: dict[str, Any], run: str = "run", **changes: Any) -> ArenaResults:
    trials = [ArenaTrial(run, f"/{n}", TrialMeta.model_validate(each)) for n, each in enumerate(records)]
    return ArenaResults(runs=(Path("/results/run"),), trials=tuple(trials), **changes)


@pytest.fixture
def board(tmp_path: Path) -> Leaderboard:
    return make_leaderboard(load_runs([small_results(tmp_path / "results")]))


def row_of(board: Leaderboard, agent: str, task: str | None = None) -> Row:
    rows = board.tasks if task else board.agents
    return next(row for row in rows if (row.agent, row.task) == (agent, task))


def test_the_figures_of_an_agent(board: Leaderboard) -> None:
    row = row_of(board, "claude-code")
    assert row.score.mean == pytest.approx((0.825 + 0.45) / 2)  # of two tasks with two trials each
    assert (row.score.unit, row.score.n) == ("task", 2)
    assert row.pass_rate.mean == 0.5
    assert row.outcomes == {"limit": 1, "solved": 2, "unsolved": 1}
    assert (row.trials.planned, row.trials.finished, row.trials.valid, row.trials.scored) == (4, 4, 4, 4)
    assert (row.cost_usd.value, row.cost_usd.partial) == (2.75, True)
    assert row.cost_per_trial_usd == pytest.approx(2.75 / 4)
    assert row.cost_per_solved_usd == pytest.approx(2.75 / 2)
    assert row.median_duration_s == 60


def test_a_trial_that_is_not_valid_is_in_no_figure_but_the_coverage(board: Leaderboard) -> None:
    row = row_of(board, "aider")
    assert row.score.mean == pytest.approx((0.3 + 0.8) / 2)
    assert (row.trials.planned, row.trials.finished, row.trials.valid) == (4, 3, 2)
    assert (row.cost_usd.value, row.cost_usd.partial, row.cost_usd.unknown) == (pytest.approx(0.7), False, 0)
    assert row.outcomes["infra_error"] == 1
    assert (row.tokens.value, row.tokens.partial, row.tokens.unknown) == (1000, True, 1)


def test_what_attempts_that_do_not_count_cost(board: Leaderboard) -> None:
    assert row_of(board, "aider").uncounted_cost_usd.value == pytest.approx(0.2 + 0.1)
    assert row_of(board, "claude-code").uncounted_cost_usd.value == 0


def test_an_unknown_cost_is_null_and_never_0() -> None:
    board = make_leaderboard(results_of(meta("a", "t", total_cost_usd=None), meta("a", "u", total_cost_usd=None)))
    (row,) = board.agents
    assert (row.cost_usd.value, row.cost_usd.unknown) == (None, 2)
    assert (row.cost_per_trial_usd, row.cost_per_solved_usd, row.on_frontier) == (None, None, False)


def test_nothing_solved_has_no_cost_per_solution() -> None:
    (row,) = make_leaderboard(results_of(meta("a", "t", outcome="unsolved"))).agents
    assert (row.cost_usd.value, row.cost_per_solved_usd) == (0.5, None)


def test_a_cell_has_the_wilson_interval_over_its_trials(board: Leaderboard) -> None:
    cell = row_of(board, "claude-code", "parser")
    assert (cell.pass_rate.unit, cell.pass_rate.n, cell.pass_rate.method) == ("trial", 2, "wilson")
    assert (cell.score.mean, cell.score.low, cell.score.reason) == (0.825, None, "there is only one task")


def test_suites_are_the_first_part_of_the_category(board: Leaderboard) -> None:
    assert [(row.suite, row.agent) for row in board.suites] == [
        ("bugfix", "claude-code"),
        ("bugfix", "aider"),
        ("greenfield", "aider"),
        ("greenfield", "claude-code"),
    ]


def test_the_best_agent_is_first_and_the_frontier_is_marked(board: Leaderboard) -> None:
    assert [(row.agent, row.on_frontier) for row in board.agents] == [("claude-code", True), ("aider", True)]


def test_the_frontier_of_known_points() -> None:
    points: dict[str, tuple[float | None, float | None]] = {
        "cheap": (0.1, 0.3),
        "same as cheap": (0.1, 0.3),
        "dear for less": (0.5, 0.2),
        "good": (0.5, 0.8),
        "worse for the same": (0.5, 0.7),
        "as good, but dearer": (0.6, 0.8),
        "cost unknown": (None, 1.0),
        "score unknown": (0.0, None),
    }
    assert pareto_frontier(points) == {"cheap", "same as cheap", "good"}


def test_calibrated_scores_are_beside_the_raw_ones() -> None:
    results = results_of(meta("a", "t", composite_score=0.65), meta("a", "u", composite_score=0.2))
    (row,) = make_leaderboard(replace(results, calibration={"t": Range(0.3, 1.0)})).agents
    assert row.calibrated is not None
    assert (row.score.mean, row.calibrated.mean, row.calibrated.n) == (pytest.approx(0.425), pytest.approx(0.5), 1)
    board = make_leaderboard(replace(results, calibration={"t": Range(0.3, 1.0)}))
    assert "Not calibrated, and so not in the calibrated score: u." in board.notes
    assert make_leaderboard(results).agents[0].calibrated is None


def test_notes_about_what_cannot_be_compared() -> None:
    other = {**HASH, "agent_hash": "c" * 64}
    notes = make_leaderboard(
        results_of(
            *(meta("a", "t", 1), meta("a", "t", 2, identity=other), meta("a", "u"), meta("b", "t")),
            meta("b", "u", composite_score=None),
        )
    ).notes
    assert notes == (
        "Valid, but without a score, so excluded from means: 1 trial.",
        "b has no score for u: its mean is over fewer tasks.",
        "Trials of different configurations are counted together: a.",
    )


def test_the_newest_trial_of_an_identity_counts_once(tmp_path: Path) -> None:
    later = "2026-03-01T00:00:00Z"
    write_run(tmp_path / "runs" / "1", [meta("a", "t", 1), meta("a", "t", 2)], planned=3)
    write_run(tmp_path / "runs" / "2", [meta("a", "t", 1, composite_score=0.5, completed_at=later)], planned=2)
    board = make_leaderboard(load_runs([tmp_path]), over_runs=True)
    assert [(trial.run, trial.meta.trial, trial.meta.composite_score) for trial in board.trials] == [
        ("2", 1, 0.5),
        ("1", 2, 1.0),
    ]
    assert board.superseded == 1
    assert [each.trial for each in board.unfinished] == [3]
    assert board.coverage.planned == 3
    assert len(make_leaderboard(load_runs([tmp_path])).trials) == 3


def test_trials_without_an_identity_all_count_over_several_runs() -> None:
    results = results_of(meta("a", "t", identity=None), meta("a", "t", identity=None))
    board = make_leaderboard(results, over_runs=True)
    assert (len(board.trials), board.superseded) == (2, 0)


TABLE = [
    ("agent=aid*", 4),
    ("task=parser", 4),
    ("category=greenfield/*", 4),
    ("run=2026-01*", 8),
    ("outcome=limit", 1),
    ("exit_reason=timeout", 1),
    ("flagged", 1),
    ("trial=aider/clock/2", 1),
    ("cost=1.25", 1),
    ("task=unknown", 0),
]


@pytest.mark.parametrize(("rule", "dropped"), TABLE)
def test_each_rule_drops_what_it_says(tmp_path: Path, rule: str, dropped: int) -> None:
    """Of seven trials, and one that was planned."""
    board = make_leaderboard(load_runs([small_results(tmp_path / "results")]), [rule])
    (exclusion,) = board.exclusions
    assert (exclusion.rule, exclusion.matched, exclusion.dropped) == (rule, dropped, dropped)
    assert sum(exclusion.dropped_by_agent.values()) == dropped
    assert board.coverage.planned == 8 - dropped


NOTE = {"kind": "test_edit", "evidence": "a Makefile changed", "severity": "note"}
EVIDENCE = {"kind": "network", "evidence": "curl", "severity": "evidence"}
OLD = {"kind": "network", "evidence": "curl"}


def test_only_evidence_excludes_a_trial_and_the_report_says_of_whom() -> None:
    flags: list[list[dict[str, str]]] = [[], [NOTE], [OLD], [EVIDENCE], [NOTE, EVIDENCE]]
    records = [meta("a", "t", number, flags=each) for number, each in enumerate(flags, 1)]
    board = make_leaderboard(results_of(*records, meta("b", "t", flags=[EVIDENCE])), ["task=none", "flagged"])
    assert [trial.meta.trial for trial in board.trials] == [1, 2, 3]
    assert board.exclusions[-1].dropped_by_agent == {"a": 2, "b": 1}
    (row,) = board.agents
    assert (row.flags, row.flag_notes) == (0, 2)


@pytest.mark.parametrize("rule", ["", "agnet=x", "agent=", "outcome=good", "cost=low", "flagged=yes", "trial=a/1"])
def test_a_wrong_rule_is_an_error_that_names_all(rule: str) -> None:
    with pytest.raises(YouBenchaError, match="rule for --exclude") as raised:
        make_leaderboard(results_of(meta("a", "t")), [rule])
    assert raised.value.hint is not None
    assert "agent=PATTERN, task=PATTERN" in raised.value.hint


RECORDS = st.lists(
    st.builds(
        lambda agent, task, trial, score, outcome, cost, suite: meta(
            *(agent, task, trial),
            composite_score=score,
            outcome=outcome,
            valid=None if outcome is None else not outcome.endswith("_error"),
            total_cost_usd=cost,
            category=suite,
            flags=[EVIDENCE] if score == 1 else [],
        ),
        st.sampled_from("abc"),
        st.sampled_from(["t", "u", "v"]),
        st.integers(1, 3),
        st.one_of(st.none(), st.floats(0, 1), st.just(1.0)),
        st.sampled_from([None, "solved", "unsolved", "limit", "infra_error"]),
        st.one_of(st.none(), st.floats(0, 9)),
        st.sampled_from([None, "x/1", "x/2", "y"]),
    ),
    max_size=12,
    unique_by=lambda each: (each["orchestrator"], each["task"], each["trial"]),
)
RULES = st.lists(st.sampled_from(["agent=a", "task=[tu]", "outcome=solved", "flagged", "cost=0", "category=x/*"]))


@given(RECORDS, st.randoms())
def test_the_order_of_the_trials_makes_no_difference(records: list[dict[str, Any]], rng: random.Random) -> None:
    results = results_of(*records)
    trials = list(results.trials)
    rng.shuffle(trials)
    assert make_leaderboard(replace(results, trials=tuple(trials))) == make_leaderboard(results)


@given(RECORDS, st.integers(0, 3))
def test_coverage_adds_up(records: list[dict[str, Any]], missing: int) -> None:
    unfinished = tuple(UnfinishedTrial("run", "a", "t", 10 + n, None) for n in range(missing))
    board = make_leaderboard(results_of(*records, unfinished=unfinished, planned_known=True))
    for rows in (board.agents, board.tasks, board.suites):
        for name in ("planned", "finished", "valid", "validity_unknown", "scored"):
            assert sum(getattr(row.trials, name) for row in rows) == getattr(board.coverage, name)
        assert sum(row.flags + row.flag_notes for row in rows) == sum(len(record["flags"]) for record in records)
    whole = board.coverage
    assert whole.planned == len(records) + missing
    assert whole.planned >= whole.finished >= whole.valid >= max(whole.scored, whole.validity_unknown)
    assert sum(sum(row.outcomes.values()) for row in board.agents) == whole.finished


@given(RECORDS, RULES)
def test_exclusions_count_exactly_what_is_dropped(records: list[dict[str, Any]], rules: list[str]) -> None:
    results = results_of(*records)
    board = make_leaderboard(results, rules)
    assert [exclusion.rule for exclusion in board.exclusions] == list(dict.fromkeys(rules))
    assert sum(exclusion.dropped for exclusion in board.exclusions) == len(records) - len(board.trials)
    assert all(exclusion.dropped <= exclusion.matched for exclusion in board.exclusions)


@given(RECORDS)
def test_no_figure_is_outside_what_it_is_made_of(records: list[dict[str, Any]]) -> None:
    for row in make_leaderboard(results_of(*records)).agents:
        mine = [record for record in records if record["orchestrator"] == row.agent and record["valid"] is not False]
        scores = [each["composite_score"] for each in mine if each["composite_score"] is not None]
        costs = [each["total_cost_usd"] for each in mine if each["total_cost_usd"] is not None]
        assert (row.score.mean is None) == (not scores)
        if row.score.mean is not None:
            assert min(scores) - 1e-12 <= row.score.mean <= max(scores) + 1e-12
        assert row.cost_usd.value == (pytest.approx(sum(costs)) if costs else None)
        assert row.cost_usd.partial == (bool(costs) and len(costs) < len(mine))
