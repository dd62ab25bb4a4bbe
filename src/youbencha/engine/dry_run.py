"""Describe a matrix before it runs: what runs in which order, and the most that it can cost and take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.reuse import Reusable
from youbencha.report.commit_files import CommitFiles, commit_notes
from youbencha.spec.arena import NULL
from youbencha.spec.gateway import GatewaySpec, Scope
from youbencha.store.arena import TrialKey
from youbencha.text import first_few, format_count, format_duration, format_usd, plural, table
from youbencha.workspace import public_url

_FIRST = 6
_WIDTH = 160
_ORCHESTRATOR = ("ORCHESTRATOR", "AGENT", "VERSION", "MODEL", "SANDBOX", "PER TRIAL", "COMPARED WITH")
_TASK = ("TASK", "CATEGORY", "TAG", "COMMIT", "TIME LIMIT")


class CostBound(NamedTuple):
    """The most that a run can cost; None, with a reason, if nothing limits it."""

    usd: Decimal | None
    with_retries_usd: Decimal | None = None
    """If every attempt but the last fails for reasons other than the agent."""
    reason: str | None = None


class ExpectedCost(NamedTuple):
    usd: float | None
    """None if it is unknown for every trial."""
    unknown: int
    """How many trials have an unknown cost."""


@dataclass(frozen=True, kw_only=True)
class PlanDescription:
    matrix: Matrix
    parallel: int
    attempts: int
    reusable: Reusable | None = None
    """The results that `--reuse` found."""

    @property
    def trials(self) -> int:
        """The maximum number of trials."""
        return self.matrix.total

    @cached_property
    def _reused(self) -> Counter[tuple[str, str]]:
        """The number of reused trials of each orchestrator on each task."""
        return Counter((key.orchestrator, key.task) for key in (self.reusable.trials if self.reusable else ()))

    def to_run(self, cell: Cell) -> int:
        """Return how many trials of a cell are left to run, at most."""
        return self.matrix.trials - self._reused[cell.orchestrator, cell.task]

    @property
    def expected_cost(self) -> ExpectedCost:
        """The cost of the trials left to run, if they cost as much as earlier ones of the same cell."""
        costs, known, amount = self.reusable.costs if self.reusable else {}, 0, 0.0
        for cell in self.matrix.cells:
            if (cost := costs.get((cell.orchestrator, cell.task))) is not None:
                known += self.to_run(cell)
                amount += self.to_run(cell) * cost
        return ExpectedCost(amount if known else None, sum(map(self.to_run, self.matrix.cells)) - known)

    @property
    def worst_case(self) -> CostBound:
        return worst_case(self.matrix, self.attempts, self.to_run)

    @property
    def longest_s(self) -> float:
        """For the agents alone: the time limits, as if the longest trial were the last to start."""
        limits = [(cell.plan.timeout_s, left) for cell in self.matrix.cells if (left := self.to_run(cell))]
        longest = max((limit for limit, _ in limits), default=0.0)
        together = sum(limit * left for limit, left in limits)
        if self.matrix.until_decided:
            together = longest * self.trials
        return (together - longest) / self.parallel + longest

    def as_data(self) -> dict[str, Any]:
        """The description as JSON data. What is not limited is null."""
        worst, until_decided = self.worst_case, self.matrix.until_decided
        return {
            "orchestrators": [
                {**_orchestrator(cell), "baseline": self.matrix.baselines.get(cell.orchestrator)}
                for cell in _unique(self.matrix.cells, "orchestrator")
            ],
            "tasks": [_task(cell) for cell in _unique(self.matrix.cells, "task")],
            "trials_each": None if until_decided else self.matrix.trials,
            "trials": self.trials,
            "until_decided": until_decided.model_dump() if until_decided else None,
            "parallel": self.parallel,
            "attempts": self.attempts,
            "reuse": self._reuse_data(self.reusable) if self.reusable else None,
            "order": [key._asdict() for key in self._first_trials()],
            "cells": [
                {
                    "orchestrator": cell.orchestrator,
                    "task": cell.task,
                    "per_trial_usd": _number(trial_cap(cell)),
                    "agent_hash": cell.agent_hash,
                    "validation_hash": cell.validation_hash,
                    "commit_files": list(cell.commit_files),
                }
                for cell in self.matrix.cells
            ],
            "worst_case_usd": _number(worst.usd),
            "worst_case_with_retries_usd": _number(worst.with_retries_usd),
            "worst_case_reason": worst.reason,
            "longest_s": round(self.longest_s, 3),
        }

    def as_text(self) -> str:
        return "\n".join(self._lines())

    def _first_trials(self) -> list[TrialKey]:
        reused = self.reusable.trials if self.reusable else ()
        return list(islice((key for key, _ in self.matrix.order() if key not in reused), _FIRST))

    def _reuse_data(self, reusable: Reusable) -> dict[str, Any]:
        expected, until_decided = self.expected_cost, self.matrix.until_decided
        to_run: Counter[str] = Counter()
        for cell in self.matrix.cells:
            to_run[cell.orchestrator] += self.to_run(cell)
        return {
            "reused": len(reusable.trials),
            "rescored": reusable.rescored,
            "to_run": None if until_decided else to_run.total(),
            "to_run_by_orchestrator": None if until_decided else dict(to_run),
            "expected_usd": None if until_decided else expected.usd,
            "trials_of_unknown_cost": None if until_decided else expected.unknown,
        }

    def _reuse_lines(self, reusable: Reusable) -> Iterator[str]:
        data = self._reuse_data(reusable)
        again = f", {format_count(data['rescored'])} of them scored again" if data["rescored"] else ""
        yield f"reused        {plural(data['reused'], 'trial')}{again}"
        if data["to_run"] is None:
            return
        which = first_few(
            [f"{name} {format_count(left)}" for name, left in data["to_run_by_orchestrator"].items() if left]
        )
        yield f"to run        {plural(data['to_run'], 'trial')}{f': {which}' if which else ''}"
        if data["to_run"]:
            yield f"cost          {_expected_in_words(self.expected_cost)}"

    def _lines(self) -> Iterator[str]:
        agents, tasks = _unique(self.matrix.cells, "orchestrator"), _unique(self.matrix.cells, "task")
        rows = [(*_orchestrator_row(cell), self.matrix.baselines.get(cell.orchestrator, "-")) for cell in agents]
        yield table(_ORCHESTRATOR, rows, width=_WIDTH, right=("PER TRIAL",))
        yield ""
        yield table(_TASK, map(_task_row, tasks), width=_WIDTH, right=("TIME LIMIT",))
        yield ""
        notes = commit_notes(CommitFiles(cell.task, cell.orchestrator, cell.commit_files) for cell in self.matrix.cells)
        yield from (f"note: {note}" for note in notes)
        pairs = f"{plural(len(agents), 'orchestrator')} x {plural(len(tasks), 'task')}"
        trials = f"{format_count(self.trials)} ({pairs} x {format_count(self.matrix.trials)})"
        if self.matrix.until_decided:
            margin = self.matrix.until_decided.margin
            trials = f"at most {format_count(self.trials)} ({pairs}), until decided with a margin of {margin:g}"
        yield f"trials        {trials}, {format_count(self.parallel)} at a time"
        if self.reusable:
            yield from self._reuse_lines(self.reusable)
        first = self._first_trials()
        more = ", …" if len(first) < self.trials - self._reused.total() else ""
        if first:
            yield f"order         {', '.join(f'{key.orchestrator}/{key.task}/{key.number}' for key in first)}{more}"
        yield f"longest time  {format_duration(self.longest_s * 1000)} for the agents, without validation and retries"
        yield f"worst case    {_cost_in_words(self.worst_case, self.attempts)}"


def describe_plan(
    matrix: Matrix, *, parallel: int = 1, attempts: int = 1, reusable: Reusable | None = None
) -> PlanDescription:
    return PlanDescription(matrix=matrix, parallel=parallel, attempts=attempts, reusable=reusable)


def worst_case(matrix: Matrix, attempts: int, to_run: Callable[[Cell], int]) -> CostBound:
    """Add up the caps of all trials, of each orchestrator at most its own, and of all at most the total."""
    total = min((cap for cell in matrix.cells if (cap := _cap(cell, "total")) is not None), default=None)
    if total is None and (judged := next((cell for cell in matrix.cells if cell.plan.has_judge), None)):
        return CostBound(None, reason=f"nothing limits the judge of {judged.task}: set budgets.total_usd")
    amounts: list[Decimal] = []
    for times in (1, attempts):
        amount = Decimal(0)
        for cells in _by_orchestrator(cell for cell in matrix.cells if to_run(cell)):
            spent = _most_of_one(cells, [times * to_run(cell) for cell in cells])
            if spent is None and total is None:
                name = cells[0].orchestrator
                return CostBound(None, reason=f"nothing limits {name}: set a budget, or use --budget")
            amount += total if spent is None and total is not None else spent or Decimal(0)
        amounts.append(amount if total is None else min(amount, total))
    if matrix.until_decided and None not in (caps := [trial_cap(cell) for cell in matrix.cells]):
        most = max(cap for cap in caps if cap is not None) * matrix.total
        amounts = [min(amounts[0], most), min(amounts[1], most * attempts)]
    return CostBound(amounts[0], amounts[1])


def trial_cap(cell: Cell) -> Decimal | None:
    """The most that one trial's agent can spend; None if nothing limits it."""
    if cell.plan.case.gateway is not None and cell.plan.case.gateway.type == "none":
        return Decimal(0) if cell.orchestrator == NULL else None
    caps = (_cap(cell, "trial"), _cap(cell, "agent"), _cap(cell, "total"))
    return min((cap for cap in caps if cap is not None), default=None)


def _most_of_one(cells: list[Cell], trials: list[int]) -> Decimal | None:
    """The most that the trials of one orchestrator can spend."""
    caps = [(trial_cap(cell), times) for cell, times in zip(cells, trials, strict=True)]
    own = min((cap for cell in cells if (cap := _cap(cell, "agent")) is not None), default=None)
    if any(cap is None for cap, _ in caps):
        return own
    amount = sum((cap * times for cap, times in caps if cap is not None), Decimal(0))
    return amount if own is None else min(amount, own)


def _cap(cell: Cell, scope: Scope) -> Decimal | None:
    dollars, _ = (cell.plan.case.gateway or GatewaySpec()).caps[scope]
    return None if dollars is None else Decimal(str(dollars))


def _by_orchestrator(cells: Iterable[Cell]) -> list[list[Cell]]:
    cells_by_agent: dict[str, list[Cell]] = {}
    for cell in cells:
        cells_by_agent.setdefault(cell.orchestrator, []).append(cell)
    return list(cells_by_agent.values())


def _unique(cells: Iterable[Cell], field: str) -> list[Cell]:
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(getattr(cell, field), cell)
    return list(first.values())


def _orchestrator(cell: Cell) -> dict[str, Any]:
    plan = cell.plan
    return {
        "name": cell.orchestrator,
        "agent": plan.case.agent.type,
        "version": plan.case.agent.version,
        "model": plan.model,
        "sandbox": plan.sandbox.type,
        "image": plan.sandbox.image,
        "per_trial_usd": _number(trial_cap(cell)),
    }


def _task(cell: Cell) -> dict[str, Any]:
    case = cell.plan.case
    return {
        "id": cell.task,
        "category": cell.category,
        "repo": public_url(case.repo),
        "tag": case.branch,
        "commit": case.commit,
        "time_limit_s": cell.plan.timeout_s,
    }


def _orchestrator_row(cell: Cell) -> tuple[str, ...]:
    data = _orchestrator(cell)
    sandbox = data["image"] or data["sandbox"]
    cap = "no limit" if data["per_trial_usd"] is None else format_usd(data["per_trial_usd"])
    return (data["name"], data["agent"], data["version"] or "-", data["model"] or "-", sandbox, cap)


def _task_row(cell: Cell) -> tuple[str, ...]:
    data = _task(cell)
    limit = format_duration(data["time_limit_s"] * 1000)
    return (data["id"], data["category"] or "-", data["tag"] or "-", (data["commit"] or "-")[:12], limit)


def _cost_in_words(worst: CostBound, attempts: int) -> str:
    if worst.usd is None or worst.with_retries_usd is None:
        return f"unlimited: {worst.reason}"
    retries = f"; {format_usd(float(worst.with_retries_usd))} if each is tried {attempts} times" if attempts > 1 else ""
    return f"{format_usd(float(worst.usd))}{retries}"


def _expected_in_words(expected: ExpectedCost) -> str:
    if expected.usd is None:
        return "unknown: no earlier trial of these orchestrators and tasks has a known cost"
    unknown = f"; the cost of {plural(expected.unknown, 'trial')} is unknown" if expected.unknown else ""
    return f"about {format_usd(expected.usd)}, based on earlier trials{unknown}"


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
