"""Run the tests, or any program, on what the agent left behind."""

from youbencha.evaluators.command.evaluator import CommandEvaluator

__all__ = ["CommandEvaluator"]
