"""Load a `ralph.yml`: move flat keys of Ralph 1 to their places, and check everything, with positions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, KeyPath, Problem, dotted
from youbencha.spec.document import Document, parse_document, read_document
from youbencha.spec.loop import MOVED_KEYS, Keys, LoopSpec, keys_without_effect
from youbencha.text import did_you_mean

CODE = "LOOP_INVALID"
WHAT = "The loop"

_SHARED_KEYS = frozenset({"name", "description", "sandbox", "gateway"})
_OWN_KEYS = frozenset({*LoopSpec.model_fields, "RObot", *(path[0] for path in MOVED_KEYS)}) - _SHARED_KEYS
_KEYS_OF_OTHERS = frozenset({"repo", "directory", "orchestrators", "evaluators"})
"""Of test cases, eval configurations and arenas. An arena also has a list of `tasks`."""


class LoopFile(NamedTuple):
    """A valid ralph.yml, and where it is written."""

    spec: LoopSpec
    document: Document
    """Its data have the flat keys at their places."""
    file: Path | None
    """None if the loop is only defined by the command line."""
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


def load_loop_file(
    path: Path | str | None,
    *,
    directory: Path | None = None,
    hats: Document | None = None,
    settings: Sequence[str] = (),
) -> LoopFile:
    """Read a ralph.yml and check what can be checked without adapters. All problems are one error.

    `hats` replaces its hats and the keys that belong to them; each of `settings` is KEY=VALUE, and overrides both.
    Without a file, relative paths start in `directory`.
    """
    document = read_document(path, code=CODE, what=WHAT) if path is not None else Document({}, None, CODE, WHAT)
    if document.data is None:  # all defaults
        document = replace(document, data={})
    moving = _Moving(document)
    document = replace(document, data=moving.data())
    if isinstance(document.data, Mapping):
        document = _with_hats(document, hats) if hats else document
        document = _with_settings(document, settings)
    moving.forget(document.parts)
    spec = document.validate(LoopSpec)
    problems = [*moving.problems, *(map(moving.at_origin, spec) if isinstance(spec, list) else ())]
    if isinstance(spec, list) or problems:
        raise document.error(problems)
    warnings = () if spec.suppress_warnings else tuple(_warnings(document, spec))
    file = Path(path).absolute() if path is not None else None
    return LoopFile(spec, document, file, file.parent if file else directory or Path.cwd(), warnings, moving.origins)


_EVENT_LOOP_KEYS_OF_HATS = frozenset({
    "completion_promise", "cancellation_promise", "required_events", "starting_event", "starting_hat",
})  # fmt: skip
"""Keys of `event_loop` that are taken from a file of hats. Limits and the prompt are not."""


def _with_hats(document: Document, hats: Document) -> Document:
    """Return the loop with the hats of another file, their events, and the keys of `event_loop` that belong to them."""
    data = _Moving(hats).data()
    if not isinstance(data, Mapping) or "hats" not in data:
        raise hats.error([hats.problem(("hats",), "is missing", "give a file with hats, or builtin:NAME")])
    loop, loop_of_hats = document.data.get("event_loop") or {}, data.get("event_loop") or {}
    new = {key: data[key] for key in ("hats", "events") if key in data}
    paths: list[Keys] = [(key,) for key in new]
    if isinstance(loop, Mapping) and isinstance(loop_of_hats, Mapping):
        taken = {key: value for key, value in loop_of_hats.items() if key in _EVENT_LOOP_KEYS_OF_HATS}
        if taken:
            new["event_loop"] = {**loop, **taken}
        paths += (("event_loop", key) for key in taken)
    return replace(document, data={**document.data, **new}, parts=dict.fromkeys(paths, hats))


def _with_settings(document: Document, settings: Sequence[str]) -> Document:
    """Return the loop with keys that the command line sets, such as `core.specs_dir=specs`."""
    for text in settings:
        key, _, value = text.partition("=")
        path = tuple(key.split("."))
        path = MOVED_KEYS.get(path, path)
        parsed = parse_document(value, code=CODE, what=f"The value of {key}").data
        source = Document({}, None, CODE, WHAT)
        document = replace(document, data=_with(document.data, path, parsed), parts={**document.parts, path: source})
    return document


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

    def forget(self, paths: Collection[KeyPath]) -> None:
        """Forget the origins of values that were replaced."""
        self.origins = {place: origin for place, origin in self.origins.items() if place not in paths}

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


def _with(data: Any, path: Keys, value: Any) -> dict[str, Any]:
    first, *rest = path
    inside = _with(_get(data, (first,)), tuple(rest), value) if rest else value
    return {**(data if isinstance(data, Mapping) else {}), first: inside}
