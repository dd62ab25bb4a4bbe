"""A bench for the real Claude Code CLI: a workspace, a clean home, a scripted model."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_clis import OLDEST, SPREAD
from systems import ON_WINDOWS
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.events import Event
from youbencha.log.model import YouBenchaLog
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import RecordedRequest, Script, ScriptedModel
from youbencha.user_dirs import toolbox_dir

API_KEY = "sk-ant-dummy-0123456789abcdef"
GIT_BASH = "CLAUDE_CODE_GIT_BASH_PATH"
"""On Windows the CLI runs its commands in Git's bash, and may need its path."""
MCP_SERVER = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": lambda: {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "given", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": "ask_oracle", "description": "an oracle",
                                          "inputSchema": {"type": "object", "properties": {}}}]},
    }
    if "id" in asked:
        result = answers.get(asked["method"], dict)()
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
"""With one tool, `ask_oracle`."""
_OF_WINDOWS = ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "PROGRAMFILES", "PROGRAMDATA")


def full(version: str) -> pytest.ParameterSet:
    """A version that a test is run with only in `make test-all`."""
    return pytest.param(version, marks=pytest.mark.full)


def version_params(*versions: str | pytest.ParameterSet) -> list[str | pytest.ParameterSet]:
    """These come from npm, which `make test` does without."""
    return [full(version) if version in (OLDEST, *SPREAD) else version for version in versions]


def versions(*names: str | pytest.ParameterSet) -> pytest.MarkDecorator:
    """Run a test with these CLI versions only: with the oldest, and with what is `full(...)`, in `make test-all`."""
    return pytest.mark.parametrize("claude_cli", version_params(*names), indirect=True)


def script(*turns: Mapping[str, Any], **settings: Any) -> Script:
    return Script.model_validate({"turns": list(turns), **settings})


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


def uses(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tools": [{"name": tool, "input": arguments}]}


def bash(command: str) -> dict[str, Any]:
    return uses("Bash", command=command, description="a command of the test")


@dataclass(frozen=True)
class Session:
    """One execution, and everything that can be known of it."""

    result: AgentExecutionResult
    log: YouBenchaLog
    requests: list[RecordedRequest]
    events: list[Event]

    @property
    def main_requests(self) -> list[RecordedRequest]:
        return [request for request in self.requests if request.kind == "turn"]

    @property
    def prompt(self) -> str:
        """What reached the model as the user's prompt, byte for byte."""
        return prompt_of(self.main_requests[0])

    def codes(self) -> list[str | None]:
        return [error.code for error in self.result.errors]

    def warning_codes(self) -> list[str | None]:
        return [warning.code for warning in self.result.warnings]


def prompt_of(request: RecordedRequest) -> str:
    """The text of the first user message, without what the CLI itself adds to it."""
    content = request.body["messages"][0]["content"]
    if isinstance(content, str):
        return content
    return [block["text"] for block in content if block["type"] == "text" and not _is_reminder(block["text"])][-1]


def _is_reminder(text: str) -> bool:
    return text.strip().startswith("<system-reminder>") and text.strip().endswith("</system-reminder>")


def _windows_env(home: Path) -> dict[str, str]:
    """What a program there needs of the system, and places of its own for what is the user's."""
    places = {"USERPROFILE": home, "APPDATA": home / "AppData", "LOCALAPPDATA": home / "Local", "TEMP": home / "Temp"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    system = {name: os.environ[name] for name in _OF_WINDOWS if name in os.environ}
    return {**system, **{name: str(place) for name, place in places.items()}, "TMP": str(places["TEMP"])}


class ClaudeBench:
    def __init__(self, cli: InstalledAgent, directory: Path) -> None:
        self.cli = cli
        self.workspace = directory / "workspace"
        self.artifacts = directory / "artifacts"
        self.home = directory / "home"
        for path in (self.workspace, self.home):
            path.mkdir(parents=True)
        self.harness_env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        if ON_WINDOWS:
            self.harness_env |= _windows_env(self.home)

    def adapter(self) -> ClaudeCodeAdapter:
        return ClaudeCodeAdapter(env=self.harness_env)

    def env(self, model: ScriptedModel) -> dict[str, str]:
        git_bash = {GIT_BASH: os.environ[GIT_BASH]} if os.environ.get(GIT_BASH) else {}
        return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, "IS_SANDBOX": "1", **git_bash}

    def chosen(self) -> dict[str, str]:
        """The configuration that asks for the CLI under test."""
        if ON_WINDOWS and self.cli.needs_node:  # no program there, but the toolbox knows how to start it
            self.harness_env["YOUBENCHA_TOOLBOX"] = str(toolbox_dir())
            return {"version": self.cli.version}
        return {"executable": str(self.cli.executable)}

    def put_on_path(self) -> None:
        """From now on the harness finds the CLI under test first, as `claude`."""
        directory = self.home / "bin"
        if directory.exists():
            return
        directory.mkdir()
        if not ON_WINDOWS:
            (directory / "claude").symlink_to(self.cli.executable)
        elif self.cli.needs_node:
            (directory / "claude.cmd").write_text(f'@node "{self.cli.executable}" %*\n')
        else:
            shutil.copyfile(self.cli.executable, directory / "claude.exe")
        self.harness_env["PATH"] = os.pathsep.join([str(directory), self.harness_env["PATH"]])

    @asynccontextmanager
    async def model(self, model_script: Script) -> AsyncIterator[ScriptedModel]:
        async with ScriptedModel(model_script, variables={"workspace": str(self.workspace)}) as model:
            yield model

    def context(self, model: ScriptedModel, **overrides: Any) -> AgentExecutionContext:
        config = {**self.chosen(), **overrides.pop("config", {})}
        if "prompt" not in config and "prompt_file" not in config:
            config["prompt"] = "Do what you are told."
        return AgentExecutionContext(
            workspace_dir=self.workspace,
            repo_dir=self.workspace,
            artifacts_dir=self.artifacts,
            config={key: value for key, value in config.items() if value is not None},
            timeout=overrides.pop("timeout", 120_000),
            env={**self.env(model), **overrides.pop("env", {})},
            **overrides,
        )

    async def run(self, model_script: Script, **overrides: Any) -> Session:
        events: list[Event] = []
        async with self.model(model_script) as model:
            context = self.context(model, on_event=events.append, **overrides)
            result = await self.adapter().execute(context)
            log = self.adapter().normalize_log(result, context)
            return Session(result, log, list(model.requests), events)
