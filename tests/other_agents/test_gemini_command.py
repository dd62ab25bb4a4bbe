"""How Gemini CLI is started, from a configuration and an environment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from invocations import invocation
from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent import AgentCli
from youbencha.adapters.gemini_cli import GeminiCliAdapter, GeminiCliConfig
from youbencha.errors import YouBenchaError
from youbencha.process import Command

GEMINI = AgentCli(Path("/opt/gemini"), "0.61.0")
ENV = {"PATH": "/bin", "GEMINI_API_KEY": "k1"}


def command(scratch: Path, *, env: dict[str, str] = ENV, prompt: str = "Do it.", **config: Any) -> Command:
    chosen = GeminiCliConfig.model_validate({"prompt": prompt, **config})
    return GeminiCliAdapter(env={}).command(invocation(chosen, GEMINI, Path("/w"), scratch, env))


def test_the_plain_command(tmp_path: Path) -> None:
    made = command(tmp_path, prompt="- what\n/quit")
    assert made.argv == ("/opt/gemini", "--output-format", "stream-json", "--approval-mode", "yolo")
    assert (made.cwd, made.stdin) == (Path("/w"), b"- what\n/quit")


def test_the_options(tmp_path: Path) -> None:
    made = command(tmp_path, model="gemini-9", approval_mode="auto_edit", extra_args=["--sandbox"])
    assert made.argv[-5:] == ("--approval-mode", "auto_edit", "--model", "gemini-9", "--sandbox")


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_with_a_key_it_gets_a_separate_home(tmp_path: Path, name: str) -> None:
    made = command(tmp_path, env={name: "k1", "HOME": "/home/me"})
    assert (made.env["GEMINI_API_KEY"], made.env["GEMINI_CLI_HOME"]) == ("k1", str(tmp_path))
    assert made.env["HOME"] == "/home/me"
    settings = json.loads((tmp_path / ".gemini" / "settings.json").read_text())
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_a_repository_cannot_send_the_key_elsewhere(tmp_path: Path) -> None:
    """What is in the environment, the CLI does not take from a `.env`."""
    assert command(tmp_path).env["GOOGLE_GEMINI_BASE_URL"] == ""
    (tmp_path / ".gemini" / "settings.json").unlink()
    (tmp_path / ".gemini").rmdir()
    given = command(tmp_path, env={**ENV, "GOOGLE_GEMINI_BASE_URL": "http://here"})
    assert given.env["GOOGLE_GEMINI_BASE_URL"] == "http://here"


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/me"},
        {"GOOGLE_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "true"},
        {"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_GCA": "true"},
    ],
)
def test_without_a_key_the_environment_is_unchanged(tmp_path: Path, env: dict[str, str]) -> None:
    assert command(tmp_path, env=env).env == env
    assert list(tmp_path.iterdir()) == []


def test_a_home_in_the_test_case_is_kept(tmp_path: Path) -> None:
    made = command(tmp_path, env={"GOOGLE_API_KEY": "k", "GEMINI_CLI_HOME": "/mine"})
    assert (made.env["GEMINI_CLI_HOME"], made.env["GEMINI_API_KEY"]) == ("/mine", "k")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"approval_mode": "ask"}, "approval_mode"),
        ({"extra_args": ["--yolo"]}, "extra_args"),
        ({"extra_args": ["-p", "x"]}, "extra_args"),
        ({"aproval_mode": "yolo"}, "aproval_mode"),
    ],
)
def test_invalid_options(config: dict[str, Any], path: str) -> None:
    problems = GeminiCliAdapter(env={}).check_config({"prompt": "x", **config}, None)
    assert [problem.path for problem in problems] == [path]


def require(env: dict[str, str]) -> None:
    asyncio.run(GeminiCliAdapter(env={}).require_authentication(GEMINI, env, None))


@pytest.mark.parametrize(
    "env",
    [
        {"GEMINI_API_KEY": "x"},
        {"GOOGLE_API_KEY": "x"},
        {"GOOGLE_GENAI_USE_VERTEXAI": "true"},
        {"GOOGLE_GENAI_USE_GCA": "true"},
    ],
)
def test_authentication_by_the_environment(env: dict[str, str]) -> None:
    require(env)


@pytest.mark.parametrize("env", [{}, {"GEMINI_API_KEY": ""}, {"GOOGLE_GENAI_USE_VERTEXAI": "false"}])
def test_no_authentication(env: dict[str, str]) -> None:
    with pytest.raises(YouBenchaError, match="authentication") as caught:
        require(env)
    assert caught.value.code == "GEMINI_AUTH_FAILED"
    assert "GEMINI_API_KEY" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["HOME", "GEMINI_CLI_HOME"])
def test_authentication_by_a_login(tmp_path: Path, name: str) -> None:
    env = {name: str(tmp_path)}
    with pytest.raises(YouBenchaError, match="authentication"):
        require(env)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "oauth_creds.json").write_text("{}")
    require(env)


def test_its_name() -> None:
    assert get_adapter("gemini-cli").name == "gemini-cli"
