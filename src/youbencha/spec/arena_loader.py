"""Load an arena (`thunderdome.yaml`) with the position of every problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, KeyPath, Problem, Step
from youbencha.spec.arena import LONGEST_NAME, NAME_PATTERN, ArenaSpec, OrchestratorSpec, TaskSpec, key_of_repo
from youbencha.spec.compat import thunderdome
from youbencha.spec.document import Document, read_document
from youbencha.spec.variants import ArenaEntry, expand, problems_of_variants, written_names

CODE = "ARENA_INVALID"
_OF_CONTAINERS = {
    "arena": ("network", "container_starts"),
    "orchestrators": ("image",),
    "tasks": ("validation_image", "resources"),
}
"""Keys without an effect on the host."""


class Arena(NamedTuple):
    """A valid arena, and where it is written."""

    spec: ArenaSpec
    document: Document
    file: Path
    directory: Path
    """Where relative paths in it start."""
    entries: tuple[ArenaEntry, ...]
    notices: tuple[Problem, ...] = ()
    """What may be surprising about how a file of the original Thunderdome is interpreted."""

    @property
    def orchestrators(self) -> tuple[OrchestratorSpec, ...]:
        """What can run: each orchestrator, followed by its variants."""
        return tuple(entry.spec for entry in self.entries)

    @property
    def results_dir(self) -> Path:
        return self.directory / Path(self.spec.results.dir).expanduser()

    def entry(self, orchestrator: OrchestratorSpec) -> ArenaEntry:
        return next(entry for entry in self.entries if entry.spec.name == orchestrator.name)

    def path_of(self, of: OrchestratorSpec | TaskSpec, *keys: Step) -> KeyPath:
        """Where it is written, or a key of it: with a variant if that gives the key, else with its orchestrator."""
        if isinstance(of, TaskSpec):
            return "tasks", self.spec.tasks.index(of), *keys
        return self.entry(of).path_of(*keys)

    def baselines(self) -> dict[str, str]:
        """What each orchestrator and variant is compared with, by their names.

        That is `baseline` for all others; else a variant's orchestrator; else, if there are just two, the first.
        """
        if self.spec.baseline is not None:
            return {each.name: self.spec.baseline for each in self.orchestrators if each.name != self.spec.baseline}
        found = {entry.spec.name: entry.orchestrator.name for entry in self.entries if entry.variant is not None}
        if not found and len(self.entries) == 2:
            first, second = self.orchestrators
            return {second.name: first.name}
        return found


def load_arena_file(path: Path | str) -> Arena:
    """Read an arena and check what can be checked without adapters and repositories. All problems are one error."""
    document = read_document(path, code=CODE, what="The arena")
    document, notices, refusals = document.translated(thunderdome.translate)
    spec = document.validate(ArenaSpec)
    if isinstance(spec, list) or refusals:
        raise document.error([*refusals, *(spec if isinstance(spec, list) else ()), *_problems_of_names(document)])
    entries = expand(spec.orchestrators)
    problems = [
        *_problems_of_names(document),
        *_for_containers_only(document, spec),
        *_unused_images(document, spec),
        *problems_of_variants(document, spec, entries),
    ]
    if problems:
        raise document.error(problems)
    file = Path(path).absolute()
    return Arena(spec, document, file, file.parent, entries, tuple(notices))


def task_categories(path: Path) -> dict[str, str]:
    """Return the categories of an arena's tasks, by their names in results. The rest of the file need not be valid."""
    data = read_document(path, code=CODE, what="The arena").data
    tasks = data.get("tasks") if isinstance(data, Mapping) else None
    categories: dict[str, str] = {}
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, Mapping) and isinstance(category := task.get("category"), str):
            names = {task.get("id"), key_of_repo(str(task.get("repo", "")).strip())}
            categories |= {name: category for name in names if isinstance(name, str)}
    return categories


def is_arena(path: Path) -> bool:
    """Whether a file's keys are those of an arena, not of a test case or of a loop, whose `tasks` is a mapping."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    if not isinstance(data, Mapping) or "agent" in data:
        return False
    return "orchestrators" in data or isinstance(data.get("tasks"), list)


def _for_containers_only(document: Document, spec: ArenaSpec) -> Iterator[Problem]:
    if spec.sandbox is None or spec.sandbox.type != "local":
        return
    paths: list[tuple[str | int, ...]] = [(key,) for key in _OF_CONTAINERS["arena"] if key in spec.model_fields_set]
    for kind, entries in (("orchestrators", spec.orchestrators), ("tasks", spec.tasks)):
        for index, entry in enumerate(entries):
            paths += [(kind, index, key) for key in _OF_CONTAINERS[kind] if key in entry.model_fields_set]
    for index, orchestrator in enumerate(spec.orchestrators):
        for number, variant in enumerate(orchestrator.variants):
            given = variant.model_fields_set.intersection(_OF_CONTAINERS["orchestrators"])
            paths += [("orchestrators", index, "variants", number, key) for key in given]
    for path in paths:
        yield document.problem(path, "is only valid with `sandbox: docker`", at_key=True)


def _unused_images(document: Document, spec: ArenaSpec) -> Iterator[Problem]:
    for index, task in enumerate(spec.tasks):
        own = task.validation if task.validation and "mode" in task.validation.model_fields_set else spec.validation
        if own.mode == "shared" and task.validation_image is not None:
            message = "has no effect with the validation mode `shared`, which uses the agent's container"
            yield document.problem(("tasks", index, "validation_image"), message, at_key=True)


def _problems_of_names(document: Document) -> Iterator[Problem]:
    """Names and ids that occur twice, read even from an invalid file."""
    data = document.data if isinstance(document.data, Mapping) else {}
    yield from _repeated(document, written_names(data), "give each its own name")
    tasks = list(_ids(data))
    yield from _repeated(document, tasks, "give each task an `id` of its own")
    for path, name in tasks:
        if path[-1] == "repo" and not (NAME_PATTERN.fullmatch(name) and len(name) <= LONGEST_NAME):
            yield document.problem(path, "no id can be made of its last part", "add an `id`")


def _repeated(document: Document, named: Iterable[tuple[KeyPath, str]], hint: str) -> Iterator[Problem]:
    seen: dict[str, KeyPath] = {}
    for path, name in named:
        first = seen.setdefault(name.casefold(), path)  # they are directories, and some disks ignore case
        if first != path:
            yield document.problem(path, f"{name!r} is also in line {document.line(first[:-1])}", hint)


def _ids(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """What identifies each task, and where it is written."""
    tasks = data.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if not isinstance(task, Mapping):
            continue
        if isinstance(value := task.get("id"), str):
            yield ("tasks", index, "id"), value
        elif isinstance(value := task.get("repo"), str):
            yield ("tasks", index, "repo"), key_of_repo(value.strip())
