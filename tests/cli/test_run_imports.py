"""`yb run` does not wait for what it does not use: which modules it loads, and when.

Lists, not times: a module that comes in again is seen at once, on any machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from systems import ON_WINDOWS

NOT_FOR_THIS_RUN = (
    # of others
    *("aiodocker", "aiohttp", "email", "genai_prices", "http", "importlib.metadata", "jinja2", "psutil", "rapidfuzz"),
    *("rich", "sqlite3", "xml", "_strptime"),
    # other agents, evaluators and sandboxes; hooks; a gateway that runs; reports that nobody asked for
    *("youbencha.adapters.claude_code", "youbencha.adapters.codex", "youbencha.evaluators.command"),
    *("youbencha.evaluators.expected_diff", "youbencha.evaluators.judge", "youbencha.gateway.server"),
    *("youbencha.hooks", "youbencha.report.html", "youbencha.report.junit", "youbencha.sandbox.docker"),
    *("youbencha.spec.schema", "youbencha.spec.settings_edit", "youbencha.trial.advice", "youbencha.trial.directory"),
    "youbencha.trial.gateway.way",
)
NOT_BEFORE_GIT_WORKS = ("youbencha.log.results", "youbencha.report", "youbencha.trial.run")
"""Needed afterwards, and loaded in the meantime."""

WATCHED = """
import atexit, json, sys
from pathlib import Path
from youbencha.cli import main, startup

seen = {}
loaded = startup.loaded

def beginning():
    seen["before"] = list(sys.modules)
    loaded()

def ending():
    from youbencha.spec import gateway, hooks, sandbox
    models = (gateway.GatewaySpec, gateway.UpstreamSpec, hooks.ScriptHook, hooks.WebhookHook, sandbox.SandboxSpec)
    seen["built"] = [model.__name__ for model in models if model.__pydantic_complete__]
    seen["after"] = list(sys.modules)
    Path("seen.json").write_text(json.dumps(seen))

startup.loaded = beginning
atexit.register(ending)
main()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """One run of a program of our own, judged by git-diff: what it had loaded when git began, and at its end."""
    place = tmp_path_factory.mktemp("run")
    repository = place / "repository"
    repository.mkdir()
    (repository / "file.txt").write_text("one\n")
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "start")):
        subprocess.run([*git, *arguments], cwd=repository, check=True)
    case: dict[str, Any] = {
        "repo": str(repository),
        "agent": {
            "type": "command",
            "config": {"command": [sys.executable, "-c", "open('file.txt', 'a').write('two')"]},
        },
        "evaluators": ["git-diff"],
    }
    (place / "case.json").write_text(json.dumps(case))
    subprocess.run(
        [sys.executable, "-c", WATCHED, "run", "-c", "case.json", "--quiet"],
        cwd=place,
        env={**os.environ, "HOME": str(place), "XDG_CACHE_HOME": str(place / "cache")},
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    return dict(json.loads((place / "seen.json").read_text()))


def test_what_this_run_does_not_use_is_not_loaded(seen: dict[str, list[str]]) -> None:
    wanted = _within(NOT_FOR_THIS_RUN, seen["after"])
    if ON_WINDOWS:  # its processes are watched by other means
        wanted -= {"psutil"}
    assert wanted == set()


def test_what_is_needed_at_the_end_is_loaded_while_git_works(seen: dict[str, list[str]]) -> None:
    assert _within(NOT_BEFORE_GIT_WORKS, seen["before"]) == set()
    assert _within(NOT_BEFORE_GIT_WORKS, seen["after"]) == set(NOT_BEFORE_GIT_WORKS)


def test_nothing_is_built_that_would_check_what_nobody_wrote(seen: dict[str, list[str]]) -> None:
    assert seen["built"] == []


def _within(names: tuple[str, ...], loaded: list[str]) -> set[str]:
    return {name for name in names if name in loaded}


def test_pydantic_is_lighter_and_everybody_else_as_ever() -> None:
    script = (
        "import sys, typing\n"
        "from youbencha.cli import startup\n"
        "before = typing.TypedDict\n"
        "startup.lighten_pydantic()\n"
        "assert typing.TypedDict is before\n"
        "import pydantic, pydantic_core.core_schema as core, typing_extensions\n"
        "assert not typing_extensions.is_typeddict(core.StringSchema)\n"
        "class Pair(typing_extensions.TypedDict): number: int\n"
        "assert pydantic.TypeAdapter(Pair).validate_python({'number': '1'}) == {'number': 1}\n"
        "assert pydantic.TypeAdapter(Pair).json_schema()['required'] == ['number']\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
