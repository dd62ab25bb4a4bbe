"""Whether the CLI has credentials: a table, without a request."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from packaging.version import Version
from small_clis import asked, in_toolbox, small_cli

from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.cli_agent import AgentCli
from youbencha.errors import YouBenchaError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the small programs are shell scripts")

OLD, NEW = Version("2.1.39"), Version("2.1.40")
LOGGED_IN, LOGGED_OUT = "exit 0", "exit 1"


async def authenticated(
    directory: Path, version: Version, env: dict[str, str], status: str = LOGGED_OUT
) -> tuple[bool, list[str]]:
    """Whether it may go on, and what the CLI was asked."""
    path = small_cli(directory / "claude", str(version), rest=status)
    try:
        given = {"PATH": "/usr/bin:/bin", "HOME": str(directory), **env}
        await ClaudeCodeAdapter({}).require_authentication(AgentCli(path, str(version)), given, None)
    except YouBenchaError as caught:
        refusal = caught
    else:
        return True, asked(path)
    assert refusal.code == "CLAUDE_AUTH_FAILED"
    assert "authentication" in refusal.message
    assert "ANTHROPIC_API_KEY" in (refusal.hint or "")
    return False, asked(path)


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
    ],
)  # fmt: skip
async def test_a_credential_in_the_environment_is_enough(name: str, version: Version, tmp_path: Path) -> None:
    assert await authenticated(tmp_path, version, {name: "x"}) == (True, [])


async def test_an_empty_variable_is_not_a_credential(tmp_path: Path) -> None:
    assert await authenticated(tmp_path, OLD, {"ANTHROPIC_API_KEY": ""}) == (False, [])


async def test_newer_versions_run_auth_status(tmp_path: Path) -> None:
    assert await authenticated(tmp_path / "a", NEW, {}, LOGGED_IN) == (True, ["auth status"])
    assert await authenticated(tmp_path / "b", NEW, {}, LOGGED_OUT) == (False, ["auth status"])
    assert await authenticated(tmp_path / "c", NEW, {}, "kill -9 $$") == (False, ["auth status"])


async def test_older_versions_do_not_run_auth_status(tmp_path: Path) -> None:
    """To them, "auth" would be a prompt, and cost money."""
    assert await authenticated(tmp_path, OLD, {}, LOGGED_IN) == (False, [])


async def test_older_versions_read_the_stored_login(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    assert await authenticated(tmp_path, OLD, {}) == (True, [])
    assert await authenticated(tmp_path, OLD, {"HOME": "", "USERPROFILE": str(tmp_path)}) == (True, [])
    moved = tmp_path / "moved"
    assert await authenticated(tmp_path, OLD, {"CLAUDE_CONFIG_DIR": str(moved)}) == (False, [])
    moved.mkdir()
    (moved / ".credentials.json").write_text("{}")
    assert await authenticated(tmp_path, OLD, {"CLAUDE_CONFIG_DIR": str(moved)}) == (True, [])


STORED = {
    ".claude/.credentials.json": ["{}"],
    ".claude/settings.json": [
        '{"apiKeyHelper": "cat key"}',
        '{"env": {"ANTHROPIC_API_KEY": "sk"}}',
        '{"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}',
        '{"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}',
        '{"env": {"CLAUDE_CODE_USE_FOUNDRY": "1"}}',
    ],
    ".claude.json": ['{"primaryApiKey": "sk"}'],
}
NOT_STORED = {
    ".claude/settings.json": [
        "{}",
        '{"apiKeyHelper": ""}',
        '{"env": {"ANTHROPIC_API_KEY": ""}}',
        '{"env": []}',
        "{",
        "[]",
    ],
    ".claude.json": ["{}", '{"primaryApiKey": null}', "nothing"],
}


@pytest.mark.parametrize(
    ("name", "content", "enough"),
    [
        *((name, content, True) for name, contents in STORED.items() for content in contents),
        *((name, content, False) for name, contents in NOT_STORED.items() for content in contents),
    ],
)
async def test_what_counts_as_a_stored_login(name: str, content: str, enough: bool, tmp_path: Path) -> None:
    """The real CLI works with each: measured with 2.0.62 and 2.1.325, which says so itself."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / name).write_text(content)
    assert await authenticated(tmp_path, OLD, {}) == (enough, [])


# -- the adapter's own method ------------------------------------------------------------------------------------


async def test_cr_1_1_available(tmp_path: Path) -> None:
    small_cli(tmp_path / "bin" / "claude", "2.0.62")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "x"}
    assert await ClaudeCodeAdapter(env).check_availability() is True


async def test_cr_1_1_available_in_the_toolbox(tmp_path: Path) -> None:
    in_toolbox(tmp_path / "toolbox", "2.0.62")
    env = {"PATH": "/usr/bin:/bin", "YOUBENCHA_TOOLBOX": str(tmp_path / "toolbox"), "ANTHROPIC_API_KEY": "x"}
    assert await ClaudeCodeAdapter(env).check_availability() is True


async def test_cr_1_2_missing(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "YOUBENCHA_TOOLBOX": str(tmp_path), "ANTHROPIC_API_KEY": "x"}
    assert await ClaudeCodeAdapter(env).check_availability() is False


async def test_cr_1_3_not_authenticated(tmp_path: Path) -> None:
    small_cli(tmp_path / "bin" / "claude", "2.0.62")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    with pytest.raises(YouBenchaError, match=r"authentication"):
        await ClaudeCodeAdapter(env).check_availability()


@pytest.mark.parametrize("hangs", ["--version", "auth status"])
async def test_a_cli_that_hangs_is_reported(hangs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youbencha.adapters.base.READY_TIMEOUT_S", 1.0)
    cli = small_cli(tmp_path / "bin" / "claude", "2.1.40", rest="sleep 600")
    if hangs == "--version":
        cli.write_text("#!/bin/sh\nsleep 600 & wait\n")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    async with asyncio.timeout(20):
        with pytest.raises(YouBenchaError) as caught:
            await ClaudeCodeAdapter(env).check_availability()
    assert caught.value.code == "CLAUDE_VERSION_UNKNOWN"
