"""Load an arena (`thunderdome.yaml`): its variants as orchestrators of their own, and the position of every problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, KeyPath, Problem, ProblemKind, Step, YouBenchaError
from youbencha.spec.arena import (
    MAX_NAME_CHARS,
    NAME_PATTERN,
    VARIANT_MARK,
    ArenaSpec,
    OrchestratorSpec,
    TaskSpec,
    VariantSpec,
    repo_key,
)
from youbencha.spec.compat import thunderdome
from youbencha.spec.document import Document, read_document
from youbencha.text import did_you_mean, first_few

CODE = "ARENA_INVALID"
CONTAINER_KEYS = {
    "arena": ("network", "container_starts"),
    "orchestrators": ("image",),
    "tasks": ("validation_image", "resources"),
}
"""Keys without an effect on the host."""
KEYS_WITHOUT_SCRIPTS = ("version", "config")
IDENTIFYING_KEYS = {"name", "agent", "variants"}
RUBRIC_KEYS: Mapping[Step, str] = {"assertions": "criteria", "type": "agent"}
"""What a rubric calls the keys of an agentic-judge."""


class ArenaEntry(NamedTuple):
    """An orchestrator, or a variant merged with its orchestrator, and where it is written."""

    spec: OrchestratorSpec
    orchestrator: OrchestratorSpec
    """The orchestrator itself, or that of the variant."""
    orchestrator_path: KeyPath
    variant: VariantSpec | None = None
    variant_path: KeyPath = ()

    def path_to(self, *keys: Step) -> KeyPath:
        is_own = self.variant is not None and (not keys or self.variant.changes(str(keys[0]), *keys[1:]))
        return (*(self.variant_path if is_own else self.orchestrator_path), *keys)


class Arena(NamedTuple):
    """A valid arena, and where it is written."""

    spec: ArenaSpec
    document: Document
    file: Path
    directory: Path
    """The directory where relative paths in it start."""
    entries: tuple[ArenaEntry, ...]
    notices: tuple[Problem, ...] = ()
    """How a file of the original Thunderdome is interpreted, where that may surprise."""

    @property
    def orchestrators(self) -> tuple[OrchestratorSpec, ...]:
        """What can run: each orchestrator, followed by its variants."""
        return tuple(entry.spec for entry in self.entries)

    @property
    def results_dir(self) -> Path:
        return self.directory / Path(self.spec.results.dir).expanduser()

    def entry(self, orchestrator: OrchestratorSpec) -> ArenaEntry:
        return next(entry for entry in self.entries if entry.spec.name == orchestrator.name)

    def path_to(self, part: OrchestratorSpec | TaskSpec, *keys: Step) -> KeyPath:
        """Return where a task, an orchestrator or a key of it is written: in a variant only if that sets the key."""
        if isinstance(part, TaskSpec):
            return "tasks", self.spec.tasks.index(part), *keys
        return self.entry(part).path_to(*keys)

    def baselines(self) -> dict[str, str]:
        """Map each orchestrator and variant to the name of the one that it is compared with.

        That is `baseline`; without it, a variant's orchestrator; without variants, the first of two orchestrators.
        """
        if self.spec.baseline is not None:
            names = (orchestrator.name for orchestrator in self.orchestrators)
            return {name: self.spec.baseline for name in names if name != self.spec.baseline}
        baselines = {entry.spec.name: entry.orchestrator.name for entry in self.entries if entry.variant is not None}
        if not baselines and len(self.entries) == 2:
            first, second = self.orchestrators
            return {second.name: first.name}
        return baselines


def load_arena_file(path: Path | str) -> Arena:
    """Read an arena and check what can be checked without adapters and repositories. All problems are one error."""
    document = read_document(path, code=CODE, what="The arena")
    document, notices, refusals = document.translated(thunderdome.translate)
    spec = document.validate(ArenaSpec)
    if isinstance(spec, list) or refusals:
        raise document.error([*refusals, *(spec if isinstance(spec, list) else ()), *_check_names(document)])
    entries = _expand(spec.orchestrators)
    problems = [
        *_check_names(document),
        *_check_container_keys(document, spec),
        *_check_images(document, spec),
        *_check_variants(document, spec, entries),
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
            names = {task.get("id"), repo_key(str(task.get("repo", "")).strip())}
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


def _check_container_keys(document: Document, spec: ArenaSpec) -> Iterator[Problem]:
    if spec.sandbox is None or spec.sandbox.type != "local":
        return
    paths: list[tuple[str | int, ...]] = [(key,) for key in CONTAINER_KEYS["arena"] if key in spec.model_fields_set]
    for kind, entries in (("orchestrators", spec.orchestrators), ("tasks", spec.tasks)):
        for index, entry in enumerate(entries):
            paths += [(kind, index, key) for key in CONTAINER_KEYS[kind] if key in entry.model_fields_set]
    for index, orchestrator in enumerate(spec.orchestrators):
        for number, variant in enumerate(orchestrator.variants):
            given = variant.model_fields_set.intersection(CONTAINER_KEYS["orchestrators"])
            paths += [("orchestrators", index, "variants", number, key) for key in given]
    for path in paths:
        yield document.problem(path, "is only valid with `sandbox: docker`", at_key=True)


def _check_images(document: Document, spec: ArenaSpec) -> Iterator[Problem]:
    for index, task in enumerate(spec.tasks):
        own = task.validation if task.validation and "mode" in task.validation.model_fields_set else spec.validation
        if own.mode == "shared" and task.validation_image is not None:
            message = "has no effect with the validation mode `shared`, which uses the agent's container"
            yield document.problem(("tasks", index, "validation_image"), message, at_key=True)


def _check_names(document: Document) -> Iterator[Problem]:
    """Find names and ids that occur twice, even in an invalid file."""
    data = document.data if isinstance(document.data, Mapping) else {}
    yield from _check_unique(document, _written_names(data), "give each its own name")
    tasks = list(_task_ids(data))
    yield from _check_unique(document, tasks, "give each task an `id` of its own")
    for path, name in tasks:
        if path[-1] == "repo" and not (NAME_PATTERN.fullmatch(name) and len(name) <= MAX_NAME_CHARS):
            yield document.problem(path, "no id can be made of its last part", "add an `id`")


def _check_unique(document: Document, named: Iterable[tuple[KeyPath, str]], hint: str) -> Iterator[Problem]:
    seen: dict[str, KeyPath] = {}
    for path, name in named:
        first = seen.setdefault(name.casefold(), path)  # they are directories, and some disks ignore case
        if first != path:
            yield document.problem(path, f"{name!r} is also in line {document.line(first[:-1])}", hint)


def _task_ids(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield what identifies each task, and where it is written."""
    tasks = data.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if not isinstance(task, Mapping):
            continue
        if isinstance(value := task.get("id"), str):
            yield ("tasks", index, "id"), value
        elif isinstance(value := task.get("repo"), str):
            yield ("tasks", index, "repo"), repo_key(value.strip())


def _expand(orchestrators: Iterable[OrchestratorSpec]) -> tuple[ArenaEntry, ...]:
    """Return each orchestrator, followed by its variants."""
    entries = []
    for index, orchestrator in enumerate(orchestrators):
        path: KeyPath = ("orchestrators", index)
        entries.append(ArenaEntry(orchestrator, orchestrator, path))
        for number, variant in enumerate(orchestrator.variants):
            merged = orchestrator.with_variant(variant)
            entries.append(ArenaEntry(merged, orchestrator, path, variant, (*path, "variants", number)))
    return tuple(entries)


def _written_names(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the name of each orchestrator and variant, and where it is written, even in an invalid file."""
    for path, orchestrator in _mappings(data, "orchestrators"):
        name = orchestrator.get("name")
        if isinstance(name, str):
            yield (*path, "name"), name.strip()
            for inner, variant in _mappings(orchestrator, "variants"):
                if isinstance(variant.get("name"), str):
                    yield (*path, *inner, "name"), f"{name.strip()}{VARIANT_MARK}{variant['name']}"


def _mappings(data: Mapping[str, Any], key: str) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    entries = data.get(key)
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping):
            yield (key, index), entry


def _check_variants(document: Document, spec: ArenaSpec, entries: Sequence[ArenaEntry]) -> Iterator[Problem]:
    """Check variants against their orchestrators, and the baseline."""
    for index, orchestrator in enumerate(spec.orchestrators):
        if orchestrator.variants and orchestrator.needs_no_model:
            path = ("orchestrators", index, "variants")
            yield document.problem(path, "have no effect on `null`, which does nothing", "remove them", at_key=True)
    for entry in entries:
        if entry.variant is not None and not entry.orchestrator.needs_no_model:
            yield from _check_variant(document, entry, entry.variant)
    names = [entry.spec.name for entry in entries]
    if spec.baseline is not None and spec.baseline not in names:
        hint = did_you_mean(spec.baseline, names) or f"the arena has: {first_few(names)}"
        yield document.problem(("baseline",), "there is no such orchestrator or variant", hint)


def _check_variant(document: Document, entry: ArenaEntry, variant: VariantSpec) -> Iterator[Problem]:
    orchestrator = entry.orchestrator
    unusable = [key for key in KEYS_WITHOUT_SCRIPTS if orchestrator.adapter and key in variant.model_fields_set]
    for key in unusable:
        message = "cannot be combined with the orchestrator's `adapter`"
        yield document.problem((*entry.variant_path, key), message, "use `env`", at_key=True)
    if not unusable and _settings(entry.spec) == _settings(orchestrator):
        hint = "for a comparison with itself, add an orchestrator with another name"
        yield document.problem(entry.variant_path, f"changes nothing of {orchestrator.name}", hint)
    if len(entry.spec.name) > MAX_NAME_CHARS:
        message = f"{entry.spec.name!r} would be longer than {MAX_NAME_CHARS} characters"
        yield document.problem((*entry.variant_path, "name"), message, "use a shorter name")


def _settings(orchestrator: OrchestratorSpec) -> dict[str, Any]:
    return orchestrator.model_dump(exclude=IDENTIFYING_KEYS)


class ArenaProblems:
    """Collects each problem once, although every plan of its orchestrator or task has it."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._found: dict[tuple[KeyPath, str], Problem] = {}

    def add(self, error: YouBenchaError, orchestrator: OrchestratorSpec, task: TaskSpec) -> None:
        """Add the problems of a plan."""
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
        self._add_to_orchestrator(orchestrator, keys, error.message, hint)

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
                self._add_to_orchestrator(orchestrator, tuple(rest), problem.message, problem.hint, kind=problem.kind)
                return
            case ["evaluators", 0, "config", *rest]:
                path = arena.path_to(task, *rest)
            case ["evaluators", _, "config", *rest]:
                path = arena.path_to(task, "rubric", *(RUBRIC_KEYS.get(step, step) for step in rest))
            case _:
                path = problem.keys
        self.add_at(path, problem.message, problem.hint, kind=problem.kind)

    def _add_to_orchestrator(
        self,
        orchestrator: OrchestratorSpec,
        keys: KeyPath,
        message: str,
        hint: str | None,
        *,
        kind: ProblemKind = "invalid",
    ) -> None:
        """Add a problem of an orchestrator or a variant.

        A variant's problem is omitted if its orchestrator has the same. If only the variant has it, although the key is
        written in the orchestrator, the message names the variant.
        """
        entry = self._arena.entry(orchestrator)
        path = entry.path_to(*keys)
        if entry.variant is not None and ((*entry.orchestrator_path, *keys), message) in self._found:
            return
        if entry.variant is not None and path[: len(entry.variant_path)] != entry.variant_path:
            message = f"for {orchestrator.name}: {message}"
        self.add_at(path, message, hint, kind=kind)
