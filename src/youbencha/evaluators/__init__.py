"""Evaluate the result of an agent's work.

Evaluators are found by name. Other packages add theirs by an entry point in `youbencha.evaluators`.
"""

from __future__ import annotations

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, Evaluator
from youbencha.plugins import Plugins, load

__all__ = ["EvaluationContext", "Evaluator", "all_evaluators", "evaluator_names", "get_evaluator", "is_built_in"]
GROUP = "youbencha.evaluators"
BUILT_IN = {
    "agentic-judge": "youbencha.evaluators.judge:AgenticJudge",
    "command": "youbencha.evaluators.command:CommandEvaluator",
    "expected-diff": "youbencha.evaluators.expected_diff:ExpectedDiff",
    "git-diff": "youbencha.evaluators.git_diff:GitDiff",
    "validation": "youbencha.evaluators.validation:Validation",
}
_PLUGINS = Plugins(GROUP, BUILT_IN)
_LABELLED_BY_HYPHEN = ("agentic-judge", "command")
"""A test case often has several of these, with a label after a hyphen: `agentic-judge-docs`."""


def evaluator_names() -> list[str]:
    """The names of all evaluators, without labels."""
    return _PLUGINS.names()


def all_evaluators() -> list[Evaluator]:
    """One of each. A broken plugin is an error, as in a run."""
    return [get_evaluator(name) for name in evaluator_names()]


def get_evaluator(name: str) -> Evaluator:
    """A new evaluator by its name, which may have a label after a colon."""
    kind = _kind(name)
    source = _PLUGINS.find(kind)
    if source is None:
        raise YouBenchaError("EVALUATOR_UNKNOWN", f"There is no evaluator called {name!r}.", hint=_PLUGINS.hint(name))
    try:
        evaluator = load(source)()
    except (Exception, SystemExit) as error:
        raise _broken(kind, source, f"cannot be loaded: {error}") from error
    if not isinstance(evaluator, Evaluator):
        raise _broken(kind, source, "lacks name, description, check_config or evaluate")
    return evaluator


def is_built_in(name: str) -> bool:
    return _kind(name) in BUILT_IN


def _kind(name: str) -> str:
    kind = name.partition(":")[0]
    return next((prefix for prefix in _LABELLED_BY_HYPHEN if kind.startswith(f"{prefix}-")), kind)


def _broken(name: str, source: str, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "EVALUATOR_BROKEN",
        f"The evaluator {name} ({source}) {reason}.",
        hint="Contact the author of the package; youbencha.evaluators.Evaluator documents the requirements.",
    )
