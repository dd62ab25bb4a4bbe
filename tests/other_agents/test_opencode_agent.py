"""The opencode adapter on recorded output: the command line, the settings, the faults, the log."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recorded_cli import RecordedCli, lines, transcript

from youbencha.adapters.opencode import OpenCodeAdapter, has_credentials
from youbencha.errors import YouBenchaError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the recorded CLI is a shell script")

TOOL_USE = transcript("opencode_tool_use-1.18.33.ndjson")


@pytest.fixture
def cli(tmp_path: Path) -> RecordedCli:
    return RecordedCli(tmp_path, OpenCodeAdapter)


def step(reason: str, **tokens: Any) -> dict[str, Any]:
    return {"type": "step_finish", "sessionID": "s", "part": {"reason": reason, "tokens": tokens, "cost": 0.5}}


# -- the command line -------------------------------------------------------------------------------------------------


async def test_the_command_line(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE)
    assert played.argv[0] == "run"
    assert played.value_of("--format") == "json"
    assert "--auto" in played.argv
    assert not {"-m", "--agent", "--variant"} & set(played.argv)
    assert played.stdin == "Do it."  # as an argument it would get quotation marks
    assert played.env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"


@pytest.mark.parametrize(
    ("config", "model"),
    [
        ({"model": "openai/gpt-5"}, "openai/gpt-5"),
        ({"model": "claude-sonnet-4-5"}, "anthropic/claude-sonnet-4-5"),
        ({"model": "gpt-5", "provider": "openai"}, "openai/gpt-5"),
        ({"model": "openrouter/meta/llama", "provider": "openai"}, "openrouter/meta/llama"),
    ],
)
async def test_models(cli: RecordedCli, config: dict[str, Any], model: str) -> None:
    played = await cli.play(TOOL_USE, **config)
    assert played.value_of("-m") == model
    assert played.log.model_info.provider == model.split("/")[0]


@pytest.mark.parametrize(
    ("left", "known"),
    [
        ('cp "$here/files/database" "$OPENCODE_DB"', ("claude-sonnet-4-6", "anthropic")),
        ('cp "$here/files/database" ../d; ln -s "$PWD/../d" "$OPENCODE_DB"', ("unknown", "unknown")),
        ('mkfifo "$OPENCODE_DB"', ("unknown", "unknown")),
        ('echo no database > "$OPENCODE_DB"', ("unknown", "unknown")),
        ("true", ("unknown", "unknown")),
    ],
)
async def test_the_model_is_in_the_database(
    cli: RecordedCli, left: str, known: tuple[str, str], tmp_path: Path
) -> None:
    session = json.loads(TOOL_USE.splitlines()[0])["sessionID"]
    (tmp_path / "cli" / "files").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "cli" / "files" / "database")) as database:
        database.execute("CREATE TABLE message (session_id, time_created, data)")
        for at, (role, model) in enumerate((("assistant", "old"), ("assistant", "claude-sonnet-4-6"), ("user", "x"))):
            data = json.dumps({"role": role, "providerID": "anthropic", "modelID": model})
            database.execute("INSERT INTO message VALUES (?, ?, ?)", (session, at, data))
        database.commit()
    played = await cli.play(TOOL_USE, before=left)
    assert played.result.status == "success", played.result.errors
    assert (played.log.model_info.name, played.log.model_info.provider) == known


async def test_options(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, agent_name="plan", variant="high", auto_approve=False, extra_args=["--pure"])
    assert (played.value_of("--agent"), played.value_of("--variant")) == ("plan", "high")
    assert "--pure" in played.argv
    assert "--auto" not in played.argv


# -- where the model is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "env", "provider", "url"),
    [
        ({"base_url": "http://h:1"}, {}, "anthropic", "http://h:1/v1"),
        ({"base_url": "http://h:1/v1/"}, {}, "anthropic", "http://h:1/v1"),
        ({}, {"ANTHROPIC_BASE_URL": "http://h:2"}, "anthropic", "http://h:2/v1"),
        ({"base_url": "http://h:1"}, {"ANTHROPIC_BASE_URL": "http://h:2"}, "anthropic", "http://h:1/v1"),
        ({"model": "openai/x"}, {"OPENAI_BASE_URL": "http://h:3/v1"}, "openai", "http://h:3/v1"),
        ({"model": "mine/x", "base_url": "http://h:4/api"}, {}, "mine", "http://h:4/api"),
    ],
)
async def test_a_base_url(
    cli: RecordedCli, config: dict[str, Any], env: dict[str, str], provider: str, url: str
) -> None:
    played = await cli.play(TOOL_USE, env={"ANTHROPIC_API_KEY": "sk-secret-000000000000", **env}, **config)
    content = played.env["OPENCODE_CONFIG_CONTENT"]
    settings = json.loads(content)["provider"]
    assert settings[provider]["options"] == {"baseURL": url}
    assert "sk-secret" not in content
    if "model" in config:
        assert settings[provider]["models"] == {"x": {}}


async def test_without_a_base_url_nothing_is_configured(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, model="openai/x", env={"ANTHROPIC_BASE_URL": "http://h:2"})
    assert not {"OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG"} & set(played.env)


async def test_a_given_configuration_is_kept(cli: RecordedCli) -> None:
    before = 'cat "$OPENCODE_CONFIG" >&2'
    played = await cli.play(
        TOOL_USE, before=before, base_url="http://h:1", env={"OPENCODE_CONFIG_CONTENT": '{"theme": "x"}'}
    )
    assert played.env["OPENCODE_CONFIG_CONTENT"] == '{"theme": "x"}'
    assert not Path(played.env["OPENCODE_CONFIG"]).is_relative_to(cli.workspace)
    assert '"baseURL": "http://h:1/v1"' in played.result.output


async def test_each_run_has_its_own_database(cli: RecordedCli) -> None:
    one, other = await cli.play(TOOL_USE), await cli.play(TOOL_USE)
    databases = {Path(played.env["OPENCODE_DB"]) for played in (one, other)}
    assert len(databases) == 2
    assert not any(database.parent.exists() for database in databases), "gone with the session"
    given = await cli.play(TOOL_USE, env={"OPENCODE_DB": ":memory:"})
    assert given.env["OPENCODE_DB"] == ":memory:"


# -- what it says -----------------------------------------------------------------------------------------------------


async def test_a_session_with_a_tool(cli: RecordedCli) -> None:
    played = await cli.play(TOOL_USE, model="anthropic/claude-x")
    log = played.log
    assert (played.result.status, played.result.errors, played.warnings()) == ("success", (), [])
    assert [message.content for message in log.messages] == ["Do it.", "Done: wrote hello.txt"]
    (call,) = log.tool_calls
    assert (call.name, call.result, call.is_error) == ("bash", "(no output)", False)
    assert (log.model_info.name, log.model_info.provider) == ("anthropic/claude-x", "anthropic")
    assert (log.session_id, log.turns) == ("ses_e1f4399c1ffegKgILSUIGzvWr4", 2)
    assert log.usage is not None
    assert (log.usage.input_tokens, log.usage.output_tokens, log.usage.total_tokens) == (2000, 50, 3550)
    assert (log.usage.cache_read_tokens, log.usage.cache_creation_tokens) == (1400, 100)
    assert (log.usage.cost_usd, log.usage.cost_source, log.usage.partial) == (0.007545, "agent", False)


async def test_reasoning_is_output(cli: RecordedCli) -> None:
    played = await cli.play(lines(step("stop", input=10, output=5, reasoning=7)))
    assert played.log.usage is not None
    assert played.log.usage.output_tokens == 12


async def test_a_rejected_key(cli: RecordedCli) -> None:
    played = await cli.play(transcript("opencode_err_401-1.18.33.ndjson"), ending="exit 1")
    assert (played.result.status, played.codes()) == ("failed", ["OPENCODE_AUTH_FAILED"])
    assert "invalid x-api-key" in played.result.errors[0].message


@pytest.mark.parametrize(
    ("reason", "code"),
    [("length", "OPENCODE_API_ERROR"), ("content-filter", "OPENCODE_REFUSED"), ("error", "OPENCODE_EXECUTION_ERROR")],
)
async def test_an_unexpected_end(cli: RecordedCli, reason: str, code: str) -> None:
    played = await cli.play(lines(step(reason)))
    assert (played.result.status, played.codes()) == ("failed", [code])


async def test_a_rejected_tool_ends_the_session_without_a_result(cli: RecordedCli) -> None:
    """So it did in 1.18.33, with exit code 0."""
    state = {"status": "error", "input": {}, "error": "The user rejected permission to use this specific tool call."}
    tool = {"type": "tool_use", "part": {"tool": "bash", "callID": "t", "state": state}}
    played = await cli.play(lines(tool, step("tool-calls", input=1, output=1)))
    assert (played.result.status, played.codes()) == ("failed", ["OPENCODE_NO_RESULT"])
    assert played.warnings() == ["OPENCODE_TOOL_DENIED"]
    assert played.log.usage is not None
    assert played.log.usage.partial


async def test_a_fallback_to_another_agent_is_not_a_success(cli: RecordedCli) -> None:
    stderr = '\x1b[93m\x1b[1m! \x1b[0m agent "nosuch" not found. Falling back to default agent\n'
    played = await cli.play(TOOL_USE, stderr=stderr, agent_name="nosuch")
    assert (played.result.status, played.codes()) == ("failed", ["OPENCODE_EXECUTION_ERROR"])
    assert 'agent "nosuch" not found' in played.result.errors[0].message


async def test_text_about_fallbacks_is_ignored(cli: RecordedCli) -> None:
    text = 'It says: agent "x" not found. Falling back to default agent'
    output = lines({"type": "text", "part": {"text": text}}, step("stop"))
    played = await cli.play(output, stderr=f"a plugin quotes: {text}\n")
    assert played.result.status == "success"


VAGUE = {"name": "UnknownError", "data": {"message": "Unexpected server error. Check server logs for details."}}


async def test_the_reason_behind_an_unexpected_error(cli: RecordedCli) -> None:
    stderr = (
        'timestamp=2026-11-15T23:49:31.589Z level=ERROR run=c message="share failed" cause="x"\n'
        "timestamp=2026-11-15T23:49:31.727Z level=ERROR run=c message=failed ref=err_f "
        'error="ProviderModelNotFoundError: Model not found: anthropic/nosuch." cause="…"\n'
    )
    played = await cli.play(lines({"type": "error", "sessionID": "s", "error": VAGUE}), stderr=stderr, ending="exit 1")
    (error,) = played.result.errors
    assert (error.code, (error.context or {})["kind"]) == ("OPENCODE_API_ERROR", "model_not_found")
    assert "Model not found: anthropic/nosuch" in error.message


async def test_an_unexpected_error_without_a_reason(cli: RecordedCli) -> None:
    played = await cli.play(lines({"type": "error", "sessionID": "s", "error": VAGUE}), ending="exit 1")
    assert played.codes() == ["OPENCODE_API_ERROR"]
    assert "Unexpected server error" in played.result.errors[0].message


# -- credentials ------------------------------------------------------------------------------------------------------


def test_credentials(tmp_path: Path) -> None:
    assert not has_credentials({})
    assert not has_credentials({"HOME": str(tmp_path)})
    assert has_credentials({"OPENROUTER_API_KEY": "x"})
    login = tmp_path / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert not has_credentials({"HOME": str(tmp_path)})
    login.write_text('{"anthropic": {"type": "api"}}')
    assert has_credentials({"HOME": str(tmp_path)})
    assert has_credentials({"XDG_DATA_HOME": str(login.parent.parent)})


async def test_opencodes_free_models_need_no_key(cli: RecordedCli) -> None:
    await cli.play(TOOL_USE)
    program = cli.workspace.parent / "cli" / "program"
    adapter = OpenCodeAdapter(env={"PATH": "/usr/bin:/bin"})
    config = {"prompt": "x", "executable": str(program)}
    await adapter.check_ready({**config, "model": "opencode/some-model"}, {})
    await adapter.check_ready(config, {"ANTHROPIC_API_KEY": "x"})
    with pytest.raises(YouBenchaError, match="authentication") as caught:
        await adapter.check_ready({**config, "model": "anthropic/x"}, {})
    assert caught.value.code == "OPENCODE_AUTH_FAILED"
