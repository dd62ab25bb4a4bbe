"""From pydantic's list of errors to the list of problems that a person can fix.

Pydantic puts the name of the union member that it tried between the keys of an error's location
(`turns.0.text.list[str]`). A person never wrote that, so the location is walked together with the types, and
what turns out to be a union's label is kept apart as a fork.

No message quotes a value: it may be a secret.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, RootModel, Tag, ValidationError
from pydantic.fields import FieldInfo

from youbencha.errors import Problem, ProblemKind
from youbencha.text import did_you_mean

Step = str | int
KeyPath = tuple[Step, ...]

KEY_MARK = "[key]"
"""What pydantic appends to a location when a mapping's key is wrong, and not its value."""


class Fork(NamedTuple):
    """A union on the way: where it stands in pydantic's location, and which member was tried."""

    at: KeyPath
    member: Step


class Place(NamedTuple):
    """A location without pydantic's labels."""

    path: KeyPath
    forks: tuple[Fork, ...]
    parent: Any
    """The type that holds the last key, or None if it is not known."""
    at_key: bool


def place(location: KeyPath, model: Any) -> Place:
    path: list[Step] = []
    forks: list[Fork] = []
    here: Any = model
    parent: Any = None
    for index, step in enumerate(location):
        here = plain(here)
        if step == KEY_MARK:
            return Place(tuple(path), tuple(forks), parent, at_key=True)
        members = union_members(here)
        if len(members) > 1:
            forks.append(Fork(location[:index], step))
            here = member_labelled(members, str(step))
            continue
        parent, here = here, inside(here, step)
        path.append(step)
    return Place(tuple(path), tuple(forks), parent, at_key=False)


def plain(annotation: Any) -> Any:
    """The type behind Annotated, a type alias, a root model and `| None`, none of which leave a label."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__value__"):
            annotation = annotation.__value__
        elif isinstance(annotation, type) and issubclass(annotation, RootModel):
            annotation = annotation.model_fields["root"].annotation
        elif len(members := union_members(annotation)) == 1:
            annotation = members[0]
        else:
            return annotation


def union_members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (Union, types.UnionType):
        return ()
    return tuple(member for member in get_args(annotation) if member is not types.NoneType)


def member_labelled(members: tuple[Any, ...], label: str) -> Any:
    """The member that pydantic names so: by its tag, its class, its discriminator's value or its kind."""
    for member in members:
        if label in labels_of(member):
            return member
    kind = label.partition("[")[0]
    return next((m for m in members if getattr(get_origin(plain(m)), "__name__", None) == kind), None)


def labels_of(member: Any) -> set[str]:
    tags = {meta.tag for meta in get_args(member)[1:] if isinstance(meta, Tag)}
    bare = plain(member)
    if not isinstance(bare, type):
        return tags
    if not issubclass(bare, BaseModel):
        return tags | {bare.__name__}
    literals = (get_args(f.annotation) for f in bare.model_fields.values() if get_origin(f.annotation) is Literal)
    return tags | {bare.__name__} | {str(value) for values in literals for value in values}


def inside(annotation: Any, step: Step) -> Any:
    """The type of what a key or an index leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if step == name or step in keys_of(name, info):
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


def valid_keys(annotation: Any) -> list[str]:
    """What may be written in a mapping of this model; empty for anything that is not a model."""
    bare = plain(annotation)
    if not (isinstance(bare, type) and issubclass(bare, BaseModel)):
        return []
    by_name = bool(bare.model_config.get("populate_by_name") or bare.model_config.get("validate_by_name"))
    keys: list[str] = []
    for name, info in bare.model_fields.items():
        keys += [key for key in keys_of(name, info) if key not in keys]
        if by_name and name not in keys:
            keys.append(name)
    return keys


def keys_of(name: str, info: FieldInfo) -> list[str]:
    alias = info.validation_alias or info.alias
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias] if isinstance(alias, str) else [name]


class ProblemAt(ValueError):
    """Raised by a model's validator to say which of its keys is wrong: the problem stands there."""

    def __init__(self, key: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.hint = hint


class Spot(Enum):
    """Which end of a mapping's entry a problem is about."""

    KEY = "key"
    VALUE = "value"


class Position(NamedTuple):
    """1-based."""

    line: int
    column: int


Locate = Callable[[KeyPath, Spot], Position | None]


class _Found(NamedTuple):
    order: int
    error: Mapping[str, Any]
    place: Place
    wanted: tuple[str, ...] = ()
    """What each member of a union would have taken, when none of them takes this kind of value."""


def problems_of(exc: ValidationError, model: type[BaseModel], *, locate: Locate | None = None) -> list[Problem]:
    """Every problem, in document order if `locate` knows positions, else in pydantic's order."""
    errors: list[Mapping[str, Any]] = [dict(error) for error in exc.errors(include_url=False)]
    found = [_Found(order, error, place(error["loc"], model)) for order, error in enumerate(errors)]
    settled = sorted(_settle_unions(found), key=lambda item: item.order)
    problems = [_problem(item, locate) for item in settled]
    far = float("inf")
    return sorted(problems, key=lambda p: (p.line or far, p.column or far))


def unknown_key(key: str, valid: list[str]) -> Problem:
    """For a key that no model knows, because what is valid is decided elsewhere."""
    return Problem(key, "unknown key", hint_for_key(key, valid), kind="unknown_key")


def dotted(path: Sequence[Step]) -> str:
    return ".".join(str(step) for step in path)


def _problem(found: _Found, locate: Locate | None) -> Problem:
    error, where = found.error, found.place
    path, spot, hint = where.path, Spot.VALUE, None
    kind: ProblemKind = "unknown_key" if error["type"] == "extra_forbidden" else "invalid"
    raised = error.get("ctx", {}).get("error")
    match error["type"]:
        case "extra_forbidden":
            spot, hint = Spot.KEY, hint_for_key(str(path[-1]), valid_keys(where.parent))
        case "union_tag_not_found" | "union_tag_invalid":
            path = (*path, error["ctx"]["discriminator"].strip("'"))
            hint = hint_for_value(error)
        case "invalid_key":
            spot = Spot.KEY
        case _ if isinstance(raised, ProblemAt):
            path, spot, hint = (*path, raised.key), Spot.KEY, raised.hint
        case _:
            spot = Spot.KEY if where.at_key else Spot.VALUE
            hint = hint_for_value(error)
    message = wrong_kind(found.wanted, error["input"]) if found.wanted else sentence(error)
    at = locate(path, spot) if locate else None
    line, column = (at.line, at.column) if at else (None, None)
    return Problem(dotted(path), message, hint, line, column, kind=kind)


def _settle_unions(found: Sequence[_Found], depth: int = 0) -> list[_Found]:
    """Pydantic tells what is wrong with every member of a union; keep the one that was most likely meant."""
    kept: list[_Found] = []
    unions: dict[KeyPath, list[_Found]] = {}
    for item in found:
        if len(item.place.forks) <= depth:
            kept.append(item)
        else:
            unions.setdefault(item.place.forks[depth].at, []).append(item)
    for at, group in unions.items():
        kept += _settle_unions(_likely_member(group, at, depth), depth + 1)
    return kept


def _likely_member(group: Sequence[_Found], at: KeyPath, depth: int) -> list[_Found]:
    branches: dict[Any, list[_Found]] = {}
    for item in group:
        branches.setdefault(item.place.forks[depth].member, []).append(item)
    kinds = {name: wanted for name, branch in branches.items() if (wanted := _kind_only(branch, at))}
    possible = [branch for name, branch in branches.items() if name not in kinds]
    if possible:
        return min(possible, key=_unlikely)
    return [group[0]._replace(wanted=tuple(kinds.values()))]


def _kind_only(branch: Sequence[_Found], at: KeyPath) -> str | None:
    """The kind of value that this member takes, if all that is wrong is that the value is of another kind."""
    first = branch[0].error
    at_union_itself = len(branch) == 1 and len(first["loc"]) == len(at) + 1
    return kind_wanted(first) if at_union_itself else None


def _unlikely(branch: Sequence[_Found]) -> tuple[bool, int]:
    """A member whose constant (`type: a`) differs was not meant; else the fewer errors, the likelier."""
    return any(item.error["type"] == "literal_error" for item in branch), len(branch)


KINDS: Mapping[str, str] = {
    "string_type": "text",
    "string_sub_type": "text",
    "bytes_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "empty",
    "path_type": "a path",
    "url_type": "a URL",
    "url_parsing": "a URL",
    "url_scheme": "a URL of another kind",
    "date_type": "a date",
    "date_parsing": "a date",
    "date_from_datetime_parsing": "a date",
    "datetime_type": "a date and time",
    "datetime_parsing": "a date and time",
    "datetime_from_date_parsing": "a date and time",
    "time_delta_type": "a duration",
    "time_delta_parsing": "a duration",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""What a value should have been: the sentence is "must be ..."."""

SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "invalid_key": "a key must be text",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_unicode": "is not valid Unicode: it holds half of a surrogate pair",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_empty": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} of them, has {actual_length}",
    "too_long": "must have at most {max_length} items, has {actual_length}",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be {expected}",
    "frozen_field": "cannot be changed",
    "path_not_file": "there is no such file",
    "path_not_directory": "there is no such directory",
}
"""Everything else that can be said with the numbers that pydantic gives."""

PATTERNS: Mapping[str, str] = {
    r"^[^-\s]\S*$": "must be a name without spaces that does not begin with a dash",
    r"^[0-9a-fA-F]{4,64}$": "must be 4 to 64 hexadecimal digits",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "must be letters, digits, `.`, `_` and `-`, the first a letter or digit",
}
"""What a pattern asks for, where few people would read it off."""

INPUT_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "empty"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a fraction"),
    (str, "text"),
    ((list, tuple), "a list"),
    (dict, "a mapping"),
)
"""What a value is instead; bool stands before int, of which Python makes it a kind."""

MANY_KEYS = 10


def kind_wanted(error: Mapping[str, Any]) -> str | None:
    """What the value should have been, if its kind is what is wrong."""
    wanted = KINDS.get(error["type"])
    return wanted.format_map(context_of(error)) if wanted else None


def wrong_kind(wanted: Iterable[str], given: Any) -> str:
    choices = list(dict.fromkeys(wanted))
    found = kind_of(given)
    contrast = f", not {found}" if found and found not in choices and not any("'" in c for c in choices) else ""
    return f"must be {' or '.join(choices)}{contrast}"


def sentence(error: Mapping[str, Any]) -> str:
    if wanted := kind_wanted(error):
        return wrong_kind([wanted], error["input"])
    context = context_of(error)
    if words := PATTERNS.get(context.get("pattern", "")):
        return words
    is_empty = error["type"] == "string_too_short" and context["min_length"] == 1
    if template := SENTENCES.get("string_empty" if is_empty else error["type"]):
        return template.format_map(context)
    raised = context.get("error")
    if raised is not None:
        return str(raised)
    return lower_first(re.sub(r"^(Input|Value|Field) should ", "must ", error["msg"]))


def context_of(error: Mapping[str, Any]) -> dict[str, Any]:
    context = dict(error.get("ctx", {}))
    if "expected_tags" in context:
        context["expected"] = context["expected_tags"]
    if "," in str(context.get("expected", "")):
        context["expected"] = f"one of {context['expected']}"
    return context


def kind_of(value: Any) -> str | None:
    return next((name for kind, name in INPUT_KINDS if isinstance(value, kind)), None)


def hint_for_value(error: Mapping[str, Any]) -> str | None:
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, int | float):
        return "put it in quotes"
    context = context_of(error)
    written = context.get("tag", given)
    if "expected" in context and isinstance(written, str):
        return did_you_mean(written, re.findall(r"'([^']*)'", str(context["expected"])))
    return None


def hint_for_key(key: str, valid: list[str]) -> str | None:
    if near := did_you_mean(key, valid):
        return near
    if not valid or len(valid) > MANY_KEYS:
        return None
    return "known keys: " + ", ".join(valid)


def lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
