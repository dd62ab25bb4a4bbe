"""Problems of an arena's plans, at the lines of the arena that they come from."""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.errors import ConfigError, KeyPath, Problem, ProblemKind, Step, YouBenchaError
from youbencha.spec.arena import OrchestratorSpec, TaskSpec
from youbencha.spec.arena_loader import Arena

_OF_JUDGE: Mapping[Step, str] = {"assertions": "criteria", "type": "agent"}
"""What a rubric calls the keys of an agentic-judge."""


class ArenaProblems:
    """Collects each problem once, although every plan of its orchestrator or task has it."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._found: dict[tuple[KeyPath, str], Problem] = {}

    def add(self, error: YouBenchaError, orchestrator: OrchestratorSpec, task: TaskSpec) -> None:
        """Add what is wrong with a plan."""
        if isinstance(error, ConfigError):
            for problem in error.problems:
                self._add_located(problem, orchestrator, task)
            return
        keys: KeyPath = ()
        hint = error.hint
        if error.code == "AGENT_UNKNOWN":
            is_given = self._arena.entry(orchestrator).orchestrator.agent is not None
            keys = ("agent" if is_given else "name",)
            hint = hint if is_given else f"add an `adapter` or an `agent`; {hint}"
        self._add_of(orchestrator, keys, error.message, hint)

    def add_at(self, path: KeyPath, message: str, hint: str | None, *, kind: ProblemKind = "invalid") -> None:
        problem = self._arena.document.problem(path, message, hint, kind=kind)
        self._found.setdefault((problem.keys, problem.message), problem)

    def raise_if_any(self) -> None:
        if self._found:
            raise self._arena.document.error(list(self._found.values()))

    def _add_located(self, problem: Problem, orchestrator: OrchestratorSpec, task: TaskSpec) -> None:
        """Add a problem of a test case."""
        if problem.line is not None:
            self._found.setdefault((problem.keys, problem.message), problem)
            return
        arena = self._arena
        match problem.keys:
            case ["agent", *rest]:
                self._add_of(orchestrator, tuple(rest), problem.message, problem.hint, kind=problem.kind)
                return
            case ["evaluators", 0, "config", *rest]:
                path = arena.path_of(task, *rest)
            case ["evaluators", _, "config", *rest]:
                path = arena.path_of(task, "rubric", *(_OF_JUDGE.get(step, step) for step in rest))
            case _:
                path = problem.keys
        self.add_at(path, problem.message, problem.hint, kind=problem.kind)

    def _add_of(
        self,
        orchestrator: OrchestratorSpec,
        keys: KeyPath,
        message: str,
        hint: str | None,
        *,
        kind: ProblemKind = "invalid",
    ) -> None:
        """Add a problem of an orchestrator or a variant.

        Of a variant, it is left out if the orchestrator has it, too. If it is with what the orchestrator says, although
        only the variant has it, the variant is named.
        """
        entry = self._arena.entry(orchestrator)
        path = entry.path_of(*keys)
        if entry.variant is not None and ((*entry.orchestrator_path, *keys), message) in self._found:
            return
        if entry.variant is not None and path[: len(entry.variant_path)] != entry.variant_path:
            message = f"for {orchestrator.name}: {message}"
        self.add_at(path, message, hint, kind=kind)
