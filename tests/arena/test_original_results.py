"""The 2,930 published results of the original Thunderdome, against its published leaderboard.

`tests/data/thunderdome/results.csv.gz` has the figures of github.com/signalnine/thunderdome at commit 80fc1227.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from arena_trees import original, write_run
from youbencha.report.leaderboard import make_leaderboard
from youbencha.store.read import ArenaResults, load_runs

RESULTS = Path(__file__).parent.parent / "data" / "thunderdome" / "results.csv.gz"
HARD = {
    f"bench-{name}"
    for name in (
        "constraint-scheduler",
        "structural-merge",
        "financial-ledger",
        "permission-maze",
        "reactive-spreadsheet",
        "circuit-debugger",
        "beam-splitter",
        "factory-reset",
    )
}
PUBLISHED = """
conclave-review-opus 87.4 88.2 139 1.86
superpowers-plans-opus 86.8 88.3 57 1.26
bmad-oauth-opus 84.7 89.9 57 1.74
stacked-oauth-opus 86.0 87.5 64 1.58
conclave-v6-sonnet 85.8 87.2 84 1.11
agent-teams-oauth-opus 87.5 85.1 73 3.29
metacog-inversion-opus 85.4 86.4 66 1.03
conclave-v6-opus 86.0 85.2 76 2.12
gas-station-oauth-opus 88.9 81.3 39 1.07
metacog-banishing-opus 86.2 83.8 19 1.05
tango-and-cash-opus 83.3 86.4 59 1.10
metacog-pivot-opus 84.5 85.1 59 0.98
metacog-fool-opus 84.9 84.0 20 1.23
metacog-invocation-opus 84.8 83.7 57 1.32
metacog-gift-opus 83.3 84.8 18 1.42
claude-code-oauth-opus 88.0 80.0 35 1.18
metacog-oauth-opus 88.0 79.5 58 1.17
gastown-oauth-opus 79.8 86.3 61 2.38
gsd-oauth-opus 84.4 81.5 57 1.13
metacog-reset-opus 85.7 80.2 20 1.68
metacog-error-opus 84.8 80.5 57 1.42
metacog-drift-opus 87.0 78.4 19 1.30
metacog-veil-opus 85.4 79.8 19 1.16
metacog-stack-opus 85.7 79.1 19 1.29
claude-code-self-review-opus 86.1 77.8 19 1.23
crush-glm5 89.1 74.3 30 0.73
metacog-mirror-opus 83.6 78.9 19 1.41
gemini-cli 80.9 80.8 60 0.14
superpowers-verify-opus 86.0 75.7 19 0.94
metacog-sacrifice-opus 80.8 80.6 19 1.16
metacog-anchor-opus 85.6 75.7 19 0.92
metacog-scrying-opus 87.3 72.6 19 1.32
superpowers-debug-opus 84.6 70.0 28 1.16
amplifier-gemini-3-flash 78.7 72.7 17 0.02
exomonad-oauth-opus 66.8 82.9 22 0.84
cerebras-cli-ralph 69.9 74.9 25 0.00
crush-nemotron-120b 66.2 72.5 49 2.24
crush-kimi-k25 72.9 59.8 64 0.47
crush-minimax-m25 71.9 51.6 66 0.47
crush-glm47-flash 63.7 49.1 61 0.51
fl-supervisor-opus 51.3 37.6 100 0.26
fl-supervisor-pro 51.2 37.6 110 0.14
""".strip().split("\n")
"""The mean score in percent over standard and over hard tasks, the number of trials, and what one cost."""


def write_results(results: Path) -> None:
    """Write the published figures as a results tree of the original."""
    runs: dict[str, list[dict[str, object]]] = {}
    with gzip.open(RESULTS, "rt", newline="") as file:
        for row in csv.DictReader(file):
            figures = {
                "exit_reason": row["exit_reason"],
                "composite_score": float(row["composite_score"]),
                "total_tokens": int(row["total_tokens"]),
                "total_cost_usd": float(row["total_cost_usd"]),
            }
            record = original(row["orchestrator"], row["task"], int(row["trial"]), **figures)
            runs.setdefault(row["run"], []).append(record)
    for name, records in runs.items():
        write_run(results / "runs" / name, records)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ArenaResults:
    results = tmp_path_factory.mktemp("original")
    write_results(results)
    return load_runs([results])


@pytest.mark.full
def test_41_of_42_published_rows(loaded: ArenaResults) -> None:
    """They leave out what cost nothing. One of them is of trials that all cost nothing: its rule was another one."""
    tasks = {trial.meta.task for trial in loaded.trials}
    everything, standard, hard = (
        {row.agent: row for row in make_leaderboard(loaded, ["cost=0", *rules], over_runs=True).agents}
        for rules in ([], [f"task={task}" for task in HARD], [f"task={task}" for task in tasks - HARD])
    )
    reproduced = [
        (
            name,
            *(f"{100 * (rows[name].score.mean or 0):.1f}" for rows in (standard, hard)),
            str(everything[name].trials.finished),
            f"{everything[name].cost_per_trial_usd:.2f}",
        )
        for name in (line.split()[0] for line in PUBLISHED)
        if name in standard and name in hard
    ]
    assert len(reproduced) == 41
    assert set(map(" ".join, reproduced)) <= set(PUBLISHED)


@pytest.mark.full
def test_778_costs_were_not_measured_and_no_result_is_lost(loaded: ArenaResults) -> None:
    assert len(loaded.trials) == 2930
    assert sum(trial.meta.total_cost_usd is None for trial in loaded.trials) == 778
    board = make_leaderboard(loaded, over_runs=True)
    assert (board.coverage.finished, board.coverage.scored) == (2930, 2930)
    assert all(row.cost_per_trial_usd != 0 for row in board.agents)
