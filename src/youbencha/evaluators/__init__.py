"""Evaluate the result of an agent's work.

Evaluators are found by name. Other packages add theirs by an entry point in `youbencha.evaluators`.
"""

from __future__ import annotations

from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, Evaluator, EvaluatorBase
from youbencha.evaluators.external import ExternalEvaluator
from youbencha.plugins import Plugins, load

__all__ = ["EvaluationContext", "Evaluator", "EvaluatorBase", "all_evaluators", "evaluator_names", "get_evaluator"]
GROUP = "youbencha.evaluators"
BUILT_IN = {
    "agentic-judge": "youbencha.evaluators.judge:AgenticJudge",
    "command": "youbencha.evaluators.command:CommandEvaluator",
    "expected-diff": "youbencha.evaluators.expected_diff:ExpectedDiff",
    "git-diff": "youbencha.evaluators.git_diff:GitDiff",
    "validation": "youbencha.evaluators.validation:Validation",
}
_PLUGINS = Plugins(GROUP, BUILT_IN)


def evaluator_names() -> list[str]:
    """Return the names of all evaluators, without labels."""
    return _PLUGINS.names()


def all_evaluators() -> list[EvaluatorBase[Any]]:
    """Return one of each. A broken plugin is an error, as in a run."""
    return [get_evaluator(name) for name in evaluator_names()]


def get_evaluator(name: str) -> EvaluatorBase[Any]:
    """Return a new evaluator by its name, which may have a label after a colon, or for some kinds after a hyphen."""
    kind = name.partition(":")[0]
    if kind in BUILT_IN:
        return _load_built_in(kind)
    for prefix in BUILT_IN:
        if kind.startswith(f"{prefix}-") and (evaluator := _load_built_in(prefix)).takes_label:
            return evaluator
    source = _PLUGINS.find(kind)
    if source is None:
        raise YouBenchaError("EVALUATOR_UNKNOWN", f"There is no evaluator called {name!r}.", hint=_PLUGINS.hint(name))
    try:
        external = load(source)()
    except (Exception, SystemExit) as error:
        raise _broken(kind, source, f"cannot be loaded: {error}") from error
    if not isinstance(external, Evaluator):
        raise _broken(kind, source, "lacks name, description, check_config or evaluate")
    return ExternalEvaluator(external)


def _load_built_in(kind: str) -> EvaluatorBase[Any]:
    evaluator: EvaluatorBase[Any] = load(BUILT_IN[kind])()
    return evaluator


def _broken(name: str, source: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "EVALUATOR_BROKEN",
        f"The evaluator {name} ({source}) {reason}.",
        hint="Contact the author of the package; youbencha.evaluators.Evaluator documents the requirements.",
    )
