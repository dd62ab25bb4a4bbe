"""Load a `ralph.yml`: translate keys of Ralph, add hats and settings of the command line, and check everything."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, KeyPath, Problem
from youbencha.spec.compat import find, get, put, ralph
from youbencha.spec.document import Document, parse_document, read_document
from youbencha.spec.loop import LoopSpec
from youbencha.text import did_you_mean

CODE = "LOOP_INVALID"
WHAT = "The loop"

_KNOWN_KEYS = frozenset({*LoopSpec.model_fields, *(str(path[0]) for path in ralph.ALL_KEYS)})
_SHARED_KEYS = frozenset({"name", "description", "sandbox", "gateway"})
_KEYS_OF_OTHERS = frozenset({"repo", "directory", "orchestrators", "evaluators"})
"""Keys of test cases, eval configurations and arenas. An arena also has a list of `tasks`."""
_HAT_KEYS_OF_EVENT_LOOP = (
    "completion_promise", "cancellation_promise", "required_events", "starting_event", "starting_hat",
)  # fmt: skip
"""Keys of `event_loop` that are taken from a file of hats. Limits and the prompt are not."""


class LoopFile(NamedTuple):
    """A valid ralph.yml, and where it is written."""

    spec: LoopSpec
    document: Document
    file: Path | None
    """None if only the command line defines the loop."""
    directory: Path
    """The directory where relative paths in it start."""
    warnings: tuple[Problem, ...] = ()
    """About keys without an effect."""


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
    document, warnings, problems = document.translated(ralph.translate)
    if isinstance(document.data, Mapping):
        if hats is not None:
            document, more_warnings, more_problems = _with_hats(document, hats)
            warnings, problems = [*warnings, *more_warnings], [*problems, *more_problems]
        for setting in settings:
            document, more = _with_setting(document, setting)
            warnings += more
    spec = document.validate(LoopSpec)
    if isinstance(spec, list) or problems:
        raise document.error([*problems, *map(_with_nearest_key, spec if isinstance(spec, list) else ())])
    file = Path(path).absolute() if path is not None else None
    start = file.parent if file else directory or Path.cwd()
    return LoopFile(spec, document, file, start, () if spec.suppress_warnings else tuple(warnings))


def _with_nearest_key(problem: Problem) -> Problem:
    """Hint at keys of Ralph for an unknown key at the top."""
    is_at_top = problem.kind == "unknown_key" and len(problem.keys) == 1
    return replace(problem, hint=did_you_mean(str(problem.keys[0]), _KNOWN_KEYS)) if is_at_top else problem


def _with_hats(document: Document, hats: Document) -> tuple[Document, list[Problem], list[Problem]]:
    """Return the loop with the hats of another file, their events, and the keys of `event_loop` that belong to them.

    Also returns warnings and errors about these parts.
    """
    hats, *messages = hats.translated(ralph.translate)
    if not isinstance(hats.data, Mapping) or "hats" not in hats.data:
        raise hats.error([hats.problem(("hats",), "is missing", "give a file with hats, or builtin:NAME")])
    data, parts = dict(document.data), dict(document.parts)
    for path in [("hats",), ("events",), *(("event_loop", key) for key in _HAT_KEYS_OF_EVENT_LOOP)]:
        if any(find(hats.data, path)):
            data[path[0]] = _with(data.get(path[0]), path[1:], get(hats.data, path))
            parts[path] = hats
    warnings, errors = ([p for p in problems if p.keys[0] in ("hats", "events")] for problems in messages)
    return replace(document, data=data, parts=parts), warnings, errors


def _with(data: Any, path: KeyPath, value: Any) -> Any:
    if not path:
        return value
    return {**data, path[0]: value} if isinstance(data, Mapping) else {path[0]: value} if data is None else data


def _with_setting(document: Document, setting: str) -> tuple[Document, list[Problem]]:
    """Return the loop with a key that the command line sets, such as `core.specs_dir=specs`, and warnings."""
    key, _, text = setting.partition("=")
    path: KeyPath = tuple(key.split("."))
    written: dict[str, Any] = {}
    put(written, path, parse_document(text, code=CODE, what=f"The value of {key}").data)
    source, warnings, problems = Document(written, None, CODE, WHAT).translated(ralph.translate)
    if problems:
        raise source.error(problems)
    for place, origin in source.moved.items():
        if path[: len(origin)] == origin:
            path = (*place, *path[len(origin) :])
    if not any(find(source.data, path)):
        return document, warnings
    data = copy.deepcopy(document.data)
    put(data, path, get(source.data, path))
    return replace(document, data=data, parts={**document.parts, path: source}), warnings


def is_loop_file(path: Path) -> bool:
    """Whether a file's keys are those of a ralph.yml, not of a test case or an arena."""
    try:
        data = read_document(path, code="", what="").data
    except ConfigError:
        return False
    if not isinstance(data, Mapping) or data.keys() & _KEYS_OF_OTHERS or isinstance(data.get("tasks"), list):
        return False
    return path.name in ("ralph.yml", "ralph.yaml") or bool(data.keys() & (_KNOWN_KEYS - _SHARED_KEYS))
