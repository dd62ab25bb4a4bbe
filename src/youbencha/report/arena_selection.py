"""Choose the trials that a report is about: rules that exclude trials, and the newest of several equal trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import get_args

from youbencha.errors import YouBenchaError
from youbencha.store.bundle import OutcomeName
from youbencha.store.legacy import is_original
from youbencha.store.read import ArenaResults, ArenaTrial, UnfinishedTrial
from youbencha.text import did_you_mean, first_few

Listed = ArenaTrial | UnfinishedTrial
Matches = Callable[[Listed, str], bool]


def _agent(trial: Listed, pattern: str) -> bool:
    return fnmatchcase(trial.key.orchestrator, pattern)


def _task(trial: Listed, pattern: str) -> bool:
    return fnmatchcase(trial.key.task, pattern)


def _category_name(trial: Listed) -> str | None:
    return trial.meta.category if isinstance(trial, ArenaTrial) else trial.category


def _category(trial: Listed, pattern: str) -> bool:
    category = _category_name(trial)
    return category is not None and fnmatchcase(category, pattern)


def in_category(category: str | None, patterns: Iterable[str]) -> bool:
    """Whether a category matches one of the patterns, or belongs to a suite of that name."""
    return category is not None and any(
        fnmatchcase(category, pattern) or category.partition("/")[0] == pattern for pattern in patterns
    )


def _not_in_categories(trial: Listed, patterns: str) -> bool:
    return not in_category(_category_name(trial), patterns.split(","))


def category_rules(results: ArenaResults, patterns: Sequence[str]) -> list[str]:
    """Return the rules that exclude all other categories. Raises YouBenchaError if a pattern matches no trial."""
    listed: list[Listed] = [*results.trials, *results.unfinished]
    categories = set(map(_category_name, listed))
    for pattern in patterns:
        if not any(in_category(category, [pattern]) for category in categories):
            known = sorted(filter(None, categories))
            available = f"Categories: {first_few(known)}." if known else "The results have none; add them by --config."
            hint = " ".join(filter(None, (did_you_mean(pattern, known), available)))
            raise YouBenchaError(
                "NOTHING_SELECTED", f"--category {pattern}: the arena has no such category.", hint=hint
            )
    return [f"category!={','.join(patterns)}"] if patterns else []


def _run(trial: Listed, pattern: str) -> bool:
    return fnmatchcase(trial.run, pattern)


def _trial(trial: Listed, name: str) -> bool:
    return "/".join(map(str, trial.key)) == name


def _outcome(trial: Listed, name: str) -> bool:
    return isinstance(trial, ArenaTrial) and trial.meta.outcome == name


def _exit_reason(trial: Listed, name: str) -> bool:
    return isinstance(trial, ArenaTrial) and trial.meta.exit_reason == name


def _cost(trial: Listed, dollars: str) -> bool:
    """Match an exact cost. `cost=0` also matches results of the original, which wrote unknown costs as 0."""
    if not isinstance(trial, ArenaTrial):
        return False
    cost = trial.meta.total_cost_usd
    return (0.0 if cost is None and is_original(trial.meta) else cost) == float(dollars)


def _flagged(trial: Listed, _: str) -> bool:
    """Match trials with evidence. Notes are ignored, because honest work can also cause them."""
    return isinstance(trial, ArenaTrial) and bool(trial.meta.evidence)


@dataclass(frozen=True)
class RuleKind:
    matches: Matches
    value: str
    """What is written after the `=`; empty if there is nothing."""
    check: Callable[[str], bool] = bool
    """Whether a value can be used."""


def _is_number(value: str) -> bool:
    try:
        return float(value) >= 0
    except ValueError:
        return False


RULES = {
    "agent": RuleKind(_agent, "PATTERN"),
    "task": RuleKind(_task, "PATTERN"),
    "category": RuleKind(_category, "PATTERN"),
    "category!": RuleKind(_not_in_categories, "PATTERN,…"),
    "run": RuleKind(_run, "PATTERN"),
    "trial": RuleKind(_trial, "AGENT/TASK/N", lambda value: value.count("/") == 2),
    "outcome": RuleKind(_outcome, "|".join(get_args(OutcomeName)), lambda value: value in get_args(OutcomeName)),
    "exit_reason": RuleKind(_exit_reason, "NAME"),
    "cost": RuleKind(_cost, "DOLLARS", _is_number),
    "flagged": RuleKind(_flagged, "", lambda value: not value),
}
"""What `--exclude` takes. Only what a rule says is dropped; nothing is dropped because it looks wrong."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    rule: str
    matched: int
    """Trials that the rule fits, planned ones included."""
    dropped: int
    """Those that no rule before it had dropped."""
    dropped_by_agent: Mapping[str, int]
    """How many of the dropped trials belong to each agent."""


def exclude(results: ArenaResults, rules: Sequence[str]) -> tuple[ArenaResults, tuple[Exclusion, ...]]:
    """Drop the trials that a rule fits, and count them."""
    listed: list[Listed] = [*results.trials, *results.unfinished]
    dropped: set[int] = set()
    exclusions = []
    for rule, (kind, value) in [(rule, _parsed(rule)) for rule in dict.fromkeys(rules)]:
        matched = {at for at, trial in enumerate(listed) if kind.matches(trial, value)}
        lost = Counter(listed[at].key.orchestrator for at in sorted(matched - dropped))
        exclusions.append(Exclusion(rule, len(matched), lost.total(), dict(sorted(lost.items()))))
        dropped |= matched
    kept = [trial for at, trial in enumerate(listed) if at not in dropped]
    return _with(results, kept), tuple(exclusions)


def newest_only(results: ArenaResults) -> tuple[ArenaResults, int]:
    """Keep the newest of the trials of one agent, task and number that ran under the same conditions.

    `--reuse` copies trials from run to run, and scores some of them again. Trials without an identity are all kept.
    Returns how many were left out, too. What one run did not finish, another may have. A trial that replaces one that
    was not valid is marked as a rerun.
    """
    newest: dict[object, ArenaTrial] = {}
    invalid: set[object] = set()
    for trial in sorted(results.trials, key=lambda trial: (trial.meta.completed_at or "", trial.run)):
        same = _identity(trial)
        newest[same] = trial
        if trial.meta.valid is False:
            invalid.add(same)
    kept = {id(trial): same in invalid for same, trial in newest.items()}
    trials = [_marked(trial, rerun=kept[id(trial)]) for trial in results.trials if id(trial) in kept]
    done = {trial.key for trial in trials}
    unfinished = {trial.key: trial for trial in results.unfinished if trial.key not in done}
    return _with(results, [*trials, *unfinished.values()]), len(results.trials) - len(trials)


def _identity(trial: ArenaTrial) -> object:
    """Equal for trials of one agent, task and number that ran under the same conditions."""
    identity = trial.meta.identity
    return (*trial.key, identity.agent_hash) if identity else trial.directory


def _marked(trial: ArenaTrial, *, rerun: bool) -> ArenaTrial:
    is_new = rerun and not trial.meta.rerun
    return trial._replace(meta=trial.meta.model_copy(update={"rerun": True})) if is_new else trial


def _with(results: ArenaResults, listed: Iterable[Listed]) -> ArenaResults:
    listed = list(listed)
    return replace(
        results,
        trials=tuple(trial for trial in listed if isinstance(trial, ArenaTrial)),
        unfinished=tuple(trial for trial in listed if isinstance(trial, UnfinishedTrial)),
    )


def _parsed(rule: str) -> tuple[RuleKind, str]:
    name, _, value = rule.partition("=")
    kind = RULES.get(name)
    if kind is not None and kind.check(value):
        return kind, value
    known = ", ".join(f"{name}={kind.value}" if kind.value else name for name, kind in RULES.items())
    message = f"'{rule}' is not a valid rule for --exclude."
    near = None if name in RULES else did_you_mean(name, RULES)
    hint = f"{near[0].upper() + near[1:]} " if near else ""
    raise YouBenchaError("RULE_INVALID", message, hint=f"{hint}There are: {known}")
