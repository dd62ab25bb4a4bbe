"""Judge an agent's work with another agent."""

from youbencha.evaluators.judge.agent import judge_definition
from youbencha.evaluators.judge.evaluator import AgenticJudge

__all__ = ["AgenticJudge", "judge_definition"]
