"""Find an evaluator by its name. Evaluators of others join by an entry point in `youbencha.evaluators`."""

from __future__ import annotations

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import Evaluator
from youbencha.plugins import Plugins, load

GROUP = "youbencha.evaluators"
BUILT_IN = {
    "agentic-judge": "youbencha.evaluators.judge:AgenticJudge",
    "command": "youbencha.evaluators.command:CommandEvaluator",
    "expected-diff": "youbencha.evaluators.expected_diff:ExpectedDiff",
    "git-diff": "youbencha.evaluators.git_diff:GitDiff",
}
_PLUGINS = Plugins(GROUP, BUILT_IN)
_SEVERAL = ("agentic-judge", "command")
"""A test case often has several of these, told apart by what follows a hyphen: `agentic-judge-docs`."""


def evaluator_names() -> list[str]:
    """All that there are, without the labels that a person may add."""
    return _PLUGINS.names()


def all_evaluators() -> list[Evaluator]:
    """One of each. A broken one of somebody else's is an error here too: it would be one in a run."""
    return [get_evaluator(name) for name in evaluator_names()]


def get_evaluator(name: str) -> Evaluator:
    """The evaluator that a person calls NAME, made anew. What follows a colon is a label of theirs."""
    kind = _kind(name)
    where = _PLUGINS.find(kind)
    if where is None:
        raise _unknown(name)
    try:
        evaluator = load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(evaluator, Evaluator):
        raise _broken(kind, where, "lacks name, description, check_config or evaluate")
    return evaluator


def _kind(name: str) -> str:
    kind = name.partition(":")[0]
    return next((several for several in _SEVERAL if kind.startswith(f"{several}-")), kind)


def _unknown(name: str) -> YouBenchaError:
    return YouBenchaError(
        "EVALUATOR_UNKNOWN",
        f"There is no evaluator called {name!r}.",
        hint=_PLUGINS.hint(name),
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "EVALUATOR_BROKEN",
        f"The evaluator {name} ({where}) {why}.",
        hint="Ask the author of its package; youbencha.evaluators.Evaluator says what an evaluator needs.",
    )
