"""Judge an agent's work with another agent."""

from youbencha.evaluators.judge.evaluator import AgenticJudge
from youbencha.evaluators.judge.setup import judge_definition

__all__ = ["AgenticJudge", "judge_definition"]
