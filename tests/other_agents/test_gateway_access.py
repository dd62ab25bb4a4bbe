"""The command lines and environments of the CLIs behind a gateway."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_cli import Played, RecordedCli, lines

from youbencha.adapters import AgentAdapter, AgentExecutionContext
from youbencha.adapters.cli_agent import CliAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.command import CommandAdapter
from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.adapters.opencode import OpenCodeAdapter
from youbencha.errors import YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.testing.kit import REAL_CREDENTIALS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the recorded CLI is a shell script")

ACCESS = GatewayAccess("http://127.0.0.1:4100", "yb-virtual-0123456789")
SECRET = "kit-real-secret"
AGENTS: dict[type[Any], dict[str, Any]] = {
    CodexAdapter: {"model": "gpt-5"},
    CopilotCliAdapter: {"model": "claude-sonnet-4-5"},
    GeminiCliAdapter: {"model": "gemini-2.5-pro"},
    OpenCodeAdapter: {"model": "anthropic/claude-sonnet-4-5"},
    CommandAdapter: {"command": "{}"},
}


async def played(adapter: type[Any], directory: Path, env: dict[str, str] | None = None, **config: Any) -> Played:
    cli = RecordedCli(directory, adapter)
    if adapter is CommandAdapter:
        config["command"] = ["program"]
    return await cli.play(env=env, context={"gateway": ACCESS}, **{**AGENTS[adapter], **config})


@pytest.mark.parametrize("adapter", AGENTS)
async def test_no_real_credential_reaches_the_agent(adapter: type[AgentAdapter], tmp_path: Path) -> None:
    given = {**REAL_CREDENTIALS, "DATABASE_URL": "of the task", "TASK_API_KEY": "of the task, too"}
    done = await played(adapter, tmp_path, given)
    assert not {name: value for name, value in done.env.items() if SECRET in value}
    assert "CLAUDE_CODE_USE_BEDROCK" not in done.env
    assert "GOOGLE_GENAI_USE_VERTEXAI" not in done.env
    assert done.env["DATABASE_URL"] == "of the task"
    assert done.env["TASK_API_KEY"] == "of the task, too"
    assert done.env["NO_PROXY"] == done.env["no_proxy"] == "127.0.0.1"
    assert ACCESS.key in done.env.values()
    assert any(ACCESS.url in value for value in [*done.env.values(), *done.argv])


@pytest.mark.parametrize("adapter", AGENTS)
async def test_gateway_variables_are_enough_to_be_ready(adapter: type[Any], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 99.2.3\n")
    program.chmod(0o755)
    ready = adapter(env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    config = {"prompt": "x", **AGENTS[adapter], "executable": str(program)}
    await ready.check_ready(config, ready.gateway_env(ACCESS, config.get("model"), {}))


async def test_the_gateway_key_is_masked(tmp_path: Path) -> None:
    cli = RecordedCli(tmp_path, CommandAdapter)
    done = await cli.play(before="echo $OPENAI_API_KEY", context={"gateway": ACCESS}, command=["program"])
    assert "[REDACTED]" in done.result.output
    assert ACCESS.key not in done.result.output + done.log.model_dump_json()


async def test_withheld_credentials_are_masked_too(tmp_path: Path) -> None:
    """A prompt may name it, or a file."""
    cli = RecordedCli(tmp_path, CommandAdapter)
    env = {"OPENAI_API_KEY": "a-real-one-of-mine"}
    done = await cli.play("a-real-one-of-mine", env=env, context={"gateway": ACCESS}, command=["program"])
    assert done.result.output == "[REDACTED]"


async def test_a_key_split_over_deltas_is_masked(tmp_path: Path) -> None:
    halves = (ACCESS.key[:9], ACCESS.key[9:])
    pieces = [{"type": "assistant.message_delta", "data": {"deltaContent": half}} for half in halves]
    cli = RecordedCli(tmp_path, CopilotCliAdapter)
    done = await cli.play(lines(*pieces), context={"gateway": ACCESS}, model="claude-x")
    assert [message.content for message in done.log.messages][1:] == ["[REDACTED]"]


async def test_codex_uses_no_other_provider(tmp_path: Path) -> None:
    done = await played(CodexAdapter, tmp_path, extra_args=["-c", 'model_provider="mine"'])
    chosen = [word for word in done.argv if word.startswith("model_provider=")]
    assert chosen == ['model_provider="mine"', 'model_provider="youbencha"']  # the last counts
    assert f'base_url = "{ACCESS.url}/v1"' in done.argv[-1]
    assert done.env["CODEX_API_KEY"] == ACCESS.key


async def test_copilot_uses_no_github_token(tmp_path: Path) -> None:
    around = {"GH_TOKEN": "gho_real", "GITHUB_TOKEN": "gho_real", "COPILOT_GITHUB_TOKEN": "gho_real"}
    done = await played(CopilotCliAdapter, tmp_path, {**around, "COPILOT_PROVIDER_WIRE_API": "responses"})
    assert not around.keys() & done.env.keys()
    assert done.env["COPILOT_OFFLINE"] == "true"
    assert done.env["COPILOT_PROVIDER_WIRE_API"] == "responses"


async def test_gemini_cli_uses_no_other_home(tmp_path: Path) -> None:
    done = await played(GeminiCliAdapter, tmp_path, {"GEMINI_CLI_HOME": str(tmp_path / "with-a-login")})
    assert done.env["GEMINI_CLI_HOME"] != str(tmp_path / "with-a-login")
    assert done.env["GEMINI_API_KEY"] == ACCESS.key


async def test_opencode_has_one_provider_and_it_is_the_gateway(tmp_path: Path) -> None:
    mine = {"provider": {"mine": {"options": {"apiKey": SECRET}}}, "disabled_providers": ["x"], "theme": "dark"}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps(mine)}
    done = await played(OpenCodeAdapter, tmp_path, env, base_url="http://elsewhere")
    assert json.loads(done.env["OPENCODE_CONFIG_CONTENT"]) == {
        "provider": {
            "anthropic": {
                "options": {"baseURL": f"{ACCESS.url}/v1", "apiKey": "{env:ANTHROPIC_API_KEY}"},
                "models": {"claude-sonnet-4-5": {}},
            }
        },
        "enabled_providers": ["anthropic"],
        "disabled_providers": [],
        "theme": "dark",
    }
    assert done.env["ANTHROPIC_API_KEY"] == ACCESS.key


@pytest.mark.parametrize(
    ("config", "variable", "path"),
    [
        ({"model": "openai/gpt-5"}, "OPENAI_API_KEY", "/v1"),
        ({"model": "gpt-5", "provider": "openai"}, "OPENAI_API_KEY", "/v1"),
        ({"model": "google/gemini-2.5-pro"}, "GOOGLE_GENERATIVE_AI_API_KEY", "/v1beta"),
        ({"model": None, "provider": "anthropic"}, "ANTHROPIC_API_KEY", "/v1"),
        ({"model": "mine/llama"}, "OPENAI_API_KEY", "/v1"),
    ],
)
async def test_opencode_by_provider(tmp_path: Path, config: dict[str, Any], variable: str, path: str) -> None:
    done = await played(OpenCodeAdapter, tmp_path, {"OPENCODE_CONFIG_CONTENT": "// no JSON"}, **config)
    (provider,) = json.loads(done.env["OPENCODE_CONFIG_CONTENT"])["provider"].values()
    assert provider["options"] == {"baseURL": f"{ACCESS.url}{path}", "apiKey": f"{{env:{variable}}}"}
    assert done.env[variable] == ACCESS.key


class Deaf(CommandAdapter):
    """Knows of no gateway."""

    supports_gateway = False


async def test_an_agent_without_gateway_support_is_not_started(tmp_path: Path) -> None:
    assert issubclass(Deaf, CliAdapter)
    adapter = Deaf(env={"PATH": "/usr/bin:/bin"})
    context = AgentExecutionContext(
        workspace_dir=tmp_path,
        repo_dir=tmp_path,
        artifacts_dir=tmp_path / "artifacts",
        config={"command": "touch started"},
        gateway=ACCESS,
    )
    with pytest.raises(YouBenchaError, match="through a gateway") as raised:
        await adapter.execute(context)
    assert raised.value.code == "COMMAND_NO_GATEWAY"
    assert not (tmp_path / "started").exists()
