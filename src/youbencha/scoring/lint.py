"""Count the issues that a linter or a compiler reports, and score those that the agent added."""

from __future__ import annotations

COST_OF_AN_ISSUE = 0.1


def count_issues(text: str, exit_code: int | None) -> int | None:
    """How many issues are reported. None if that cannot be told: the command failed, and lists none."""
    raise NotImplementedError


def lint_score(issues: int | None, baseline_issues: int | None) -> float | None:
    """1, less a tenth for each issue more than in the untouched task.

    Output that could not be parsed scores 0 if that of the untouched task could be; else nothing is measured.
    """
    if baseline_issues is None:
        return None
    if issues is None:
        return 0.0
    return max(0.0, 1 - COST_OF_AN_ISSUE * max(0, issues - baseline_issues))
