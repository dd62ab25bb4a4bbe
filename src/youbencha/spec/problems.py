"""Turn pydantic's errors into problems that a user can fix. No message quotes a value: it may be a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, PydanticUserError, ValidationError

from youbencha.errors import KeyPath, Problem, Step
from youbencha.text import did_you_mean


class ProblemAt(ValueError):
    """Raised by a model's validator for a problem with one of its keys."""

    def __init__(self, key: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.hint = hint


class Position(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


def list_problems(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """All problems of the data that the model refused, without positions."""
    return [problem for problem, _ in list_unlocated(error, model, data)]


def list_unlocated(error: ValidationError, model: type[BaseModel], data: Any) -> list[tuple[Problem, bool]]:
    """The same, each with whether the key is wrong, not its value. In pydantic's order."""
    errors: list[Mapping[str, Any]] = [dict(item) for item in error.errors(include_url=False)]
    located = [_locate(order, item, data) for order, item in enumerate(errors)]
    chosen = sorted(_choose_union_members(located), key=lambda item: item.order)
    return [_describe(item, model) for item in chosen if not _counts_only_valid_items(item.error)]


def unknown_key(key: str, valid: Sequence[str]) -> Problem:
    """The problem of an unknown key that no model has found."""
    return Problem((key,), "unknown key", _hint_for_key(key, valid), kind="unknown_key")


def _counts_only_valid_items(error: Mapping[str, Any]) -> bool:
    """Whether a list is too short only because pydantic leaves out its invalid items, which have their own errors."""
    return error["type"] == "too_short" and bool(len(error["input"]) >= error["ctx"]["min_length"])


def _describe(located: _LocatedError, model: type[BaseModel]) -> tuple[Problem, bool]:
    error, path = located.error, located.path
    message = _wrong_kind(located.wanted, error["input"]) if located.wanted else _message(error)
    raised = error.get("ctx", {}).get("error")
    match error["type"]:
        case "extra_forbidden":
            hint = _hint_for_key(str(path[-1]), _known_keys(model, error["loc"][:-1]))
            return Problem(path, message, hint, kind="unknown_key"), True
        case "union_tag_not_found" | "union_tag_invalid":
            path = (*path, error["ctx"]["discriminator"].strip("'"))
        case "invalid_key":
            return Problem(path, message), True
        case _ if isinstance(raised, ProblemAt):
            return Problem((*path, raised.key), message, raised.hint), True
    return Problem(path, message, _hint_for_value(error)), located.at_key


class _UnionBranch(NamedTuple):
    """A member of a union that pydantic tried, and where in its location the union is."""

    at: KeyPath
    member: Step


class _LocatedError(NamedTuple):
    """An error of pydantic, and where it is in the data."""

    order: int
    error: Mapping[str, Any]
    path: KeyPath
    branches: tuple[_UnionBranch, ...]
    at_key: bool
    wanted: tuple[str, ...] = ()
    """The kinds of value that the members of a union accept, if none accepts this kind."""


_KEY_MARK = "[key]"
"""What pydantic appends to a location when a mapping's key is invalid, not its value."""


def _locate(order: int, error: Mapping[str, Any], data: Any) -> _LocatedError:
    """Follow an error's location through the data.

    Pydantic puts the name of the union member that it tried between the keys (`turns.0.text.list[str]`). The data have
    no such key, which tells the two apart.
    """
    path: list[Step] = []
    branches: list[_UnionBranch] = []
    here, location = data, error["loc"]
    at_key = location[-1:] == (_KEY_MARK,)
    if at_key:
        location = location[:-1]
    for index, step in enumerate(location):
        is_last = index == len(location) - 1
        is_index = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if is_index or (isinstance(here, Mapping) and step in here):
            here = here[step]
        elif not (is_last and (at_key or error["type"] == "missing")):
            branches.append(_UnionBranch(location[:index], step))
            continue
        path.append(step)
    return _LocatedError(order, error, tuple(path), tuple(branches), at_key)


def _choose_union_members(located: Sequence[_LocatedError], depth: int = 0) -> list[_LocatedError]:
    """Pydantic reports errors for every member of a union; keep those of the one that was most likely meant."""
    kept: list[_LocatedError] = []
    unions: dict[KeyPath, list[_LocatedError]] = {}
    for item in located:
        if len(item.branches) <= depth:
            kept.append(item)
        else:
            unions.setdefault(item.branches[depth].at, []).append(item)
    for at, group in unions.items():
        kept += _choose_union_members(_likely_member(group, at, depth), depth + 1)
    return kept


def _likely_member(group: Sequence[_LocatedError], at: KeyPath, depth: int) -> list[_LocatedError]:
    branches: dict[Step, list[_LocatedError]] = {}
    for item in group:
        branches.setdefault(item.branches[depth].member, []).append(item)
    kinds = {name: wanted for name, branch in branches.items() if (wanted := _member_kind(branch, at))}
    possible = [branch for name, branch in branches.items() if name not in kinds]
    if possible:
        return min(possible, key=_unlikelihood)
    return [group[0]._replace(wanted=tuple(kinds.values()))]


def _member_kind(branch: Sequence[_LocatedError], at: KeyPath) -> str | None:
    """The kind of value that this member accepts, if the only error is that the value is of another kind."""
    first = branch[0].error
    at_union_itself = len(branch) == 1 and len(first["loc"]) == len(at) + 1
    return _expected_kind(first) if at_union_itself else None


def _unlikelihood(branch: Sequence[_LocatedError]) -> tuple[bool, int]:
    """Order members: one whose constant (`type: a`) differs was not meant; otherwise fewer errors are likelier."""
    return any(item.error["type"] == "literal_error" for item in branch), len(branch)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    try:
        return model.model_json_schema()
    except PydanticUserError:  # another package's model, whose types have no JSON Schema
        return {}


def _known_keys(model: type[BaseModel], location: KeyPath) -> list[str]:
    """The keys that a mapping takes at a location, read off the model's JSON Schema."""
    root = _schema(model)
    here = list(alternatives(root, root))
    for step in location:
        here = schemas_inside(here, step, root) or [schema for schema in here if _is_called(schema, step)] or here
    return list(dict.fromkeys(key for schema in here for key in schema.get("properties", {})))


def alternatives(schema: dict[str, Any], root: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a JSON Schema stands for: itself, what it refers to, or each member of a union."""
    if "$ref" in schema:
        yield from alternatives(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for member in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        yield from alternatives(member, root)
    if not schema.keys() & {"$ref", "anyOf", "oneOf"}:
        yield schema


def schemas_inside(schemas: Iterable[dict[str, Any]], step: Step, root: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON Schemas of what a key or an index leads to."""
    inside: list[Any] = []
    for schema in schemas:
        if isinstance(step, int):
            places = schema.get("prefixItems", ())
            inside.append(places[step] if step < len(places) else schema.get("items"))
        elif step in schema.get("properties", {}):
            inside.append(schema["properties"][step])
        else:
            inside += [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    return [schema for inner in inside if isinstance(inner, dict) for schema in alternatives(inner, root)]


def _is_called(schema: Mapping[str, Any], label: Step) -> bool:
    """Whether this is the union member that pydantic calls so: by its class, or by the value of its discriminator."""
    return schema.get("title") == label or any(p.get("const") == label for p in schema.get("properties", {}).values())


_EXPECTED_KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("string_type", "string_sub_type", "bytes_type"),
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"),
    "a mapping": ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
    "empty": ("none_required",),
    "{expected}": ("literal_error", "enum"),
}
"""What a value must be, and pydantic's errors if it is not."""

_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "invalid_key": "a key must be text",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "string_unicode": "is not valid Unicode: it contains a lone surrogate",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_empty": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length}, has {actual_length}",
    "too_long": "must have at most {max_length} items, has {actual_length}",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be {expected}",
}
"""The messages of all other errors."""

_PATTERNS: Mapping[str, str] = {
    r"^[^-\s]\S*$": "must be a name without spaces that does not begin with a dash",
    r"^[0-9a-fA-F]{4,64}$": "must be 4 to 64 hexadecimal digits",
    r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$": (
        "must be letters, digits, `.`, `_`, `@`, `+` and `-`, the first a letter or digit"
    ),
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "must be letters, digits, `.`, `_` and `-`, the first a letter or digit",
}
"""What a pattern requires, in words."""

_INPUT_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "empty"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a fraction"),
    (str, "text"),
    ((list, tuple), "a list"),
    (dict, "a mapping"),
)
"""What the value is instead; bool comes before int, which is its base class."""

_MANY_KEYS = 10


def _expected_kind(error: Mapping[str, Any]) -> str | None:
    """What the value must be, if it is of the wrong kind."""
    wanted = next((kind for kind, errors in _EXPECTED_KINDS.items() if error["type"] in errors), None)
    return wanted.format_map(_context(error)) if wanted else None


def _wrong_kind(wanted: Iterable[str], given: Any) -> str:
    choices = list(dict.fromkeys(wanted))
    actual = _input_kind(given)
    contrast = f", not {actual}" if actual and actual not in choices and not any("'" in c for c in choices) else ""
    return f"must be {' or '.join(choices)}{contrast}"


def _message(error: Mapping[str, Any]) -> str:
    if wanted := _expected_kind(error):
        return _wrong_kind([wanted], error["input"])
    context = _context(error)
    if words := _PATTERNS.get(context.get("pattern", "")):
        return words
    is_empty = error["type"] == "string_too_short" and context["min_length"] == 1
    if template := _SENTENCES.get("string_empty" if is_empty else error["type"]):
        return template.format_map(context)
    raised = context.get("error")
    if raised is not None:
        return str(raised)
    message = re.sub(r"^(Input|Value|Field) should ", "must ", error["msg"])
    return message[:1].lower() + message[1:]


def _context(error: Mapping[str, Any]) -> dict[str, Any]:
    context = dict(error.get("ctx", {}))
    if "expected_tags" in context:
        context["expected"] = context["expected_tags"]
    if "," in str(context.get("expected", "")):
        context["expected"] = f"one of {context['expected']}"
    return context


def _input_kind(value: Any) -> str | None:
    return next((name for kind, name in _INPUT_KINDS if isinstance(value, kind)), None)


def _hint_for_value(error: Mapping[str, Any]) -> str | None:
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, int | float):
        return "put it in quotes"
    context = _context(error)
    written = context.get("tag", given)
    if "expected" in context and isinstance(written, str):
        return did_you_mean(written, re.findall(r"'([^']*)'", str(context["expected"])))
    return None


def _hint_for_key(key: str, valid: Sequence[str]) -> str | None:
    if near := did_you_mean(key, valid):
        return near
    if not valid or len(valid) > _MANY_KEYS:
        return None
    return "known keys: " + ", ".join(valid)
