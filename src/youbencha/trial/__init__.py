"""One trial from start to end, and its outcome."""

from youbencha.trial.advice import advice_on
from youbencha.trial.directory import EvalPlan, evaluate_directory, make_eval_plan
from youbencha.trial.plan import Plan, make_plan
from youbencha.trial.run import Finished, run_test_case

__all__ = [
    "EvalPlan",
    "Finished",
    "Plan",
    "advice_on",
    "evaluate_directory",
    "make_eval_plan",
    "make_plan",
    "run_test_case",
]
