"""Load a `ralph.yml`: move flat keys of Ralph 1 to their places, and check everything, with positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, KeyPath, Problem, dotted
from youbencha.spec.document import Document, read_document
from youbencha.spec.loop import MOVED_KEYS, Keys, LoopSpec, keys_without_effect
from youbencha.text import did_you_mean

CODE = "LOOP_INVALID"

_OWN_KEYS = frozenset({"event_loop", "cli", "hats", "gates", *(path[0] for path in MOVED_KEYS)})
_KEYS_OF_OTHERS = frozenset({"repo", "directory", "orchestrators", "evaluators"})
"""Of test cases, eval configurations and arenas. An arena also has a list of `tasks`."""


class LoopFile(NamedTuple):
    """A valid ralph.yml, and where it is written."""

    spec: LoopSpec
    document: Document
    """Its data have the flat keys at their places."""
    file: Path
    directory: Path
    """Where relative paths in it start."""
    warnings: tuple[Problem, ...] = ()
    """About keys without an effect."""
    origins: Mapping[Keys, Keys] = {}
    """Where values were written that are at another place in the data."""

    def written_at(self, path: KeyPath) -> KeyPath:
        """Where the user wrote the value at `path`."""
        return _written_at(path, self.origins)


def _written_at(path: KeyPath, origins: Mapping[Keys, Keys]) -> KeyPath:
    for place, origin in origins.items():
        if path[: len(place)] == place:
            return (*origin, *path[len(place) :])
    return path


def load_loop_file(path: Path | str) -> LoopFile:
    """Read a ralph.yml and check what can be checked without adapters. All problems are one error."""
    document = read_document(path, code=CODE, what="The loop")
    if document.data is None:  # all defaults
        document = document._replace(data={})
    moving = _Moving(document)
    document = document._replace(data=moving.data())
    spec = document.validate(LoopSpec)
    problems = [*moving.problems, *(map(moving.at_origin, spec) if isinstance(spec, list) else ())]
    if isinstance(spec, list) or problems:
        raise document.error(problems)
    file = Path(path).absolute()
    warnings = () if spec.suppress_warnings else tuple(_warnings(document, spec))
    return LoopFile(spec, document, file, file.parent, warnings, moving.origins)


def is_loop_file(path: Path) -> bool:
    """Whether a file's keys are those of a ralph.yml, not of a test case or an arena."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    if not isinstance(data, Mapping) or data.keys() & _KEYS_OF_OTHERS or isinstance(data.get("tasks"), list):
        return False
    return path.name in ("ralph.yml", "ralph.yaml") or bool(data.keys() & _OWN_KEYS)


def _warnings(document: Document, spec: LoopSpec) -> list[Problem]:
    found = keys_without_effect(spec)
    return [document.problem(path, "has no effect", hint, at_key=True) for path, hint in found]


class _Moving:
    """Moves keys of older versions to their places."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.origins: dict[Keys, Keys] = {}
        """Of what was moved, by its new place."""
        self.problems: list[Problem] = []

    def data(self) -> Any:
        """The data with every key at its place, and without keys that only hold anchors (`_name`)."""
        given = self._document.data
        if not isinstance(given, Mapping):
            return given
        data = {
            key: value
            for key, value in given.items()
            if not (isinstance(key, str) and key.startswith("_") and key != "_suppress_warnings")
        }
        for origin, place in MOVED_KEYS.items():
            if _holds(data, origin):
                data = self._moved(data, origin, place)
        return data

    def _moved(self, data: dict[str, Any], origin: Keys, place: Keys) -> dict[str, Any]:
        value = _get(data, origin)
        data = _without(data, origin)
        if _holds(data, place):
            if _get(data, place) != value:
                message = f"conflicts with `{dotted(place)}`"
                self.problems.append(self._document.problem(origin, message, "remove one of the two", at_key=True))
            return data
        if not all(isinstance(_get(data, place[:end]), Mapping | None) for end in range(1, len(place))):
            return data  # the model reports that its new parent is not a mapping
        self.origins[place] = origin
        return _with(data, place, value)

    def at_origin(self, problem: Problem) -> Problem:
        """The problem at the key that the user wrote."""
        if problem.kind == "unknown_key" and len(problem.keys) == 1:  # an older key may have been meant
            near = did_you_mean(problem.path, (*LoopSpec.model_fields, *(origin[0] for origin in MOVED_KEYS)))
            return replace(problem, hint=near)
        written = _written_at(problem.keys, self.origins)
        if written == problem.keys:
            return problem
        return self._document.problem(written, problem.message, problem.hint, kind=problem.kind)


def _holds(data: Any, path: Keys) -> bool:
    for step in path:
        if not isinstance(data, Mapping) or step not in data:
            return False
        data = data[step]
    return True


def _get(data: Any, path: Keys) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data


def _without(data: dict[str, Any], path: Keys) -> dict[str, Any]:
    """Without the key, and without a mapping that is empty then."""
    first, *rest = path
    inside = _without(data[first], tuple(rest)) if rest else {}
    others = {key: value for key, value in data.items() if key != first}
    return {**others, first: inside} if inside else others


def _with(data: Mapping[str, Any] | None, path: Keys, value: Any) -> dict[str, Any]:
    first, *rest = path
    inside = _with(_get(data, (first,)), tuple(rest), value) if rest else value
    return {**(data or {}), first: inside}
