"""Look at what an agent left behind, and say whether it is right."""

from youbencha.evaluators.base import EvaluationContext, Evaluator
from youbencha.evaluators.registry import all_evaluators, evaluator_names, get_evaluator

__all__ = ["EvaluationContext", "Evaluator", "all_evaluators", "evaluator_names", "get_evaluator"]
