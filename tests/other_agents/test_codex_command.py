"""How Codex is started, from a configuration and an environment."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from invocations import invocation
from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent import AgentCli
from youbencha.adapters.codex import CodexAdapter, CodexConfig
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.process import Command

BYPASS = "--dangerously-bypass-approvals-and-sandbox"
CODEX = AgentCli(Path("/opt/codex"), "0.166.0")
ENV = {"PATH": "/bin", "OPENAI_API_KEY": "k1"}


def command(tmp_path: Path, *, env: dict[str, str] = ENV, prompt: str = "Do it.", **config: Any) -> Command:
    chosen = CodexConfig.model_validate({"prompt": prompt, **config})
    return CodexAdapter(env={}).command(invocation(chosen, CODEX, Path("/w"), tmp_path, env))


def settings(made: Command) -> dict[str, Any]:
    """What its `-c` say, read as Codex reads it."""
    argv = made.argv
    given = [argv[at + 1] for at, argument in enumerate(argv) if argument == "-c"]
    return tomllib.loads("\n".join(given))


def test_the_plain_command(tmp_path: Path) -> None:
    made = command(tmp_path, prompt="- what\n/quit")
    assert made.argv == ("/opt/codex", "exec", "--json", "--skip-git-repo-check", "-C", "/w", BYPASS)
    assert (made.cwd, made.stdin) == (Path("/w"), b"- what\n/quit")


def test_the_options(tmp_path: Path) -> None:
    made = command(
        tmp_path, model="gpt-6", sandbox="workspace-write", reasoning_effort="high", profile="lab",
        extra_args=["-c", "a=1", "--ephemeral"],
    )  # fmt: skip
    assert BYPASS not in made.argv
    joined = " ".join(made.argv)
    assert "--sandbox workspace-write --model gpt-6 --profile lab" in joined
    assert joined.endswith("-c a=1 --ephemeral")
    assert settings(made) == {"model_reasoning_effort": "high", "a": 1}


def test_another_url_is_another_provider(tmp_path: Path) -> None:
    url = 'http://127.0.0.1:1/"v1'
    made = command(tmp_path, env={**ENV, "OPENAI_BASE_URL": url})
    assert settings(made) == {
        "model_provider": "youbencha",
        "model_providers": {
            "youbencha": {
                "name": "youbencha", "base_url": url, "wire_api": "responses", "env_key": "OPENAI_API_KEY",
            }
        },
    }  # fmt: skip


def test_a_server_without_keys(tmp_path: Path) -> None:
    made = command(tmp_path, env={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert "env_key" not in settings(made)["model_providers"]["youbencha"]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"OPENAI_API_KEY": "o"}, "o"),
        ({"OPENAI_API_KEY": "o", "CODEX_API_KEY": "c"}, "c"),
        ({}, None),
    ],
)
def test_the_key_is_set_for_codex(tmp_path: Path, given: dict[str, str], key: str | None) -> None:
    assert command(tmp_path, env=given).env.get("CODEX_API_KEY") == key


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"sandbox": "none"}, "sandbox"),
        ({"reasoning_effort": 'high"'}, "reasoning_effort"),
        ({"extra_args": ["--json"]}, "extra_args"),
        ({"extra_args": ["word"]}, "extra_args"),
        ({"temperature": 1}, "temperature"),
    ],
)
def test_invalid_options(config: dict[str, Any], path: str) -> None:
    problems = CodexAdapter(env={}).check_config({"prompt": "x", **config}, None)
    assert [problem.path for problem in problems] == [path]


def require(env: dict[str, str], **config: Any) -> None:
    asyncio.run(CodexAdapter(env={}).require_authentication(CODEX, env, CodexConfig(prompt="x", **config)))


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL"])
def test_authentication_by_the_environment(name: str) -> None:
    require({name: "x"})


@pytest.mark.parametrize("where", [{"CODEX_HOME": "{}/own"}, {"HOME": "{}"}])
def test_authentication_by_a_login(tmp_path: Path, where: dict[str, str]) -> None:
    env = {name: value.format(tmp_path) for name, value in where.items()}
    home = tmp_path / ("own" if "CODEX_HOME" in env else ".codex")
    with pytest.raises(YouBenchaError, match="authentication") as caught:
        require(env)
    assert caught.value.code == "CODEX_AUTH_FAILED"
    home.mkdir()
    (home / "auth.json").write_text("{}")
    require(env)


@pytest.mark.parametrize(
    ("written", "enough"), [('model_provider = "azure"', True), ('model = "gpt-6"', False), ("not toml [", False)]
)
def test_a_configured_provider(tmp_path: Path, written: str, enough: bool) -> None:
    (tmp_path / "config.toml").write_text(written)
    if enough:
        require({"CODEX_HOME": str(tmp_path)})
    else:
        with pytest.raises(YouBenchaError, match="authentication"):
            require({"CODEX_HOME": str(tmp_path)})


def test_a_local_model_needs_no_key() -> None:
    require({}, extra_args=("--oss",))


async def test_a_missing_version(tmp_path: Path) -> None:
    adapter = CodexAdapter(env={"PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(tmp_path), "OPENAI_API_KEY": "k"})
    with pytest.raises(YouBenchaError, match=r"yb agents install codex@9\.9\.9") as caught:
        await adapter.check_ready({"prompt": "x", "version": "9.9.9"}, {})
    assert caught.value.code == "CODEX_CLI_NOT_FOUND"


@pytest.mark.parametrize("name", ["codex", "codex-cli"])
def test_its_names(name: str) -> None:
    assert get_adapter(name).name == "codex"


def test_two_prompts() -> None:
    adapter = CodexAdapter(env={})
    with pytest.raises(ConfigError, match="exactly one"):
        raise adapter.invalid_config(adapter.check_config({"prompt": "x", "prompt_file": "y"}, None))
