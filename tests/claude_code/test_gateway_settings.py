"""Claude Code behind a gateway: neither its environment nor any settings redirect it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_clis import asked, small_cli

from agent_clis import NEWEST, OLDEST, SPREAD
from claude_bench import API_KEY, ClaudeBench, says, script, versions
from systems import posix_only
from youbencha.adapters import AgentExecutionContext, AgentExecutionResult
from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.claude_code.command import gateway_settings, given_settings
from youbencha.gateway.access import GatewayAccess

ACCESS = GatewayAccess("http://127.0.0.1:4100", "yb-virtual-0123456789")
NOWHERE = "http://127.0.0.1:9"


def settings(*extra_args: str, workspace: Path = Path()) -> dict[str, Any]:
    return gateway_settings(ACCESS, {"NO_PROXY": "127.0.0.1"}, given_settings(extra_args, workspace))


def test_the_environment() -> None:
    harness = {"PATH": "/bin", "ANTHROPIC_API_KEY": "real", "AWS_PROFILE": "real", "HTTPS_PROXY": "http://p"}
    given = {"ANTHROPIC_AUTH_TOKEN": "real", "CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_MODEL": "m", "MINE": "x"}
    assert ClaudeCodeAdapter(harness).environment(given, gateway=ACCESS) == {
        "PATH": "/bin",
        "MINE": "x",
        "HTTPS_PROXY": "http://p",
        "ANTHROPIC_MODEL": "m",
        "ANTHROPIC_BASE_URL": ACCESS.url,
        "ANTHROPIC_API_KEY": ACCESS.key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def test_settings_on_the_command_line() -> None:
    merged = settings()
    assert merged["apiKeyHelper"] == ""
    assert merged["env"]["ANTHROPIC_BASE_URL"] == ACCESS.url
    assert merged["env"]["ANTHROPIC_API_KEY"] == ACCESS.key
    assert merged["env"]["ANTHROPIC_AUTH_TOKEN"] == merged["env"]["CLAUDE_CODE_USE_BEDROCK"] == ""
    assert merged["env"]["NO_PROXY"] == "127.0.0.1"


def test_the_users_settings_are_merged(tmp_path: Path) -> None:
    mine = {"env": {"MINE": "x", "ANTHROPIC_BASE_URL": NOWHERE}, "apiKeyHelper": "echo", "model": "opus"}
    (tmp_path / "mine.json").write_text(json.dumps(mine))
    for given in (("--settings", json.dumps(mine)), ("--settings=mine.json",), ("--x", "--settings", "mine.json")):
        merged = settings(*given, workspace=tmp_path)
        assert (merged["model"], merged["env"]["MINE"]) == ("opus", "x")
        assert (merged["env"]["ANTHROPIC_BASE_URL"], merged["apiKeyHelper"]) == (ACCESS.url, "")


@pytest.mark.parametrize("given", [("--settings",), ("--settings", "none.json"), ("--settings", "{"), ("-x", "[1]")])
def test_unreadable_settings_are_ignored(given: tuple[str, ...], tmp_path: Path) -> None:
    assert settings(*given, workspace=tmp_path) == settings()


@posix_only("the small CLI is a shell script")
@pytest.mark.parametrize(("version", "has_settings"), [("1.0.60", False), ("1.0.61", True)])
async def test_versions_without_the_settings_flag(tmp_path: Path, version: str, has_settings: bool) -> None:
    cli = small_cli(tmp_path / "claude", version)
    context = AgentExecutionContext(
        workspace_dir=tmp_path,
        repo_dir=tmp_path,
        artifacts_dir=tmp_path / "artifacts",
        config={"prompt": "x", "executable": str(cli), "extra_args": ["--settings", "{}"]},
        env={"IS_SANDBOX": "1"},
        gateway=ACCESS,
    )
    await ClaudeCodeAdapter(env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}).execute(context)
    given = re.findall(r"--settings (\{\}|/.*?\.json)", asked(cli)[-1])
    assert [Path(each).name for each in given] == (["{}", "settings.json"] if has_settings else ["{}"])
    assert ACCESS.key not in asked(cli)[-1]  # every user of the machine may see a command line


def test_a_key_split_over_deltas_is_masked(tmp_path: Path) -> None:
    begun = {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-x"}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": half}}
        for half in (ACCESS.key[:9], ACCESS.key[9:])
    ]
    records = [begun, *({"type": "stream_event", "event": delta} for delta in deltas)]
    output = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    at = "2026-01-01T00:00:00.000Z"
    result = AgentExecutionResult(
        exit_code=1, status="failed", output=output, started_at=at, completed_at=at, duration_ms=1
    )
    context = AgentExecutionContext(
        workspace_dir=tmp_path, repo_dir=tmp_path, artifacts_dir=tmp_path, config={}, gateway=ACCESS
    )
    log = ClaudeCodeAdapter(env={}).normalize_log(result, context)
    assert [message.content for message in log.messages] == ["[REDACTED]"]


@versions(NEWEST, OLDEST, *SPREAD[1:])  # 1.0.60 has no --settings, which win over these
async def test_no_settings_redirect_the_cli(claude: ClaudeBench) -> None:
    """Of the user and of the repository: measured, without ours they win over the environment."""
    elsewhere = {"ANTHROPIC_BASE_URL": NOWHERE, "ANTHROPIC_API_KEY": "sk-elsewhere", "CLAUDE_CODE_USE_BEDROCK": "1"}
    for place in (claude.home, claude.workspace):
        (place / ".claude").mkdir()
        helper = {"env": elsewhere, "apiKeyHelper": "echo sk-of-a-helper"}
        (place / ".claude" / "settings.json").write_text(json.dumps(helper))
    oauth = {"accessToken": "sk-ant-oat01-stored", "refreshToken": "r", "expiresAt": 9_999_999_999_999, "scopes": []}
    (claude.home / ".claude" / ".credentials.json").write_text(json.dumps({"claudeAiOauth": oauth}))
    async with claude.model(script(says("Done."))) as model:
        access = GatewayAccess(model.url, ACCESS.key)
        context = claude.context(model, env={"ANTHROPIC_BASE_URL": NOWHERE}, gateway=access, timeout=60_000)
        result = await claude.adapter().execute(context)
    assert result.status == "success", result.errors
    # 2.1.150 looks first whether the API is there.
    assert {request.headers["x-api-key"] for request in model.requests if request.method != "HEAD"} == {ACCESS.key}
    sent = json.dumps([dict(request.headers) for request in model.requests])
    assert not [secret for secret in (API_KEY, "sk-elsewhere", "sk-of-a-helper", "oat01") if secret in sent]


@versions(NEWEST)
async def test_a_spent_budget_ends_the_session(claude: ClaudeBench) -> None:
    """As our gateway says it."""
    spent = {"status": 402, "message": "youBencha: the budget is spent: 0.10 of 0.10 USD"}
    session = await claude.run(script({"error": spent, "times": "forever"}))
    assert (session.result.status, session.codes()) == ("failed", ["CLAUDE_MAX_BUDGET"])
    assert len(session.main_requests) == 1
