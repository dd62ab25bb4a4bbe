"""One trial from start to end, and its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.trial.advice import advice_on, missing_here
    from youbencha.trial.directory import EvalPlan, evaluate_directory, make_eval_plan
    from youbencha.trial.finished import Finished
    from youbencha.trial.plan import Plan, make_plan
    from youbencha.trial.whole import run_test_case

__all__ = [
    "EvalPlan",
    "Finished",
    "Plan",
    "advice_on",
    "evaluate_directory",
    "make_eval_plan",
    "make_plan",
    "missing_here",
    "run_test_case",
]

_HOMES = {
    "EvalPlan": "directory",
    "Finished": "finished",
    "Plan": "plan",
    "advice_on": "advice",
    "evaluate_directory": "directory",
    "make_eval_plan": "directory",
    "make_plan": "plan",
    "missing_here": "advice",
    "run_test_case": "whole",
}
"""Who plans a run need not wait for what writes its results."""

__getattr__ = imported_when_asked(__name__, _HOMES)
