"""How much the agent changed, and where."""

from youbencha.evaluators.git_diff.evaluator import GitDiff

__all__ = ["GitDiff"]
