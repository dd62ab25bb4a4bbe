"""LiteLLM's configuration and environment, ours and the user's own."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm.config import (
    LiteLlmBackend,
    OwnConfig,
    configuration,
    litellm_environment,
    parse_own_config,
    read_own_config,
)
from youbencha.gateway.litellm.process import find_litellm

ALL = [
    LiteLlmBackend("anthropic", "http://a", "A_KEY"),
    LiteLlmBackend("openai", "http://o", "O_KEY"),
    LiteLlmBackend("gemini", "http://g", "G_KEY"),
]

HOME = Path("/tmp/h")


def parameters(model: str, backends: list[LiteLlmBackend]) -> dict[str, Any]:
    """Those that a model's name leads to; LiteLLM takes the longest pattern."""
    rows = [row for row in configuration(backends)["model_list"] if fnmatch(model, row["model_name"])]
    return max(rows, key=lambda row: len(row["model_name"]))["litellm_params"]


@pytest.mark.parametrize(
    ("model", "target", "key"),
    [
        ("claude-opus-5-5", "anthropic/claude-*", "A_KEY"),
        ("anthropic/claude-opus-5-5", "anthropic/*", "A_KEY"),
        ("gpt-5.1-codex", "openai/gpt-*", "O_KEY"),
        ("o3-mini", "openai/o3*", "O_KEY"),
        ("openai/gpt-5", "openai/*", "O_KEY"),
        ("gemini-3-pro", "gemini/gemini-*", "G_KEY"),
        ("gemini/gemini-3-pro", "gemini/*", "G_KEY"),
        ("llama", "anthropic/*", "A_KEY"),
    ],
)
def test_the_model_name_selects_the_provider(model: str, target: str, key: str) -> None:
    found = parameters(model, ALL)
    assert (found["model"], found["api_key"]) == (target, f"os.environ/{key}")


def test_an_unknown_model_goes_to_the_first_provider() -> None:
    assert parameters("llama", ALL[1:])["api_base"] == "http://o/v1"


@pytest.mark.parametrize(
    ("provider", "written", "expected"),
    [
        ("anthropic", "http://host/v1/", "http://host"),
        ("anthropic", "http://host/prefix", "http://host/prefix"),
        ("openai", "http://host", "http://host/v1"),
        ("openai", "http://host/prefix/v1", "http://host/prefix/v1"),
        ("gemini", "http://host/", "http://host/v1beta"),
        ("gemini", "http://host/v1beta", "http://host/v1beta"),
    ],
)
def test_a_base_url_with_and_without_a_version(provider: Any, written: str, expected: str) -> None:
    assert parameters("x", [LiteLlmBackend(provider, written, "KEY")])["api_base"] == expected


@pytest.mark.parametrize(
    ("model", "target"),
    [("gpt-9", "openai/gpt-9"), ("openai/gpt-9", "openai/gpt-9"), ("llama", "anthropic/llama"), ("o3", "openai/o3")],
)
def test_a_requested_model_has_its_own_row(model: str, target: str) -> None:
    row = configuration(ALL, [model])["model_list"][-1]
    assert (row["model_name"], row["litellm_params"]["model"]) == (model, target)


def test_an_auth_token_is_left_to_litellms_variable() -> None:
    """Given one, LiteLLM would send it as `x-api-key`; from ANTHROPIC_AUTH_TOKEN, it sends a bearer's."""
    assert "api_key" not in parameters("x", [LiteLlmBackend("anthropic", None, "ANTHROPIC_AUTH_TOKEN")])


def test_without_a_url_the_providers_own_is_used() -> None:
    assert "api_base" not in parameters("x", [LiteLlmBackend("openai", None, "KEY")])


def test_litellm_does_not_retry_or_drop_parameters() -> None:
    made = configuration(ALL)
    assert made["router_settings"] == {"num_retries": 0, "disable_cooldowns": True}
    assert made["litellm_settings"] == {"telemetry": False, "num_retries": 0, "drop_params": False}
    assert made["general_settings"]["master_key"] == "os.environ/LITELLM_MASTER_KEY"


# ------------------------------------------------------------------------------------------ its environment


def test_litellm_gets_only_the_keys_it_needs() -> None:
    mine = {"PATH": "/bin", "HOME": "/home/me", "OTHER_SECRET": "no", "PYTHONPATH": "/x", "LITELLM_MASTER_KEY": "old"}
    env = litellm_environment(mine, {"LITELLM_MASTER_KEY": "new", "A_KEY": "a"}, home=HOME, as_user=False)
    assert {"OTHER_SECRET", "PYTHONPATH"} & env.keys() == set()
    assert (env["PATH"], env["HOME"], env["A_KEY"], env["LITELLM_MASTER_KEY"]) == ("/bin", str(HOME), "a", "new")


def test_a_users_configuration_has_the_users_home() -> None:
    env = litellm_environment({"HOME": "/home/me"}, {}, home=HOME, as_user=True)
    assert env["HOME"] == "/home/me"


def test_a_proxy_is_not_used_for_local_addresses() -> None:
    mine = {"https_proxy": "http://proxy", "NO_PROXY": "corp.example"}
    env = litellm_environment(mine, {}, home=HOME, as_user=False)
    assert env["https_proxy"] == "http://proxy"
    assert env["no_proxy"] == env["NO_PROXY"] == "corp.example,127.0.0.1,localhost,::1"
    assert "NO_PROXY" not in litellm_environment({"PATH": "/bin"}, {}, home=HOME, as_user=False)


# ------------------------------------------------------------------------------------------ the user's own


def own(general: Any, **more: Any) -> OwnConfig:
    return parse_own_config(json.dumps({"general_settings": general, **more}))


def test_variables_named_by_a_configuration() -> None:
    models = [{"litellm_params": {"api_key": "os.environ/MY_KEY", "api_base": "http://os.environ/NOT_THIS"}}]
    assert own(None, model_list=models) == OwnConfig(frozenset({"MY_KEY"}), None, "LITELLM_MASTER_KEY")


def test_source_of_the_master_key() -> None:
    assert own({"master_key": "sk-mine"}) == OwnConfig(frozenset(), "sk-mine")
    assert own({"master_key": "os.environ/MINE"}) == OwnConfig(frozenset(), None, "MINE")
    assert own({}) == OwnConfig(frozenset(), None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model_list: [", "line 1, column 14: "),
        ("- a", "no settings"),
        ("", "no settings"),
        (None, "No such file"),
    ],
)
def test_an_invalid_configuration_is_reported_before_anything_starts(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "litellm.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(YouBenchaError, match="cannot be used as LiteLLM's configuration") as caught:
        read_own_config(path)
    assert caught.value.code == "LITELLM_CONFIG_INVALID"
    assert reason in str(caught.value)


# ------------------------------------------------------------------------------------------ the program


def program(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "litellm"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@posix_only("a program there has another name")
def test_search_order_for_litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv/bin/python"))
    kept, env = tmp_path / "toolbox/litellm", {"PATH": str(tmp_path / "path")}
    assert find_litellm(None, env, kept) == kept
    on_path = program(tmp_path / "path")
    assert find_litellm(None, env, kept) == on_path
    beside_us = program(tmp_path / "venv/bin")
    assert find_litellm(None, env, kept) == beside_us
    named = program(tmp_path / "named")
    assert find_litellm(str(named), env, kept) == named
    assert find_litellm("litellm", env, kept) == on_path


def test_a_missing_litellm_is_reported_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(YouBenchaError, match="yb agents install litellm") as caught:
        find_litellm(None, {"PATH": str(tmp_path)}, None)
    assert caught.value.code == "LITELLM_NOT_FOUND"
    assert "pip install 'youbencha[litellm]'" in str(caught.value)


@pytest.mark.parametrize("named", ["nowhere/litellm", "litellm", "."])
def test_a_named_program_must_be_executable(named: str, tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError, match="not an executable program") as caught:
        find_litellm(named, {"PATH": str(tmp_path)}, tmp_path)
    assert caught.value.code == "LITELLM_NOT_FOUND"
