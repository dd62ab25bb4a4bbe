"""Tell whether the trials of two agents can be compared: on the same commits, judged alike, under the same limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from youbencha.report.arena_loading import ArenaTrial
from youbencha.report.leaderboard import listed
from youbencha.store.arena import TrialIdentity
from youbencha.text import one_line, plural

_MUST_AGREE = {
    "task_commit": "start from different commits",
    "validation_hash": "are validated differently",
    "cpus": "have different CPU limits",
    "memory": "have different memory limits",
}
"""What must be the same for both on each task, and what to say if it is not."""

ByTask = Mapping[str, Sequence[ArenaTrial]]


def comparability_warnings(first: ByTask, second: ByTask, tasks: Sequence[str]) -> Iterator[str]:
    """Say why a difference may have another cause than the agents."""
    for name, problem in _MUST_AGREE.items():
        different = [task for task in tasks if _differ(first[task], second[task], name)]
        if different:
            yield f"Not comparable: the trials of both {problem} on {listed(different)}."
    yield from _identities(first, second, tasks)
    both = (*_of(first, tasks), *_of(second, tasks))
    if flagged := sum(bool(each.meta.evidence) for each in both):
        yield f"{plural(flagged, 'trial')} with evidence of cheating: see `thunderdome report`."


def unchanged_requests(first: ByTask, second: ByTask, tasks: Sequence[str]) -> str | None:
    """Return a warning if no request of the variant differed from the baseline's; None if one did, or if unknown.

    The second agent is the variant if only it changes something.
    """
    ones, twos = _known(_of(first, tasks)), _known(_of(second, tasks))
    if {each.agent_hash for each in ones} == {each.agent_hash for each in twos}:
        return None  # there was nothing to change
    turned = not any(each.changes for each in ones) and any(each.changes for each in twos)
    variant, baseline = (second, first) if turned else (first, second)
    asked = [(_asked(variant[task]), _asked(baseline[task])) for task in tasks]
    if not asked or not all(own and own <= theirs for own, theirs in asked):
        return None
    changes = sorted({key for each in (twos if turned else ones) for key in each.changes})
    names = (one_line(side[tasks[0]][0].meta.orchestrator, 100) for side in (variant, baseline))
    effect = f"{listed(changes)} changed nothing" if changes else "there may be no difference"
    return (
        "No request of {} differed from those of {}: {} in the model, its parameters, the system prompt, the tools or"
        " the prompt.".format(*names, effect)
    )


def _asked(trials: Iterable[ArenaTrial]) -> set[str]:
    """Return the fingerprints of all valid trials; none if those of any trial are unknown."""
    asked: set[str] = set()
    for trial in trials:
        if trial.meta.valid is not False:
            if trial.meta.identity is None or not trial.meta.identity.request_fingerprints:
                return set()
            asked.update(trial.meta.identity.request_fingerprints)
    return asked


def _identities(first: ByTask, second: ByTask, tasks: Sequence[str]) -> Iterator[str]:
    ones, twos = _known(_of(first, tasks)), _known(_of(second, tasks))
    if not ones or not twos:
        yield "Whether both had the same commits, validation and limits is not known: the results do not say it."
        return
    if {each.agent_hash for each in ones} == {each.agent_hash for each in twos}:
        yield "Both have the same configuration: any difference is chance, or a change of the harness or the model."
    versions = {each.youbencha_version for each in (*ones, *twos) if each.youbencha_version}
    if len(versions) > 1:
        yield f"Made by different versions of youBencha: {listed(versions)}."
    for side in (first, second):
        mixed = [task for task in tasks if len({each.agent_hash for each in _known(side[task])}) > 1]
        if mixed:
            name = one_line(side[mixed[0]][0].meta.orchestrator, 100)
            yield f"Trials of different configurations of {name} are counted together on {listed(mixed)}."
    same = len(_fingerprints(_of(first, tasks)) & _fingerprints(_of(second, tasks)))
    if same:
        yield f"{plural(same, 'trial')} counted on both sides: one run took them over from the other (`--reuse`)."


def _of(side: ByTask, tasks: Iterable[str]) -> list[ArenaTrial]:
    return [trial for task in tasks for trial in side[task] if trial.meta.valid is not False]


def _known(trials: Iterable[ArenaTrial]) -> list[TrialIdentity]:
    return [each.meta.identity for each in trials if each.meta.identity and each.meta.valid is not False]


def _differ(first: Iterable[ArenaTrial], second: Iterable[ArenaTrial], name: str) -> bool:
    ones, twos = ({getattr(each, name) for each in _known(side)} for side in (first, second))
    return bool(ones and twos) and ones != twos


def _fingerprints(trials: Iterable[ArenaTrial]) -> set[object]:
    """Of trials, so that a copy is recognised."""
    return {
        (meta.orchestrator, meta.task, meta.trial, meta.identity.agent_hash, meta.started_at)
        for meta in (each.meta for each in trials)
        if meta.identity is not None and meta.started_at is not None
    }
