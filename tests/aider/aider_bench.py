"""A bench for the real Aider. It edits by the model's text: there are no tools to call."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolbox_agents import API_KEY, Bench, KitAgent, harness_env, key_of, script

from agent_clis import FROM_PYPI
from toolbox_tools import installed
from youbencha.adapters.aider import AiderAdapter
from youbencha.scripted_model import RecordedRequest, Script, ScriptedModel
from youbencha.testing import Prepared, Situation
from youbencha.testing.agent import MARKER

VERSION = FROM_PYPI["aider"]
MODEL = "anthropic/claude-sonnet-4-5"
VARIABLES = {"ANTHROPIC_API_BASE": "{url}", "ANTHROPIC_API_KEY": API_KEY}
_REMINDER = "\n\n# *SEARCH/REPLACE block* Rules:"
"""What Aider appends to the user's prompt."""


def edits(path: str, content: str, *, saying: str = "I write.", of: str = "") -> dict[str, Any]:
    """In Aider's format `diff`; of nothing, a new file."""
    return {"text": f"{saying}\n\n{path}\n```\n<<<<<<< SEARCH\n{of}=======\n{content}\n>>>>>>> REPLACE\n```\n"}


def aider_script(*turns: Mapping[str, Any], **settings: Any) -> Script:
    return script(*turns, tools_optional=True, **settings)


def prompt_in(request: RecordedRequest) -> str:
    content = request.body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["text"]
    return str(text).partition(_REMINDER)[0]


def event(name: str, **properties: Any) -> dict[str, Any]:
    """A line of Aider's analytics."""
    return {"event": name, "properties": properties, "time": 1}


DONE = event("exit", reason="Completed --message-file")


def git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, text=True).stdout


def repository(directory: Path, files: Mapping[str, str]) -> Path:
    """Without a user name in its configuration."""
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_text(content)
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "first")
    return directory


def aider_bench(directory: Path, **harness: str) -> Bench:
    installed("aider")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    adapter = AiderAdapter(env={**harness_env(home), "ANTHROPIC_API_KEY": API_KEY, **harness})
    return Bench(adapter, directory, MODEL, VARIABLES, {"version": VERSION})


TURNS: dict[Situation, list[dict[str, Any]]] = {
    Situation.ANSWERS: [{"text": f"The answer is {MARKER}."}],
    # It runs only configured commands, after an edit.
    Situation.WRITES_FILE: [edits("hello.txt", "hello")],
    Situation.SAYS_MUCH: [{"text": f"{MARKER * 1000}\n" * 1000}],
    Situation.FAILS: [{"text": "Never said."}],
    # An edit that fits nowhere: Aider asks again.
    Situation.HANGS: [edits("none.txt", "x", of="what is not there\n", saying=MARKER), {"hang": True, "text": "..."}],
}
OPTIONS: dict[Situation, dict[str, Any]] = {
    Situation.WRITES_FILE: {"test_cmd": 'printf "%s" "$KIT_PROBE" > kit.txt'},
    # What the API refuses ends with 0 all the same; what Aider refuses does not.
    Situation.FAILS: {"extra_args": ["--no-such-flag"]},
}


class AiderAgent(KitAgent):
    time_to_speak_ms = 10_000  # it takes five seconds to start

    @asynccontextmanager
    async def in_situation(self, situation: Situation, workspace: Path) -> AsyncIterator[Prepared]:
        async with ScriptedModel(aider_script(*self.turns[situation])) as model:
            yield Prepared(
                config={"model": MODEL, **self.bench.config, **OPTIONS.get(situation, {})},
                env=self.bench.env(model),
                exit_code=2 if situation is Situation.FAILS else None,
                prompts=lambda: [prompt_in(request) for request in model.requests],
                model_url=model.url,
                keys=lambda: [key_of(request) for request in model.requests],
            )


def aider_agent(directory: Path) -> KitAgent:
    bench = aider_bench(directory)
    env = harness_env(directory / "home")
    nowhere = AiderAdapter(env={**env, "PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(directory / "none")})
    return AiderAgent(bench, nowhere, AiderAdapter(env=env), TURNS)
