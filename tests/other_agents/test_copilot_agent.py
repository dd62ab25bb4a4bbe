"""The Copilot CLI adapter on recorded output: the command line, the faults, the tokens, the log."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_cli import RecordedCli, lines, transcript

from invocations import invocation
from youbencha.adapters.cli_agent import AgentCli, Invocation
from youbencha.adapters.copilot_cli import (
    CopilotCliAdapter,
    CopilotCliConfig,
    definition_directory,
    has_login,
    usage_in,
)
from youbencha.events import AssistantText, ToolCalled, ToolReturned

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the recorded CLI is a shell script")

TOOL_USE = transcript("copilot_tool_use-1.0.102.ndjson")
RESULT = {"type": "result", "sessionId": "s-1", "exitCode": 0, "usage": {}}


@pytest.fixture
def cli(tmp_path: Path) -> RecordedCli:
    return RecordedCli(tmp_path, CopilotCliAdapter)


# -- the command line -------------------------------------------------------------------------------------------------


async def test_the_command_line(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE)
    for flag in ("--allow-all-tools", "--allow-all-paths", "--no-ask-user", "--no-color"):
        assert flag in played.argv
    assert played.value_of("--output-format") == "json"
    assert played.value_of("--log-level") == "all"
    assert played.value_of("--add-dir") == str(cli.workspace)
    assert not Path(played.value_of("--log-dir")).is_relative_to(cli.workspace)
    assert played.argv[-1] == "--prompt=Do it."
    assert not {"--model", "--agent", "--reasoning-effort", "--max-ai-credits"} & set(played.argv)


async def test_options(cli: RecordedCli) -> None:
    options = {"model": "gpt-5", "agent_name": "reviewer", "reasoning_effort": "high", "max_ai_credits": 50}
    switches = {"log_level": "none", "allow_all_tools": False, "allow_all_paths": False}
    played = await cli.play(TOOL_USE, **options, **switches, extra_args=["--deny-tool", "shell(rm)"])
    assert played.value_of("--model") == "gpt-5"
    assert played.value_of("--agent") == "reviewer"
    assert played.value_of("--reasoning-effort") == "high"
    assert played.value_of("--max-ai-credits") == "50"
    assert played.value_of("--log-level") == "none"
    assert played.value_of("--deny-tool") == "shell(rm)"
    assert not {"--allow-all-tools", "--allow-all-paths"} & set(played.argv)


async def test_the_test_cases_model_wins(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, model="from-config", context={"model": "from-the-case"})
    assert played.value_of("--model") == "from-the-case"


async def test_a_resumed_session(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, extra_args=["--resume=abc"])
    assert "--session-id" not in played.argv


async def test_a_prompt_too_long_for_an_argument(cli: RecordedCli) -> None:
    prompt = "x" * 200_000
    played = await cli.play(TOOL_USE, prompt=prompt)
    assert played.stdin == prompt
    assert not any(word.startswith("--prompt") for word in played.argv)


async def test_the_environment(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, env={"GIVEN": "yes"})
    assert (played.env["COPILOT_AUTO_UPDATE"], played.env["GIVEN"]) == ("false", "yes")


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"prompt": "x", "reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"prompt": "x", "max_ai_credits": 5}, "max_ai_credits"),
        ({"prompt": "x", "extra_args": ["--model", "y"]}, "extra_args"),
        ({"prompt": "x", "extra_args": ["word"]}, "extra_args"),
        ({"prompt": "x", "allow_all_tool": True}, "allow_all_tool"),
        ({}, "prompt"),
    ],
)
def test_invalid_configurations(config: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in CopilotCliAdapter().check_config(config, None)] == [path]


# -- what it says -----------------------------------------------------------------------------------------------------


async def test_a_session_with_a_tool(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE)
    log = played.log
    assert (played.result.status, played.result.errors, played.warnings()) == ("success", (), [])
    assert [(message.role, message.content) for message in log.messages] == [
        ("user", "Do it."),
        ("assistant", "Done: wrote hello.txt"),
    ]
    (call,) = log.tool_calls
    assert (call.name, json.loads(call.arguments)["command"]) == ("bash", "echo hello > hello.txt")
    assert (call.is_error, call.result) == (False, "\n<shellId: 0 completed with exit code 0>")
    assert (log.model_info.name, log.model_info.provider) == ("claude-sonnet-4.6", "github")
    assert (log.agent_info.version, log.turns) == ("99.2.3", 2)
    assert log.session_id == "83349802-1160-4a6f-b89b-ae09cf779295"
    assert log.usage is None  # its events name no tokens, and there is no file of the session


async def test_live_events(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE)
    seen = [type(event) for event in played.events]
    assert seen.index(ToolCalled) < seen.index(ToolReturned) < seen.index(AssistantText)


async def test_a_rejected_key(cli: RecordedCli) -> None:
    played = await cli.play(transcript("copilot_err_401-1.0.102.ndjson"), ending="exit 1")
    assert (played.result.status, played.codes()) == ("failed", ["COPILOT_AUTH_FAILED"])
    assert "Authentication failed with provider" in played.result.errors[0].message
    assert played.warnings() == ["COPILOT_REQUESTS_RETRIED"]
    assert [(retry.status, retry.times) for retry in played.result.session.facts.retries] == [(401, 2)]


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        ({"errorType": "rate_limit", "statusCode": 429, "message": "slow down"}, "COPILOT_RATE_LIMIT", "rate_limit"),
        ({"errorType": "query", "statusCode": 400, "message": "400 no"}, "COPILOT_API_ERROR", "other"),
        ({"errorType": "query", "statusCode": 503, "message": "busy"}, "COPILOT_API_ERROR", "server"),
        ({"errorType": "query", "message": "Session limits reached"}, "COPILOT_MAX_BUDGET", "max_budget"),
        ({}, "COPILOT_API_ERROR", "other"),
    ],
)
async def test_errors_of_a_session(cli: RecordedCli, error: dict[str, Any], code: str, kind: str) -> None:
    output = lines({"type": "session.error", "data": error}, {**RESULT, "exitCode": 1})
    played = await cli.play(output, ending="exit 1")
    assert (played.result.status, played.codes()) == ("failed", [code])
    assert (played.result.errors[0].context or {})["kind"] == kind


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        ("Error: No authentication information found.\n\nCopilot can be …", "COPILOT_AUTH_FAILED"),
        ("No such agent: nosuch, available: \n", "COPILOT_EXECUTION_ERROR"),
        ("error: unknown option '--stream'\n", "COPILOT_EXIT_CODE"),
    ],
)
async def test_errors_before_the_first_event(cli: RecordedCli, stderr: str, code: str) -> None:
    played = await cli.play(stderr=stderr, ending="exit 1")
    assert (played.result.status, played.codes()) == ("failed", [code])
    assert stderr.splitlines()[0].strip() in played.result.errors[0].message


async def test_exit_0_without_a_result_is_not_a_success(cli: RecordedCli) -> None:
    output = "".join(line for line in TOOL_USE.splitlines(keepends=True) if '"type":"result"' not in line)
    played = await cli.play(output)
    assert (played.result.status, played.codes()) == ("failed", ["COPILOT_NO_RESULT"])


async def test_a_good_result_with_a_bad_exit_code_is_not_a_success(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, ending="exit 3")
    assert (played.result.status, played.result.exit_code, played.codes()) == ("failed", 3, ["COPILOT_EXIT_CODE"])


async def test_a_bad_result_with_exit_0_is_not_a_success(cli: RecordedCli) -> None:
    played = await cli.play(lines({**RESULT, "exitCode": 1}))
    assert (played.result.status, played.codes()) == ("failed", ["COPILOT_EXECUTION_ERROR"])


async def test_a_crash(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, ending="kill -SEGV $$")
    assert (played.result.status, played.result.exit_code, played.codes()) == ("failed", 139, ["COPILOT_CRASHED"])


async def test_denied_tools_are_reported(cli: RecordedCli) -> None:
    output = lines(
        {"type": "tool.execution_start", "data": {"toolCallId": "t", "toolName": "bash", "arguments": {}}},
        {
            "type": "tool.execution_complete",
            "data": {"toolCallId": "t", "success": False, "error": {"code": "denied", "message": "Permission denied"}},
        },
        RESULT,
    )
    played = await cli.play(output)
    assert (played.result.status, played.warnings()) == ("success", ["COPILOT_TOOL_DENIED"])
    assert (played.result.warnings[0].context or {})["tools"] == {"bash": 1}
    assert (played.log.tool_calls[0].is_error, played.log.tool_calls[0].result) == (True, "Permission denied")


async def test_unfinished_text_is_kept(cli: RecordedCli) -> None:
    """Only somebody who asks for a stream gets pieces, and a session that is cut off ends in them."""
    pieces = ({"type": "assistant.message_delta", "data": {"deltaContent": piece}} for piece in ("I was ab", "out to"))
    played = await cli.play(lines(*pieces), ending="exit 1")
    assert [message.content for message in played.log.messages] == ["Do it.", "I was about to"]


async def test_malformed_lines(cli: RecordedCli) -> None:
    played = await cli.play("a hook says hello\n" + TOOL_USE)
    assert (played.result.status, played.warnings()) == ("success", ["COPILOT_MALFORMED_LINE"])


async def test_a_subagents_messages_name_their_parent(cli: RecordedCli) -> None:
    message = {"content": "Looks good.", "model": "small", "parentToolCallId": "t-1"}
    output = lines({"type": "assistant.message", "data": message}, RESULT)
    played = await cli.play(output, model="large")
    assert played.log.messages[-1].parent == "t-1"
    assert played.log.model_info.name == "large"


# -- its own files ----------------------------------------------------------------------------------------------------


def usage_record(given: int, made: int, read: int = 0, written: int = 0) -> dict[str, Any]:
    usage = {"inputTokens": given, "outputTokens": made, "cacheReadTokens": read, "cacheWriteTokens": written}
    return {"type": "session.usage_record", "data": {"usage": usage}}


def shutdown(**models: dict[str, int]) -> dict[str, Any]:
    metrics = {name: {"usage": usage} for name, usage in models.items()}
    return {"type": "session.shutdown", "data": {"accountingSnapshot": {"modelMetrics": metrics}}}


def session_file(home: Path, text: str, session: str = "s-1") -> None:
    path = home / "session-state" / session / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_tokens_of_a_complete_session(tmp_path: Path) -> None:
    large = {"inputTokens": 3500, "outputTokens": 50, "cacheReadTokens": 1400, "cacheWriteTokens": 100}
    session_file(tmp_path, lines(usage_record(1750, 25, 700, 50), shutdown(large=large, small={"inputTokens": 10})))
    usage = usage_in(tmp_path, "s-1")
    assert usage is not None
    assert (usage.tokens, usage.partial) == ((2000 + 10, 50, 1400, 100), False)
    assert usage.cost_usd is None


def test_tokens_of_a_session_that_was_cut_off(tmp_path: Path) -> None:
    broken = '{"type":"session.usage_record", "data": {"usage"\n'
    session_file(tmp_path, lines(usage_record(1750, 25, 700, 50), usage_record(100, 5)) + broken)
    usage = usage_in(tmp_path, "s-1")
    assert usage is not None
    assert (*usage.tokens[:2], usage.partial) == (1100, 30, True)


async def test_a_sum_of_a_session_without_a_result_is_partial(cli: RecordedCli) -> None:
    """Asked to end, the CLI adds up, but without the call that it was in."""
    keep = """
    before=; for word in "$@"; do
      [ "$before" = --session-id ] && mkdir -p "$HOME/.copilot/session-state" && \\
        cp -r "$here/files" "$HOME/.copilot/session-state/$word"
      before=$word
    done
    """
    files = {"events.jsonl": lines(shutdown(large={"inputTokens": 10, "outputTokens": 5}))}
    played = await cli.play("".join(TOOL_USE.splitlines(keepends=True)[:-1]), before=keep, files=files)
    assert played.log.usage is not None
    assert (played.log.usage.input_tokens, played.log.usage.partial) == (10, True)


@pytest.mark.parametrize("session", [None, "s-2", "../s-1", "s-1"])
def test_no_usage_without_a_record(tmp_path: Path, session: str | None) -> None:
    session_file(tmp_path / "home", lines({"type": "session.start"}))
    assert usage_in(tmp_path / "home", session) is None
    assert usage_in(None, session) is None


def test_a_pipe_instead_of_the_session_file_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "session-state" / "s-1").mkdir(parents=True)
    os.mkfifo(tmp_path / "session-state" / "s-1" / "events.jsonl")
    assert usage_in(tmp_path, "s-1") is None


async def test_its_own_log_is_kept_with_secrets_masked(cli: RecordedCli) -> None:
    before = """
while [ "$1" != --log-dir ]; do shift; done; mkdir "$2"
echo "the key is hunter2-distinct-aaaa" > "$2/process-1.log"
ln -s /etc/hosts "$2/process-2.log"
"""
    played = await cli.play(TOOL_USE, before=before, env={"SOME_API_KEY": "hunter2-distinct-aaaa"})
    kept = sorted(path.name for path in (cli.artifacts / "copilot-logs").iterdir())
    assert len(kept) == 2
    assert kept[0] == "process-1.log"
    assert kept[1].startswith("terminal-output-")
    assert (cli.artifacts / "copilot-logs" / "process-1.log").read_text() == "the key is [REDACTED]\n"
    assert played.result.status == "success"


# -- credentials ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"])
def test_credentials_in_the_environment(name: str) -> None:
    assert has_login({name: "x"})
    assert not has_login({name: ""})


@pytest.mark.parametrize(
    ("text", "is_login"),
    [
        ('{"firstLaunchAt": "2026-11-15"}', False),
        ('{"logged_in_users": []}', False),
        ('// managed\n{"logged_in_users": [{"host": "https://github.com", "login": "me"}]}', True),
        ('{"lastLoggedInUser": {"login": "me"}}', True),
    ],
)
def test_a_stored_login(tmp_path: Path, text: str, is_login: bool) -> None:
    (tmp_path / ".copilot").mkdir()
    (tmp_path / ".copilot" / "config.json").write_text(text)
    assert has_login({"HOME": str(tmp_path)}) is is_login


def test_a_login_of_the_github_cli(tmp_path: Path) -> None:
    assert not has_login({"HOME": str(tmp_path)})
    (tmp_path / ".config" / "gh").mkdir(parents=True)
    (tmp_path / ".config" / "gh" / "hosts.yml").touch()
    assert has_login({"HOME": str(tmp_path)})


# -- a custom agent ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["workspace/.github/agents", "cases/.github/agents", "persons-home/.copilot/agents"])
def test_sources_of_an_agent_definition(tmp_path: Path, place: str) -> None:
    """The CLI finds the repository's; the test case's or the user's is put into a directory for it."""
    for directory in ("workspace", "scratch", "cases", place):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / "reviewer.agent.md").write_text("You review.")
    found = definition_directory(definition_task(tmp_path), {"HOME": str(tmp_path / "persons-home")})
    if place.startswith("workspace"):
        assert found is None
    else:
        assert found is not None
        assert (found / ".github" / "agents" / "reviewer.agent.md").read_text() == "You review."


def test_an_invalid_definition_in_the_repository_does_not_hide_another(tmp_path: Path) -> None:
    """A link that leads out of the repository, or a pipe."""
    agents, cases = tmp_path / "workspace" / ".github" / "agents", tmp_path / "cases" / ".github" / "agents"
    for directory in (agents, cases, tmp_path / "scratch"):
        directory.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("Not of the repository.")
    (agents / "reviewer.md").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(cases / "reviewer.agent.md")
    (cases / "reviewer.md").write_text("You review.")
    found = definition_directory(definition_task(tmp_path), {})
    assert found is not None
    assert (found / ".github" / "agents" / "reviewer.agent.md").read_text() == "You review."


def definition_task(directory: Path) -> Invocation[CopilotCliConfig]:
    chosen = CopilotCliConfig(prompt="Do it.", agent_name="reviewer")
    copilot = AgentCli(Path("/bin/copilot"), "1.0.102")
    return invocation(
        chosen, copilot, directory / "workspace", directory / "scratch", {}, config_dir=directory / "cases"
    )
