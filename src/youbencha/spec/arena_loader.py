"""Load an arena (`thunderdome.yaml`) with the position of every problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, Problem
from youbencha.spec.arena import LONGEST_NAME, NAME_PATTERN, ArenaSpec, key_of_repo
from youbencha.spec.document import Document, read_document

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

    @property
    def results_dir(self) -> Path:
        return self.directory / Path(self.spec.results.dir).expanduser()


def load_arena_file(path: Path | str) -> Arena:
    """Read an arena and check what can be checked without adapters and repositories. All problems are one error."""
    document = read_document(path, code=CODE, what="The arena")
    spec = document.validate(ArenaSpec)
    found = spec if isinstance(spec, list) else [*_for_containers_only(document, spec), *_unused_images(document, spec)]
    problems = [*found, *_problems_of_names(document)]
    if isinstance(spec, list) or problems:
        raise document.error(problems)
    file = Path(path).absolute()
    return Arena(spec, document, file, file.parent)


def is_arena(path: Path) -> bool:
    """Whether a file's keys are those of an arena, not of a test case."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    return isinstance(data, Mapping) and bool({"orchestrators", "tasks"} & data.keys()) and "agent" not in data


def _for_containers_only(document: Document, spec: ArenaSpec) -> Iterator[Problem]:
    if spec.sandbox is None or spec.sandbox.type != "local":
        return
    paths: list[tuple[str | int, ...]] = [(key,) for key in _OF_CONTAINERS["arena"] if key in spec.model_fields_set]
    for kind, entries in (("orchestrators", spec.orchestrators), ("tasks", spec.tasks)):
        for index, entry in enumerate(entries):
            paths += [(kind, index, key) for key in _OF_CONTAINERS[kind] if key in entry.model_fields_set]
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
    for key, name_of in (("orchestrators", _name), ("tasks", _id)):
        entries = data.get(key)
        seen: dict[str, int] = {}
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if not isinstance(entry, Mapping) or (found := name_of(entry)) is None:
                continue
            field, name = found
            first = seen.setdefault(name.casefold(), index)  # they are directories, and some disks ignore case
            if first != index:
                message = f"{name!r} is also in line {document.locate((key, first)).line}"
                hint = "give each task an `id` of its own" if key == "tasks" else "give each its own name"
                yield document.problem((key, index, field), message, hint)
            elif field == "repo" and not (NAME_PATTERN.fullmatch(name) and len(name) <= LONGEST_NAME):
                yield document.problem((key, index, field), "no id can be made of its last part", "add an `id`")


def _name(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    name = entry.get("name")
    return ("name", name.strip()) if isinstance(name, str) else None


def _id(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """What identifies a task, and the field that it is from."""
    for field in ("id", "repo"):
        if isinstance(value := entry.get(field), str):
            return field, value if field == "id" else key_of_repo(value.strip())
    return None
