"""Find an evaluator by its name. Evaluators of others join by an entry point in `youbencha.evaluators`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import Evaluator

GROUP = "youbencha.evaluators"
BUILT_IN: Mapping[str, str] = {
    "agentic-judge": "youbencha.evaluators.judge:AgenticJudge",
    "command": "youbencha.evaluators.command:CommandEvaluator",
    "expected-diff": "youbencha.evaluators.expected_diff:ExpectedDiff",
    "git-diff": "youbencha.evaluators.git_diff:GitDiff",
}
"""Nobody else's entry point replaces one of these, so whoever asks for one need not wait until all are read."""
_SEVERAL = ("agentic-judge", "command")
"""A test case often has several of these, told apart by what follows a hyphen: `agentic-judge-docs`."""


def evaluator_names() -> list[str]:
    """All that there are, without the labels that a person may add."""
    return sorted({*BUILT_IN, *_foreign()})


def all_evaluators() -> list[Evaluator]:
    """One of each. A broken one of somebody else's is an error here too: it would be one in a run."""
    return [get_evaluator(name) for name in evaluator_names()]


def get_evaluator(name: str) -> Evaluator:
    """The evaluator that a person calls NAME, made anew. What follows a colon is a label of theirs."""
    kind = _kind(name)
    where = BUILT_IN.get(kind) or _foreign().get(kind)
    if where is None:
        raise _unknown(name)
    try:
        evaluator = _load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(evaluator, Evaluator):
        raise _broken(kind, where, "lacks name, description, check_config or evaluate")
    return evaluator


def _kind(name: str) -> str:
    kind = name.partition(":")[0]
    return next((several for several in _SEVERAL if kind.startswith(f"{several}-")), kind)


def _load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def _foreign() -> dict[str, str]:
    from importlib.metadata import entry_points  # tens of milliseconds, that few runs need

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _unknown(name: str) -> YouBenchaError:
    from youbencha.spec.messages import did_you_mean

    names = evaluator_names()
    near = did_you_mean(name, names)
    listed = f"There are: {', '.join(names)}. Install the package that brings yours, or mend the name."
    return YouBenchaError(
        "EVALUATOR_UNKNOWN",
        f"There is no evaluator called {name!r}.",
        hint=f"{near[0].upper()}{near[1:]} {listed}" if near else listed,
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "EVALUATOR_BROKEN",
        f"The evaluator {name} ({where}) {why}.",
        hint="Ask the author of its package; youbencha.evaluators.Evaluator says what an evaluator needs.",
    )
