"""Trials that are missing or were retried, perhaps not by accident: what a verdict would be if they had failed.

An agent that makes its bad trials invalid would win by those that are left, or by those that replace them. It cannot do
that to the trials of another agent. So a verdict holds only if it would be the same if all such trials of the agent
that it favours had failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from youbencha.stats.comparison import (
    MARGIN,
    Bound,
    Difference,
    MissingBounds,
    TaskScores,
    Verdict,
    compare_scores,
    estimate_difference,
    verdict_of,
)
from youbencha.stats.intervals import CONFIDENCE

FAILED_SCORE, SOLVED_SCORE = 0.0, 1.0
Agent = Literal[0, 1]
"""The first or the second of a comparison."""
AGENTS: tuple[Agent, Agent] = (0, 1)

FAVOURED: Mapping[Verdict, tuple[Agent, ...]] = {"better": (0,), "worse": (1,), "equivalent": (0, 1), "undecided": ()}
"""The agents that could have caused a verdict by making their bad trials invalid."""


class AgentTrials(NamedTuple):
    """The trials of one agent on one task."""

    scores: tuple[float, ...] = ()
    """Scores of trials that were valid at the first attempt."""
    retried: tuple[float, ...] = ()
    """Scores of trials that are valid, but only after an attempt that was not."""
    missing: int = 0
    """The number of planned trials without a valid result."""

    @property
    def valid(self) -> tuple[float, ...]:
        return (*self.scores, *self.retried)

    @property
    def uncertain(self) -> int:
        return self.missing + len(self.retried)

    def filled(self, score: float) -> tuple[float, ...]:
        """Return the scores as if every missing or retried trial had this one."""
        return (*self.scores, *[score] * self.uncertain)


class TaskTrials(NamedTuple):
    """The trials of both agents on one task."""

    task: str
    first: AgentTrials
    second: AgentTrials

    def of(self, agent: Agent) -> AgentTrials:
        return (self.first, self.second)[agent]

    def filled(self, agent: Agent, score: float) -> TaskScores:
        """Return the scores as if every missing or retried trial of one agent had this one."""
        first, second = (self.of(side).filled(score) if side == agent else self.of(side).valid for side in AGENTS)
        return TaskScores(self.task, first, second)


def compare_with_missing(
    tasks: Sequence[TaskTrials], *, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Difference:
    """Compare two agents as `compare_scores` does, and leave undecided what missing or retried trials could change."""
    valid = [TaskScores(task.task, task.first.valid, task.second.valid) for task in tasks]
    difference = compare_scores(valid, margin=margin, confidence=confidence)
    if not difference.tasks:
        return difference
    bounds = [
        missing_bounds(
            tasks,
            agent,
            if_failed=bound_by(tasks, agent, FAILED_SCORE, confidence=confidence),
            if_solved=bound_by(tasks, agent, SOLVED_SCORE, confidence=confidence),
        )
        for agent in AGENTS
        if any(task.of(agent).uncertain for task in tasks)
    ]
    return with_bounds(difference, bounds, margin)


def bound_by(tasks: Sequence[TaskTrials], agent: Agent, score: float, *, confidence: float = CONFIDENCE) -> Bound:
    """Compare two agents as if every missing or retried trial of one of them had this score."""
    return estimate_difference([task.filled(agent, score) for task in tasks], confidence=confidence)


def missing_bounds(tasks: Sequence[TaskTrials], agent: Agent, *, if_failed: Bound, if_solved: Bound) -> MissingBounds:
    trials = [task.of(agent) for task in tasks]
    missing = sum(cell.missing for cell in trials)
    return MissingBounds(
        of_first=agent == 0,
        missing=missing,
        retried=sum(len(cell.retried) for cell in trials),
        trials=missing + sum(len(cell.valid) for cell in trials),
        if_failed=if_failed,
        if_solved=if_solved,
    )


def with_bounds(difference: Difference, bounds: Sequence[MissingBounds], margin: float) -> Difference:
    """Leave what the missing or retried trials of an agent could overturn undecided. `bounds` has those of each."""
    if not bounds:
        return difference
    if_failed = {_agent(bound): verdict_of(bound.if_failed.on_these_tasks, margin) for bound in bounds}
    elsewhere = {_agent(bound): verdict_of(bound.if_failed.on_tasks_like_these, margin) for bound in bounds}
    verdict = confirmed(difference.verdict, if_failed)
    return replace(
        difference,
        verdict=verdict,
        verdict_on_tasks_like_these=confirmed(difference.verdict_on_tasks_like_these, elsewhere),
        bounds=_most_telling(difference, bounds, if_failed),
        overturned=verdict != difference.verdict,
    )


def confirmed(verdict: Verdict, if_failed: Mapping[Agent, Verdict]) -> Verdict:
    """Return the verdict if it holds although the trials of the agents it favours had failed; else `undecided`.

    `if_failed` has the verdict if an agent's missing and retried trials had failed, for each agent that has some.
    """
    return verdict if all(if_failed.get(agent, verdict) == verdict for agent in FAVOURED[verdict]) else "undecided"


def _most_telling(
    difference: Difference, bounds: Sequence[MissingBounds], if_failed: Mapping[Agent, Verdict]
) -> MissingBounds:
    """Return the bounds to show: those that overturn the verdict, else those of the agent that seems better."""
    leader: Agent = 0 if (difference.estimate or 0) >= 0 else 1
    favoured = FAVOURED[difference.verdict]

    def rank(bound: MissingBounds) -> tuple[bool, bool, int]:
        agent = _agent(bound)
        overturns = agent in favoured and if_failed[agent] != difference.verdict
        return overturns, agent == leader, bound.uncertain

    return max(bounds, key=rank)


def _agent(bounds: MissingBounds) -> Agent:
    return 0 if bounds.of_first else 1
