"""`yb schema`: JSON Schemas that match the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from yb import yb
from youbencha.cli.setup import Format

KEYS = {
    "testcase": "repo",
    "arena": "orchestrators",
    "loop": "event_loop",
    "meta": "composite_score",
    "eval": "directory",
    "evaluator": "name",
    "settings": "variables",
    "results": "summary",
    "log": "agent_info",
    "script": "turns",
    "claude-code": "prompt",
}


def schema_of(name: str) -> dict[str, Any]:
    done = yb("schema", name)
    assert (done.returncode, done.stderr) == (0, "")
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def every(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from every(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from every(inner)


def test_every_format_is_tested_here() -> None:
    assert {each.value for each in Format} == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_each_schema_is_a_closed_object_that_editors_understand(name: str) -> None:
    """It is a valid schema, every reference resolves, and every pattern means the same in JavaScript."""
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert KEYS[name] in schema["properties"]
    references = [each["$ref"] for each in every(schema) if isinstance(each.get("$ref"), str)]
    assert all(reference.removeprefix("#/$defs/") in schema["$defs"] for reference in references)
    for pattern in [each["pattern"] for each in every(schema) if isinstance(each.get("pattern"), str)]:
        re.compile(pattern)
        assert not re.search(r"\\[ZzA]|\(\?[a-zP#]", pattern), pattern


def test_keys_have_descriptions() -> None:
    schema = json.loads(yb("schema", "testcase").stdout)
    assert "relative to this file" in schema["properties"]["repo"]["description"]
    assert "change `type` alone" in schema["$defs"]["AgentSpec"]["description"]
    assert "comes from your environment" in schema["$defs"]["AgentSpec"]["properties"]["env"]["description"]
    assert "shell" in schema["$defs"]["ScriptConfig"]["properties"]["shell"]["description"]
