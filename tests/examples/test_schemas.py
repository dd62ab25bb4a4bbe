"""The JSON Schemas for editors accept what we accept, and refuse what we refuse."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from ruamel.yaml import YAML

from youbencha.spec.arena import ArenaSpec
from youbencha.spec.loop import LoopSpec
from youbencha.spec.loop_loader import load_loop_file
from youbencha.spec.schema import json_schema
from youbencha.spec.settings import Settings
from youbencha.spec.testcase import EvalConfig, EvaluatorFile, TestCase

EXAMPLES = Path(__file__).parents[2] / "examples"
ORIGINAL = Path(__file__).parent / "original"
DEMO = Path(__file__).parents[2] / "src" / "youbencha" / "demo" / "testcase.yaml"
FILES = {
    *EXAMPLES.glob("*.yaml"),
    *EXAMPLES.glob("*/*.yaml"),
    EXAMPLES / "variables" / ".youbencharc",
    EXAMPLES / "ralph" / "ralph.yml",
    *ORIGINAL.glob("*.yaml"),
    *ORIGINAL.glob("*.json"),
    *ORIGINAL.glob("*/*.yaml"),
    DEMO,
}
MINIMAL: dict[str, Any] = {"repo": ".", "agent": {"type": "command"}, "evaluators": ["git-diff"]}


def model_of(path: Path) -> type[BaseModel]:
    if path.parent.name == "evaluators":
        return EvaluatorFile
    if path.name == "thunderdome.yaml":
        return ArenaSpec
    if path.name == "ralph.yml":
        return LoopSpec
    if "youbencharc" in path.name:
        return Settings
    return EvalConfig if path.name in ("eval-a-directory.yaml", "eval-config.yaml") else TestCase


def complaints(model: type[BaseModel], data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in checker(model).iter_errors(data)]


@cache
def checker(model: type[BaseModel]) -> Draft202012Validator:
    return Draft202012Validator(json_schema(model))


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_accepted_files_match_the_schema(path: Path) -> None:
    assert complaints(model_of(path), YAML(typ="safe", pure=True).load(path)) == []


@pytest.mark.parametrize("model", [TestCase, EvalConfig, EvaluatorFile, Settings, ArenaSpec, LoopSpec])
def test_every_key_has_a_description(model: type[BaseModel]) -> None:
    """Editors show it."""
    schema = json_schema(model)
    parts = {model.__name__: schema, **schema.get("$defs", {})}
    properties = [
        (name, key, about) for name, part in parts.items() for key, about in part.get("properties", {}).items()
    ]
    assert [f"{name}.{key}" for name, key, about in properties if not about.get("description", "")] == []
    assert [name for name, part in parts.items() if "properties" in part and not part.get("description")] == []


@pytest.mark.parametrize("entry", ["git-diff", {"name": "git-diff"}, {"file": "a.yaml"}, {"name": "x", "config": {}}])
def test_an_evaluator_is_a_name_or_a_mapping(entry: Any) -> None:
    assert complaints(TestCase, {**MINIMAL, "evaluators": [entry]}) == []
    assert complaints(EvalConfig, {"directory": ".", "evaluators": [entry]}) == []


@pytest.mark.parametrize("key", ["post_evaluation", "post_evaluators"])
@pytest.mark.parametrize("model", [TestCase, EvalConfig])
def test_older_names_match_the_schema(key: str, model: type[BaseModel]) -> None:
    hook = {"name": "script", "config": {"command": "x"}}
    case = MINIMAL if model is TestCase else {"directory": ".", "evaluators": ["git-diff"]}
    assert complaints(model, {**case, key: [hook]}) == []
    assert complaints(model, {**case, key: [{"name": "skript"}]}) != []


@pytest.mark.parametrize(
    "wrong",
    [
        {"evaluators": []},
        {"evaluators": [""]},
        {"evaluators": [5]},
        {"evaluators": [{"nmae": "git-diff"}]},
        {"evaluators": "git-diff"},
        {"agnet": {}},
        {"timeout": "soon"},
    ],
)
def test_refused_files_do_not_match_the_schema(wrong: dict[str, Any]) -> None:
    assert complaints(TestCase, {**MINIMAL, **wrong}) != []


@pytest.mark.parametrize(
    "loop",
    [
        {},
        {"agent": "claude", "max_iterations": 3, "backpressure": {"gates": []}, "project": {}},
        {"_shared": "text", "_suppress_warnings": True, "RObot": {"enabled": False}},
        {"cli": {"pty_mode": "observe"}, "core": {"scratchpad": False}},
        {"hats": {"a": {"backend": "codex", "args": ["-x"]}, "b": {"backend": {"type": "kiro", "agent": "x"}}}},
        {"event_loop": {"escalation": [{"model": "opus"}, "person"]}, "sandbox": "docker"},
        {"gates": [{"name": "a", "command": "x"}, {"name": "b", "command": ["x", "y"]}]},
    ],
)
def test_every_form_of_a_loop_matches_the_schema(loop: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "ralph.yml").open("w") as file:
        YAML().dump(loop, file)
    load_loop_file(tmp_path / "ralph.yml")
    assert complaints(LoopSpec, loop) == []


@pytest.mark.parametrize("wrong", [{"evnt_loop": {}}, {"cli": {"bakend": "x"}}, {"event_loop": {"max_iterations": 0}}])
def test_refused_loops_do_not_match_the_schema(wrong: dict[str, Any]) -> None:
    assert complaints(LoopSpec, wrong) != []
