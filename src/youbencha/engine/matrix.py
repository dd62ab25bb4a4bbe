"""The matrix of a run: which agent does which task how often, and in which order.

Hashes tell whether two trials are comparable. No value of a secret is in them: variables stay references. The version
of the harness is not part of them: a newer one may reuse the trials of an older one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from youbencha.evaluators.base import VALIDATION
from youbencha.spec.agent_files import AgentFiles
from youbencha.spec.base import trial_identity
from youbencha.store.arena import TrialKey, UntilDecided
from youbencha.trial.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One orchestrator on one task. Its trials all run the same plan."""

    orchestrator: str
    task: str
    plan: Plan
    task_text: str
    """The task's description, for `task.md`."""
    agent_hash: str
    """Hash of everything that the agent's work depends on."""
    validation_hash: str
    """Hash of everything else that the scores depend on."""
    files: str | None = None
    """The digest of the files that the agent gets besides those of its task, which is part of its hash."""
    category: str | None = None
    changes: tuple[str, ...] = ()
    """The keys in which a variant differs from its orchestrator."""
    commit_files: tuple[str, ...] = ()
    """Files of the task's commit that the agent reads on its own: instructions, skills and settings."""
    rerun: frozenset[int] = frozenset()
    """The numbers of the trials of which a run that is reused had a result that was not valid."""

    @property
    def validation_key(self) -> tuple[str | None, ...]:
        """Equal for all orchestrators whose work on the task is validated in the same way."""
        sandbox, validations = self.plan.sandbox, [entry for entry in self.plan.evaluators if entry.name == VALIDATION]
        image = next((entry.config["image"] for entry in validations if entry.config.get("image")), sandbox.image)
        return self.task, self.validation_hash, sandbox.type, image

    @property
    def provider(self) -> str | None:
        """The provider of its model, as far as it is known."""
        return self.plan.gateway.provider if self.plan.gateway else None


@dataclass(frozen=True, kw_only=True)
class Matrix:
    cells: tuple[Cell, ...]
    trials: int
    """How many trials each cell has."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """What each orchestrator is compared with, if with another one of the matrix."""
    until_decided: UntilDecided | None = None
    """Set if the trials end as soon as every comparison is decided. Then `trials` is the most that can be needed."""

    @property
    def total(self) -> int:
        """How many trials there are, at most."""
        return self.until_decided.max_trials if self.until_decided else len(self.cells) * self.trials

    def order(self) -> Iterator[tuple[TrialKey, Cell]]:
        """Yield every trial, interleaved: agents meet a task under the same conditions, none always first.

        All first trials come before all second ones, so that a run that is stopped has compared all agents.
        """
        for number, (position, cells) in product(range(1, self.trials + 1), enumerate(self._by_task.values())):
            shift = (number - 1 + position) % len(cells)
            for cell in (*cells[shift:], *cells[:shift]):
                yield TrialKey(cell.orchestrator, cell.task, number), cell

    def place(self, key: TrialKey) -> tuple[int, int, int]:
        """Return the sort key of a trial in this order."""
        position, agent = self._places[key.orchestrator, key.task]
        return key.number, position, (agent - (key.number - 1 + position)) % len(self._by_task[key.task])

    def find(self, key: TrialKey) -> Cell | None:
        """Return the cell of a trial; None if it has no such trial."""
        place = self._places.get((key.orchestrator, key.task))
        return self._by_task[key.task][place[1]] if place and 1 <= key.number <= self.trials else None

    @cached_property
    def _by_task(self) -> dict[str, list[Cell]]:
        by_task: dict[str, list[Cell]] = {}
        for cell in self.cells:
            by_task.setdefault(cell.task, []).append(cell)
        return by_task

    @cached_property
    def _places(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The positions of each cell's task, and of its orchestrator among those on the task."""
        return {
            (cell.orchestrator, cell.task): (position, agent)
            for position, cells in enumerate(self._by_task.values())
            for agent, cell in enumerate(cells)
        }


def agent_hash(plan: Plan, files: str | None, script: Path | None = None) -> str:
    """Hash everything that the agent's work depends on.

    `files` is the digest of the files that the agent gets, `script` its adapter script or the file with its prompt.
    """
    case = plan.case
    given = {"files": files} if files is not None else {}  # other hashes are as before there were such files
    return _hash(
        {
            **given,
            "agent": trial_identity(case.agent, exclude=AgentFiles.model_fields),
            "script": hashlib.sha256(script.read_bytes()).hexdigest() if script else None,
            "model": plan.model,
            "commit": case.commit,
            "timeout_ms": round(plan.timeout_s * 1000),
            "sandbox": trial_identity(plan.sandbox),
            "gateway": trial_identity(case.gateway) if case.gateway else None,
        }
    )


def validation_hash(plan: Plan) -> str:
    """Hash everything else that the scores depend on: the evaluators, with commits in place of tags."""
    return _hash([[evaluator.name, dict(evaluator.config)] for evaluator in plan.evaluators])


def _hash(content: Any) -> str:
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()
