"""Turn pydantic's errors into problems that a user can fix. No message quotes a value: it may be a secret."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, RootModel, Tag, ValidationError
from pydantic.fields import FieldInfo

from youbencha.errors import KeyPath, Problem, ProblemKind, Step
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


Locate = Callable[[KeyPath, bool], Position]
"""Finds the position of a key (True) or of its value (False)."""


class _LocatedError(NamedTuple):
    order: int
    error: Mapping[str, Any]
    location: ErrorLocation
    wanted: tuple[str, ...] = ()
    """The kinds of value that the members of a union accept, if none accepts this kind."""


def problems_of(exc: ValidationError, model: type[BaseModel], *, locate: Locate | None = None) -> list[Problem]:
    """All problems, in the order of the document with `locate`, else in pydantic's order."""
    errors: list[Mapping[str, Any]] = [dict(error) for error in exc.errors(include_url=False)]
    found = [_LocatedError(order, error, _error_location(error["loc"], model)) for order, error in enumerate(errors)]
    chosen = sorted(_choose_union_members(found), key=lambda item: item.order)
    chosen = [item for item in chosen if not _counts_only_valid_items(item.error)]
    problems = [_problem(item, locate) for item in chosen]
    far = float("inf")
    return sorted(problems, key=lambda p: (p.line or far, p.column or far))


def _counts_only_valid_items(error: Mapping[str, Any]) -> bool:
    """Whether a list is too short only because pydantic leaves out its invalid items, which have their own errors."""
    return error["type"] == "too_short" and bool(len(error["input"]) >= error["ctx"]["min_length"])


def unknown_key(key: str, valid: list[str]) -> Problem:
    """The problem of an unknown key that no model has found."""
    return Problem(key, "unknown key", _hint_for_key(key, valid), kind="unknown_key")


def _problem(found: _LocatedError, locate: Locate | None) -> Problem:
    error, where = found.error, found.location
    path, at_key = where.path, where.at_key
    kind: ProblemKind = "invalid"
    raised = error.get("ctx", {}).get("error")
    match error["type"]:
        case "extra_forbidden":
            kind, at_key, hint = "unknown_key", True, _hint_for_key(str(path[-1]), _valid_keys(where.parent))
        case "union_tag_not_found" | "union_tag_invalid":
            path = (*path, error["ctx"]["discriminator"].strip("'"))
            hint = _hint_for_value(error)
        case "invalid_key":
            at_key, hint = True, None
        case _ if isinstance(raised, ProblemAt):
            path, at_key, hint = (*path, raised.key), True, raised.hint
        case _:
            hint = _hint_for_value(error)
    message = _wrong_kind(found.wanted, error["input"]) if found.wanted else _message_of(error)
    at = locate(path, at_key) if locate else None
    line, column = (at.line, at.column) if at else (None, None)
    return Problem(path, message, hint, line, column, kind=kind)


def _choose_union_members(found: Sequence[_LocatedError], depth: int = 0) -> list[_LocatedError]:
    """Pydantic reports errors for every member of a union; keep those of the one that was most likely meant."""
    kept: list[_LocatedError] = []
    unions: dict[KeyPath, list[_LocatedError]] = {}
    for item in found:
        if len(item.location.branches) <= depth:
            kept.append(item)
        else:
            unions.setdefault(item.location.branches[depth].at, []).append(item)
    for at, group in unions.items():
        kept += _choose_union_members(_likely_member(group, at, depth), depth + 1)
    return kept


def _likely_member(group: Sequence[_LocatedError], at: KeyPath, depth: int) -> list[_LocatedError]:
    branches: dict[Any, list[_LocatedError]] = {}
    for item in group:
        branches.setdefault(item.location.branches[depth].member, []).append(item)
    kinds = {name: wanted for name, branch in branches.items() if (wanted := _kind_of_member(branch, at))}
    possible = [branch for name, branch in branches.items() if name not in kinds]
    if possible:
        return min(possible, key=_unlikelihood)
    return [group[0]._replace(wanted=tuple(kinds.values()))]


def _kind_of_member(branch: Sequence[_LocatedError], at: KeyPath) -> str | None:
    """The kind of value that this member accepts, if the only error is that the value is of another kind."""
    first = branch[0].error
    at_union_itself = len(branch) == 1 and len(first["loc"]) == len(at) + 1
    return _expected_kind(first) if at_union_itself else None


def _unlikelihood(branch: Sequence[_LocatedError]) -> tuple[bool, int]:
    """A member whose constant (`type: a`) differs was not meant; else the fewer errors, the likelier."""
    return any(item.error["type"] == "literal_error" for item in branch), len(branch)


_KEY_MARK = "[key]"
"""What pydantic appends to a location when a mapping's key is invalid, not its value."""


class UnionBranch(NamedTuple):
    """A member of a union that pydantic tried, and where in its location the union is."""

    at: KeyPath
    member: Step


class ErrorLocation(NamedTuple):
    """Where an error is in the document, read off the model's types.

    Pydantic puts the name of the union member that it tried between the keys of an error's location
    (`turns.0.text.list[str]`). The document has no such key, so the location is followed together with the types, and
    the names of union members are kept apart.
    """

    path: KeyPath
    branches: tuple[UnionBranch, ...]
    parent: Any
    """The type that has the last key, or None if it is unknown."""
    at_key: bool


def _error_location(location: KeyPath, model: Any) -> ErrorLocation:
    path: list[Step] = []
    branches: list[UnionBranch] = []
    here: Any = model
    parent: Any = None
    for index, step in enumerate(location):
        here = _plain_type(here)
        if step == _KEY_MARK:
            return ErrorLocation(tuple(path), tuple(branches), parent, at_key=True)
        members = _union_members(here)
        if len(members) > 1:
            branches.append(UnionBranch(location[:index], step))
            here = _member_labelled(members, str(step))
            continue
        parent, here = here, _type_inside(here, step)
        path.append(step)
    return ErrorLocation(tuple(path), tuple(branches), parent, at_key=False)


def _plain_type(annotation: Any) -> Any:
    """The type behind Annotated, a type alias, a root model and `| None`, none of which leave a label."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        elif isinstance(annotation, type) and issubclass(annotation, RootModel):
            annotation = annotation.model_fields["root"].annotation
        elif len(members := _union_members(annotation)) == 1:
            annotation = members[0]
        else:
            return annotation


def _union_members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return ()
    return tuple(member for member in get_args(annotation) if member is not types.NoneType)


def _member_labelled(members: tuple[Any, ...], label: str) -> Any:
    """The member that pydantic calls `label`: by its tag, its class, its discriminator's value or its kind."""
    for member in members:
        if label in _labels_of(member):
            return member
    kind = label.partition("[")[0]
    return next((m for m in members if getattr(get_origin(_plain_type(m)), "__name__", None) == kind), None)


def _labels_of(member: Any) -> set[str]:
    tags = {meta.tag for meta in get_args(member)[1:] if isinstance(meta, Tag)}
    bare = _plain_type(member)
    if not isinstance(bare, type):
        return tags
    if not issubclass(bare, BaseModel):
        return tags | {bare.__name__}
    literals = (get_args(f.annotation) for f in bare.model_fields.values() if get_origin(f.annotation) is Literal)
    return tags | {bare.__name__} | {str(value) for values in literals for value in values}


def _type_inside(annotation: Any, step: Step) -> Any:
    """The type of what a key or an index leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if step == name or step in _keys_of(name, info):
                return info.annotation
        return None
    arguments = get_args(annotation)
    if not arguments:
        return None
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[-1]
    if origin is tuple and isinstance(step, int) and arguments[-1] is not ...:
        return arguments[step] if step < len(arguments) else None
    return arguments[0]


def _valid_keys(annotation: Any) -> list[str]:
    """The keys that a model takes; none for anything that is not a model."""
    bare = _plain_type(annotation)
    if not (isinstance(bare, type) and issubclass(bare, BaseModel)):
        return []
    by_name = bool(bare.model_config.get("populate_by_name") or bare.model_config.get("validate_by_name"))
    keys: list[str] = []
    for name, info in bare.model_fields.items():
        keys += [key for key in _keys_of(name, info) if key not in keys]
        if by_name and name not in keys:
            keys.append(name)
    return keys


def _keys_of(name: str, info: FieldInfo) -> list[str]:
    alias = info.validation_alias or info.alias
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias] if isinstance(alias, str) else [name]


_EXPECTED_KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("string_type", "string_sub_type", "bytes_type"),
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
    "a number": ("float_type", "float_parsing", "decimal_type", "decimal_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"),
    "a mapping": ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
    "empty": ("none_required",),
    "a path": ("path_type",),
    "a URL": ("url_type", "url_parsing"),
    "a URL of another kind": ("url_scheme",),
    "a date": ("date_type", "date_parsing", "date_from_datetime_parsing"),
    "a date and time": ("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
    "a duration": ("time_delta_type", "time_delta_parsing"),
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
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_unicode": "is not valid Unicode: it contains a lone surrogate",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_empty": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length}, has {actual_length}",
    "too_long": "must have at most {max_length} items, has {actual_length}",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be {expected}",
    "frozen_field": "cannot be changed",
    "path_not_file": "there is no such file",
    "path_not_directory": "there is no such directory",
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
    return wanted.format_map(_context_of(error)) if wanted else None


def _wrong_kind(wanted: Iterable[str], given: Any) -> str:
    choices = list(dict.fromkeys(wanted))
    found = _kind_of_value(given)
    contrast = f", not {found}" if found and found not in choices and not any("'" in c for c in choices) else ""
    return f"must be {' or '.join(choices)}{contrast}"


def _message_of(error: Mapping[str, Any]) -> str:
    if wanted := _expected_kind(error):
        return _wrong_kind([wanted], error["input"])
    context = _context_of(error)
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


def _context_of(error: Mapping[str, Any]) -> dict[str, Any]:
    context = dict(error.get("ctx", {}))
    if "expected_tags" in context:
        context["expected"] = context["expected_tags"]
    if "," in str(context.get("expected", "")):
        context["expected"] = f"one of {context['expected']}"
    return context


def _kind_of_value(value: Any) -> str | None:
    return next((name for kind, name in _INPUT_KINDS if isinstance(value, kind)), None)


def _hint_for_value(error: Mapping[str, Any]) -> str | None:
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, int | float):
        return "put it in quotes"
    context = _context_of(error)
    written = context.get("tag", given)
    if "expected" in context and isinstance(written, str):
        return did_you_mean(written, re.findall(r"'([^']*)'", str(context["expected"])))
    return None


def _hint_for_key(key: str, valid: list[str]) -> str | None:
    if near := did_you_mean(key, valid):
        return near
    if not valid or len(valid) > _MANY_KEYS:
        return None
    return "known keys: " + ", ".join(valid)
