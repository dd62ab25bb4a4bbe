"""`yb schema`: JSON Schemas that say the same as the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from yb import yb
from youbencha.cli.schema import Format

KEYS = {
    "testcase": "repo",
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


def test_every_format_is_looked_at_here() -> None:
    assert {each.value for each in Format} == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_it_is_a_schema(name: str) -> None:
    schema = schema_of(name)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert KEYS[name] in schema["properties"]


@pytest.mark.parametrize("name", KEYS)
def test_every_reference_leads_somewhere(name: str) -> None:
    schema = schema_of(name)
    references = [each["$ref"] for each in every(schema) if isinstance(each.get("$ref"), str)]
    assert all(reference.removeprefix("#/$defs/") in schema["$defs"] for reference in references)


@pytest.mark.parametrize("name", KEYS)
def test_every_pattern_is_one_that_javascript_reads_the_same_way(name: str) -> None:
    for each in every(schema_of(name)):
        if isinstance(pattern := each.get("pattern"), str):
            re.compile(pattern)
            assert not re.search(r"\\[ZzA]|\(\?[a-zP#]", pattern), pattern


def test_editors_are_told_what_each_key_means() -> None:
    schema = json.loads(yb("schema", "testcase").stdout)
    assert "relative to this file" in schema["properties"]["repo"]["description"]
    assert "Changing `type` alone" in schema["$defs"]["AgentSpec"]["description"]
    assert "comes from the environment" in schema["$defs"]["AgentSpec"]["properties"]["env"]["description"]
    assert "shell" in schema["$defs"]["ScriptConfig"]["properties"]["shell"]["description"]
