"""Which agents get a fresh home, and which need the user's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.environment import fresh_home_for

LOGINS = {
    "claude-code": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "copilot-cli": ".config/gh/hosts.yml",
    "gemini-cli": ".gemini/oauth_creds.json",
    "opencode": ".local/share/opencode/auth.json",
}
KEYS = {
    "claude-code": "ANTHROPIC_API_KEY",
    "codex": "OPENAI_API_KEY",
    "copilot-cli": "GH_TOKEN",
    "gemini-cli": "GEMINI_API_KEY",
    "opencode": "ANTHROPIC_API_KEY",
}
ALL = ("aider", "command", *LOGINS)


def log_in(agent: str, home: Path) -> None:
    path = home / LOGINS[agent]
    path.parent.mkdir(parents=True)
    path.write_text('{"token": "x"}')


def is_fresh(agent: str, home: Path, *, gateway: bool = False, given: dict[str, str] | None = None, **env: str) -> bool:
    return fresh_home_for(
        get_adapter(agent),
        "auto",
        harness_env={"HOME": str(home), **env},
        agent_env=given or {},
        behind_gateway=gateway,
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="the contents of a keychain cannot be read")
@pytest.mark.parametrize("agent", ALL)
def test_fresh_without_a_login(agent: str, tmp_path: Path) -> None:
    assert is_fresh(agent, tmp_path)


@pytest.mark.parametrize("agent", LOGINS)
def test_user_home_if_only_a_login_exists(agent: str, tmp_path: Path) -> None:
    log_in(agent, tmp_path)
    assert not is_fresh(agent, tmp_path)


@pytest.mark.parametrize("agent", LOGINS)
def test_fresh_with_a_key_or_a_gateway(agent: str, tmp_path: Path) -> None:
    log_in(agent, tmp_path)
    assert is_fresh(agent, tmp_path, **{KEYS[agent]: "k"})
    assert is_fresh(agent, tmp_path, given={KEYS[agent]: "k"})
    assert is_fresh(agent, tmp_path, gateway=True)


def test_a_base_url_alone_is_not_enough(tmp_path: Path) -> None:
    log_in("codex", tmp_path)
    assert not is_fresh("codex", tmp_path, OPENAI_BASE_URL="http://127.0.0.1:9")


@pytest.mark.parametrize("choice", ["fresh", "own"])
def test_the_test_case_overrides(choice: str, tmp_path: Path) -> None:
    log_in("codex", tmp_path)
    for gateway in (True, False):
        chosen = fresh_home_for(
            get_adapter("codex"),
            choice,  # type: ignore[arg-type]
            harness_env={"HOME": str(tmp_path)},
            agent_env={},
            behind_gateway=gateway,
        )
        assert chosen is (choice == "fresh")


@pytest.mark.parametrize(
    ("agent", "env", "fresh"),
    [
        ("claude-code", {"CLAUDE_CODE_USE_BEDROCK": "1"}, False),
        ("claude-code", {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": "k"}, False),
        ("claude-code", {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_ACCESS_KEY_ID": "k"}, True),
        ("claude-code", {"CLAUDE_CODE_USE_VERTEX": "1", "GOOGLE_APPLICATION_CREDENTIALS": "/f"}, True),
        ("claude-code", {"AWS_PROFILE": "work", "ANTHROPIC_API_KEY": "k"}, True),
        ("gemini-cli", {"GOOGLE_GENAI_USE_GCA": "true"}, False),
        ("aider", {"AWS_PROFILE": "work"}, False),
        ("aider", {"AWS_PROFILE": "work", "ANTHROPIC_API_KEY": "k"}, True),
        ("command", {"AWS_PROFILE": "work"}, True),
    ],
)
def test_cloud_providers_need_the_user_home(agent: str, env: dict[str, str], fresh: bool, tmp_path: Path) -> None:
    assert is_fresh(agent, tmp_path, **env) is fresh
