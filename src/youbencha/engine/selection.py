"""Select orchestrators and tasks of an arena. A filter that matches nothing is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from youbencha.errors import YouBenchaError
from youbencha.spec.arena import OrchestratorSpec, TaskSpec
from youbencha.text import did_you_mean, first_few

Entry = TypeVar("Entry")


class Selection(NamedTuple):
    """What to select; nothing given means everything."""

    orchestrators: tuple[str, ...] = ()
    """Names; `*` matches any text: an orchestrator's name is only itself, `NAME+*` its variants, `NAME*` both."""
    tasks: tuple[str, ...] = ()
    """Each an id, an alias, a name, a repository, or the end of one."""
    categories: tuple[str, ...] = ()
    """Each a category, or all of a suite: `greenfield/*`."""


class Selected(NamedTuple):
    orchestrators: list[OrchestratorSpec]
    """The orchestrators in the order of the arena, like the tasks."""
    tasks: list[TaskSpec]


def select(orchestrators: Sequence[OrchestratorSpec], tasks: Sequence[TaskSpec], selection: Selection) -> Selected:
    """Select what is to run. Tasks must match a task filter and a category filter, if both are given."""
    chosen = _matching(
        orchestrators,
        selection.orchestrators,
        lambda wanted: [agent for agent in orchestrators if fnmatchcase(agent.name, wanted)],
        lambda wanted: _unknown("orchestrator", wanted, [agent.name for agent in orchestrators]),
    )
    by_name = _matching(
        tasks,
        selection.tasks,
        lambda wanted: _tasks_named(tasks, wanted),
        lambda wanted: _unknown("task", wanted, [task.key for task in tasks]),
    )
    by_category = _matching(
        tasks,
        selection.categories,
        lambda wanted: [task for task in tasks if _is_in(task, wanted)],
        lambda wanted: _unknown("category", wanted, _categories(tasks)),
    )
    both = [task for task in by_name if task in by_category]
    if not both:
        raise YouBenchaError(
            "NOTHING_SELECTED",
            f"No task is in {' or '.join(selection.categories)} and is {' or '.join(selection.tasks)}.",
            hint="A task must match --task and --category, if both are given.",
        )
    return Selected(chosen, both)


def _matching(
    entries: Sequence[Entry],
    filters: Iterable[str],
    find: Callable[[str], Sequence[Entry]],
    unknown: Callable[[str], YouBenchaError],
) -> list[Entry]:
    """Return the entries that one of the filters matches; all if there is none."""
    filters = list(filters)
    selected: list[Entry] = []
    for wanted in filters:
        matching = find(wanted)
        if not matching:
            raise unknown(wanted)
        selected += matching
    return [entry for entry in entries if entry in selected] if filters else list(entries)


def _tasks_named(tasks: Sequence[TaskSpec], wanted: str) -> list[TaskSpec]:
    """Return the tasks with that id; otherwise with that alias, name, repository, or end of a repository."""
    bare = _bare(wanted)
    ways: tuple[Callable[[TaskSpec], bool], ...] = (
        lambda task: task.key == wanted,
        lambda task: wanted in task.aliases,
        lambda task: task.name == wanted,
        lambda task: bool(bare) and _bare(task.repo) == bare,
        lambda task: bool(bare) and _bare(task.repo).endswith(f"/{bare}"),
        lambda task: bool(bare) and _bare(task.repo).endswith(bare),
    )
    matching = ([task for task in tasks if matches(task)] for matches in ways)
    return next(filter(None, matching), [])


def _bare(repo: str) -> str:
    return repo.rstrip("/").removesuffix(".git")


def _is_in(task: TaskSpec, wanted: str) -> bool:
    if wanted.endswith("/*"):
        return task.category is not None and task.category.startswith(wanted[:-1])
    return task.category == wanted


def _categories(tasks: Iterable[TaskSpec]) -> list[str]:
    given = sorted({task.category for task in tasks if task.category})
    return [*given, *sorted({f"{category.partition('/')[0]}/*" for category in given if "/" in category})]


def _unknown(kind: str, wanted: str, known: Sequence[str]) -> YouBenchaError:
    have = f"The arena has: {first_few(known)}." if known else "No task of the arena has a category."
    return YouBenchaError(
        "NOTHING_SELECTED",
        f"--{kind} {wanted}: the arena has no such {kind}.",
        hint=" ".join(filter(None, (did_you_mean(wanted, known), have))),
    )
