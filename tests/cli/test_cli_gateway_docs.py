"""The keys, fields and options in docs/gateway.md are exactly those that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from youbencha.cli.serving import gateway
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.ledger import KILLED, ledger_entry
from youbencha.gateway.refusals import Reason
from youbencha.spec.gateway import CassetteSpec, GatewaySpec, GatewayType, LiteLLMSpec, ModelPrice, UpstreamSpecs
from youbencha.usage import Tokens

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "gateway.md").read_text(encoding="utf-8")
COMMANDS = (DOCS / "commands.md").read_text(encoding="utf-8")


def section(title: str, page: str = PAGE) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def words(text: str) -> set[str]:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def first_column(text: str) -> set[str]:
    return words(" ".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE)))


@pytest.mark.parametrize("model", [GatewaySpec, UpstreamSpecs, CassetteSpec, LiteLLMSpec])
def test_every_key_of_a_test_case_is_documented(model: Any) -> None:
    assert set(model.model_fields) - words(section("In a test case")) == set()


def test_exactly_the_existing_types_are_documented() -> None:
    types, _ = section("In a test case").split("A budget or a cassette")
    assert first_column(types) - {"type", "default"} == set(get_args(GatewayType))


def test_the_pages_snippets_are_valid() -> None:
    from ruamel.yaml import YAML

    from youbencha.spec.testcase import TestCase

    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    whole = {"repo": ".", "agent": {"type": "claude-code", "config": {"prompt": "x"}}, "evaluators": ["git-diff"]}
    for block in blocks:
        TestCase.model_validate({**whole, **YAML(typ="safe", pure=True).load(block)})
    assert set(ModelPrice.model_fields) <= set(re.findall(r"\w+", blocks[1]))


def test_exactly_the_existing_ledger_fields_are_documented() -> None:
    call = Call("1", 0.0, Labels("k"), "GET", "/", None, None, None, 200, Tokens(), None, False)
    fields, errors = section("The ledger").split("| `error` | |")
    assert first_column(fields) - {"field"} == set(ledger_entry(call))
    assert set(get_args(Reason)) <= first_column(errors)
    assert KILLED in fields


def options() -> set[str]:
    app = typer.Typer(add_completion=False)
    app.command()(gateway)
    command: Any = typer.main.get_command(app)
    return {option for param in command.params for option in param.opts if option.startswith("--")} - {"--help"}


@pytest.mark.parametrize("text", [section("On its own"), section("yb gateway", COMMANDS)], ids=["gateway", "commands"])
def test_exactly_the_existing_options_are_documented(text: str) -> None:
    rows = " ".join(re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE))
    assert set(re.findall(r"--[a-z-]+", rows)) == options()
