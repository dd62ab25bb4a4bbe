"""Every agent in a sandbox whose paths differ from the host's: the agent sees only paths of the sandbox."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from recorded_cli import Played, RecordedCli
from renamed_sandbox import RenamedSandbox

from youbencha.adapters import AgentAdapter
from youbencha.adapters.aider import AiderAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.adapters.opencode import OpenCodeAdapter
from youbencha.errors import YouBenchaError
from youbencha.sandbox.local import open_local_sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, and programs in shell")

AGENTS: dict[str, tuple[type[AgentAdapter], dict[str, str]]] = {
    "aider": (AiderAdapter, {"ANTHROPIC_API_KEY": "k"}),
    "codex": (CodexAdapter, {"OPENAI_API_KEY": "k"}),
    "copilot": (CopilotCliAdapter, {"GH_TOKEN": "k"}),
    "gemini": (GeminiCliAdapter, {"GEMINI_API_KEY": "k"}),
    "opencode": (
        OpenCodeAdapter,
        {"ANTHROPIC_API_KEY": "k", "OPENCODE_CONFIG_CONTENT": "{}", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
    ),
}


async def played(cli: RecordedCli, sandbox: RenamedSandbox, env: dict[str, str]) -> Played:
    return await cli.play(before="pwd > pwd.txt", env=env, context={"sandbox": sandbox})


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_agent_sees_only_paths_of_the_sandbox(agent: str, tmp_path: Path) -> None:
    adapter, env = AGENTS[agent]
    cli = RecordedCli(tmp_path, adapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace)
    done = await played(cli, sandbox, env)
    seen = [*done.argv, *(value for name, value in done.env.items() if name not in ("PWD", "OLDPWD", "_"))]
    of_outside = [path for path in (cli.workspace, *sandbox.shared) if any(str(path) in word for word in seen)]
    assert of_outside == []


@pytest.mark.parametrize("agent", AGENTS)
async def test_no_variable_of_the_harness_is_inherited(agent: str, tmp_path: Path) -> None:
    adapter, env = AGENTS[agent]
    cli = RecordedCli(tmp_path, adapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace)
    done = await played(cli, sandbox, env)
    assert done.env["HOME"] == str(sandbox.home)
    assert done.env["IN_THERE"] == "yes"
    assert not any(str(cli.home) in value for value in done.env.values())


@pytest.mark.parametrize("agent", AGENTS)
async def test_only_the_scratch_directory_is_shared_writable(agent: str, tmp_path: Path) -> None:
    adapter, env = AGENTS[agent]
    cli = RecordedCli(tmp_path, adapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace)
    await played(cli, sandbox, env)
    program = tmp_path / "cli" / "program"
    assert [path.name for path, writable in sandbox.shared.items() if writable] == [
        path.name for path in sandbox.shared if path != program
    ]
    assert sandbox.shared[program] is False
    assert (cli.workspace / "pwd.txt").exists()


async def test_settings_files_are_named_by_their_sandbox_path(tmp_path: Path) -> None:
    adapter, env = AGENTS["opencode"]
    cli = RecordedCli(tmp_path, adapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace)
    done = await cli.play(before='cp "$OPENCODE_CONFIG" config.json', env=env, context={"sandbox": sandbox})
    assert done.env["OPENCODE_CONFIG"].startswith(str(sandbox.top))
    assert "127.0.0.1:9" in (cli.workspace / "config.json").read_text()


# -- a CLI that the image brings -------------------------------------------------------------------------------------


def put_on_path(sandbox: RenamedSandbox, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = sandbox.top / "bin" / "codex"
    program.parent.mkdir()
    program.write_text(text)
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(sandbox.home)}
    monkeypatch.setattr(sandbox, "environment", lambda harness: dict(environment))


async def test_the_cli_of_an_image_is_asked_for_its_version_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = RecordedCli(tmp_path, CodexAdapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace, brings_agent=True)
    put_on_path(sandbox, monkeypatch, '#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 7.8.9 || echo ran > ran.txt\n')
    with pytest.raises(FileNotFoundError):  # the recorded program was not run, and wrote nothing down
        await cli.play(context={"sandbox": sandbox}, executable=None)
    assert (cli.workspace / "ran.txt").exists()


@pytest.mark.parametrize(
    ("program", "config", "message"),
    [
        ("#!/bin/sh\nexit 1\n", {}, "codex does not report its version"),
        ("#!/bin/sh\necho 7.8.9\n", {"version": "7.9.0"}, "has Codex 7.8.9, but agent.config.version asks for 7.9.0"),
    ],
)
async def test_an_image_without_the_cli(
    program: str, config: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = RecordedCli(tmp_path, CodexAdapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace, brings_agent=True)
    put_on_path(sandbox, monkeypatch, program)
    with pytest.raises(YouBenchaError, match=message) as caught:
        await cli.play(context={"sandbox": sandbox}, **{"executable": None, **config})
    assert caught.value.code == "CODEX_CLI_NOT_FOUND"
    assert "sandbox.agent: image" in (caught.value.hint or "")


# -- what it leaves --------------------------------------------------------------------------------------------------

SESSION = "0199aaaa-bbbb-cccc-dddd-eeeeffff0000"
RECORD = json.dumps({
    "type": "event_msg",
    "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 40, "output_tokens": 2}}},
})  # fmt: skip
STARTED = json.dumps({"type": "thread.started", "thread_id": SESSION}) + "\n"
NAME = f"rollout-x-{SESSION}.jsonl"


async def turns_of_codex(tmp_path: Path, leave: str) -> int | None:
    cli = RecordedCli(tmp_path, CodexAdapter)
    sandbox = RenamedSandbox(tmp_path / "inside", cli.workspace)
    (tmp_path / "elsewhere.jsonl").write_text(RECORD + "\n")
    place = '"$HOME/.codex/sessions/2026/01/01"'
    before = f"mkdir -p {place} && cd {place} && {leave.format(name=NAME, elsewhere=tmp_path / 'elsewhere.jsonl')}"
    done = await cli.play(STARTED, before=before, env={"OPENAI_API_KEY": "k"}, context={"sandbox": sandbox})
    turns = done.result.session.facts.turns
    assert turns is None or isinstance(turns, int)
    return turns


async def test_a_session_file_is_found_on_the_host(tmp_path: Path) -> None:
    assert await turns_of_codex(tmp_path, "cp '{elsewhere}' {name}") == 1


@pytest.mark.parametrize(
    "leave", ["ln -s '{elsewhere}' {name}", "mkfifo {name}", "mkdir {name}", "ln -s {name} {name}"]
)
async def test_an_invalid_session_file(leave: str, tmp_path: Path) -> None:
    assert await turns_of_codex(tmp_path, leave) is None


# -- a fresh home here -----------------------------------------------------------------------------------------------


async def test_a_fresh_home_for_a_local_agent(tmp_path: Path) -> None:
    cli = RecordedCli(tmp_path, CodexAdapter)
    sandbox = open_local_sandbox(scratch=tmp_path / "scratch")
    (cli.home / ".codex").mkdir()
    before = 'git config --global user.email > email.txt; ls -a "$HOME" > home.txt'
    done = await cli.play(before=before, env={"OPENAI_API_KEY": "k"}, context={"sandbox": sandbox})
    assert done.env["HOME"] == str(tmp_path / "scratch" / "home")
    assert (cli.workspace / "email.txt").read_text() == "agent@youbencha.invalid\n"
    assert ".codex" not in (cli.workspace / "home.txt").read_text()
    assert os.path.isabs(done.argv[done.argv.index("-C") + 1])
