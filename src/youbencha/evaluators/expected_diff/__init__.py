"""How close the agent came to a reference."""

from youbencha.evaluators.expected_diff.evaluator import ExpectedDiff

__all__ = ["ExpectedDiff"]
