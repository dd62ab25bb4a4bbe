"""JSON Schemas of the file formats, with the docstrings of the models' fields as descriptions."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel

from youbencha.errors import KeyPath, dotted
from youbencha.spec.arena import ArenaSpec
from youbencha.spec.compat import ralph, youbencha
from youbencha.spec.loop import LoopSpec
from youbencha.spec.problems import alternatives, schemas_inside
from youbencha.spec.testcase import EvalConfig, TestCase

_OLDER_KEYS: Mapping[type[BaseModel], Mapping[KeyPath, KeyPath | str]] = {
    LoopSpec: {
        **dict.fromkeys(ralph.IGNORED, "Has no effect."),
        **dict.fromkeys(ralph.UNSUPPORTED, "Not supported yet."),
        **{path: f"Has no effect: {hint}." for path, hint in ralph.WITHOUT_EFFECT.items()},
        **ralph.MOVED_KEYS,
    },
    ArenaSpec: {("proxy",): "The gateway, as the original Thunderdome configures it."},
    TestCase: {("version",): "Has no effect.", **youbencha.MOVED_KEYS},
    EvalConfig: {("version",): "Has no effect.", **youbencha.MOVED_KEYS},
}
"""Keys that are translated before validation: where their values belong, or a description."""


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a file format. It accepts what the loader accepts, including older keys."""
    schema = model.model_json_schema()
    parts = {model.__name__: schema, **schema.get("$defs", {})}
    for inner in _models_in(model, set()):
        properties = parts.get(inner.__name__, {}).get("properties", {})
        for name, text in _field_docs(inner):
            if name in properties:
                properties[name].setdefault("description", text)
        for name, older in _older_names(inner):
            if name in properties:
                properties[older] = {**properties[name], "deprecated": True}
    for path, replacement in _OLDER_KEYS.get(model, {}).items():
        _add_older_key(schema, path, replacement)
    if model is LoopSpec:
        schema["patternProperties"] = {"^_": {"description": "Holds YAML anchors."}}
    return schema


def _add_older_key(root: dict[str, Any], path: KeyPath, replacement: KeyPath | str) -> None:
    """Add a key to the mappings that may contain it, with the schema of the place where its value belongs."""
    if isinstance(replacement, str):
        key_schema: dict[str, Any] = {"deprecated": True, "description": replacement}
    else:
        text = f"Older name of `{dotted(replacement)}`."
        key_schema = {**_property(root, replacement), "deprecated": True, "description": text}
    here = list(alternatives(root, root))
    for step in path[:-1]:
        for schema in here:
            if "properties" in schema:
                group = {"type": "object", "properties": {}, "deprecated": True, "description": "Contains older keys."}
                schema["properties"].setdefault(step, group)
        here = schemas_inside(here, step, root)
    for schema in here:
        if "properties" in schema:
            schema["properties"].setdefault(str(path[-1]), key_schema)


def _property(root: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    here = list(alternatives(root, root))
    for step in path[:-1]:
        here = schemas_inside(here, step, root)
    return next(schema["properties"][path[-1]] for schema in here if path[-1] in schema.get("properties", {}))


def _older_names(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field's name with its older names: pydantic's schema has only the first, and forbids the others."""
    for field in model.model_fields.values():
        if isinstance(field.validation_alias, AliasChoices):
            first, *others = (name for name in field.validation_alias.choices if isinstance(name, str))
            yield from ((first, other) for other in others)


def _models_in(kind: Any, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """The model and all models inside of it, however deep in unions and lists."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind in seen:
            return
        seen.add(kind)
        yield kind
        for field in kind.model_fields.values():
            yield from _models_in(field.annotation, seen)
    for part in get_args(kind):
        yield from _models_in(part, seen)


def _field_docs(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field with the docstring below it."""
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            yield from _docs_in(ast.parse(textwrap.dedent(inspect.getsource(base))).body[0])


def _docs_in(definition: ast.stmt) -> Iterator[tuple[str, str]]:
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                yield field.target.id, " ".join(text.split())
