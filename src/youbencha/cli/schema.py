"""`yb schema`: the JSON Schema of a file format, for editors and other programs."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel


class Format(StrEnum):
    TESTCASE = "testcase"
    EVAL = "eval"
    EVALUATOR = "evaluator"
    SETTINGS = "settings"
    ARENA = "arena"
    LOOP = "loop"
    RESULTS = "results"
    META = "meta"
    LOG = "log"
    SCRIPT = "script"
    CLAUDE_CODE = "claude-code"


_MODELS = {
    Format.TESTCASE: ("youbencha.spec.testcase", "TestCase"),
    Format.EVAL: ("youbencha.spec.testcase", "EvalConfig"),
    Format.EVALUATOR: ("youbencha.spec.testcase", "EvaluatorFile"),
    Format.SETTINGS: ("youbencha.spec.settings", "Settings"),
    Format.ARENA: ("youbencha.spec.arena", "ArenaSpec"),
    Format.LOOP: ("youbencha.spec.loop", "LoopSpec"),
    Format.META: ("youbencha.store.arena", "TrialMeta"),
    Format.RESULTS: ("youbencha.store.bundle", "ResultsBundle"),
    Format.LOG: ("youbencha.log.model", "YouBenchaLog"),
    Format.SCRIPT: ("youbencha.gateway.script", "Script"),
    Format.CLAUDE_CODE: ("youbencha.adapters.claude_code", "ClaudeCodeConfig"),
}


def schema(
    name: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="testcase, eval, evaluator (in a separate file), settings, arena (thunderdome.yaml), "
            "loop (ralph.yml), results, meta (meta.json), log, script, or claude-code (its agent.config).",
        ),
    ],
) -> None:
    """Print a JSON Schema.

    Example: `yb schema testcase > testcase.schema.json`
    """
    import json

    from youbencha.spec.schema import json_schema

    module, attribute = _MODELS[name]
    model: type[BaseModel] = getattr(import_module(module), attribute)
    typer.echo(json.dumps(json_schema(model), indent=2, ensure_ascii=False))
