"""Where an error lies, read off the model's own types.

Pydantic puts the name of the union member that it tried between the keys of an error's location
(`turns.0.text.list[str]`). A person never wrote that, so the location is walked together with the types, and
what turns out to be a union's label is kept apart as a fork.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, RootModel, Tag
from pydantic.fields import FieldInfo

Step = str | int
Path = tuple[Step, ...]

KEY_MARK = "[key]"
"""What pydantic appends to a location when a mapping's key is wrong, and not its value."""


class Fork(NamedTuple):
    """A union on the way: where it stands in pydantic's location, and which member was tried."""

    at: Path
    member: Step


class Place(NamedTuple):
    """A location without pydantic's labels."""

    path: Path
    forks: tuple[Fork, ...]
    parent: Any
    """The type that holds the last key, or None if it is not known."""
    at_key: bool


def place(location: Path, model: Any) -> Place:
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
