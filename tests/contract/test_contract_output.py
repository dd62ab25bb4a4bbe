"""CR-2.8, FR-004, FR-015, FR-016, SC-002, SC-007 and seed 004's stream: no output of the agent is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_session import Shared, shared

from agent_clis import ALL_VERSIONS, NEWEST, OLD, OLDEST, SPREAD
from claude_bench import API_KEY, ClaudeBench, Session, bash, full, says, script, versions
from echo_cli import EchoCli, needs_shell
from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.events import (
    AssistantText,
    AssistantTextDelta,
    SessionResult,
    WarningRaised,
)
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.user_dirs import toolbox_dir


def said(session: Session) -> list[str]:
    return [message.content for message in session.log.messages if message.role == "assistant"]


def tokens(given: int, made: int, read: int, created: int) -> dict[str, int]:
    return {
        "input_tokens": given,
        "output_tokens": made,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": created,
    }


ORDINARY = script(
    {**bash("echo colour 漢"), "text": "First.", "usage": tokens(1_001, 11, 0, 5_000)},
    {**bash("touch touched.txt"), "text": "Second.", "usage": tokens(1_020, 22, 5_000, 300)},
    says("Third: é 漢 🙂", usage=tokens(1_300, 33, 5_300, 70)),
    # Calls beside the work (older versions ask a small model about commands) are metered too: here, with nothing.
    side={"text": "ok", "usage": tokens(0, 0, 0, 0)},
)


# -- a session without any option --------------------------------------------------------------------------------


async def without_options(claude: ClaudeBench) -> Session:
    claude.artifacts = claude.artifacts / "not" / "yet"
    claude.harness_env["YOUBENCHA_TOOLBOX"] = str(toolbox_dir())
    return await claude.run(ORDINARY, config={"executable": None, "version": claude.cli.version})


@pytest.fixture
async def ordinary(claude_cli: InstalledAgent, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    done = await shared(without_options, claude_cli, tmp_path_factory)
    assert done.session.result.status == "success", done.session.result.errors
    return done


@versions(*ALL_VERSIONS)
def test_an_ordinary_run_has_no_warnings(ordinary: Shared) -> None:
    """2.0.62 starts a search tool of its own in the background, and may end before it: not the agent's doing."""
    assert ordinary.session.warning_codes() == []


@versions(*ALL_VERSIONS)
def test_a_version_is_taken_from_the_toolbox(ordinary: Shared) -> None:
    session, version = ordinary.session, ordinary.claude.cli.version
    assert session.result.agent_version == version
    assert f"claude-cli/{version} " in session.main_requests[0].headers["user-agent"]
    assert session.log.agent_info.version == version


@versions(NEWEST, OLDEST, *SPREAD[2:])  # the totals of 1.0.60 and 2.0.24 are wrong
def test_usage_is_the_sum_over_all_turns(ordinary: Shared) -> None:
    usage = ordinary.session.log.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3_321, 66, 19_057)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (10_300, 5_370)
    assert (usage.cost_source, usage.partial) == ("agent", False)
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0


def test_us_2_3_sc_007_without_a_model_the_cli_chooses_and_the_log_says_which(ordinary: Shared) -> None:
    session = ordinary.session
    assert session.log.model_info.name == session.main_requests[0].body["model"]


def test_us_5_without_a_permission_mode_the_tool_runs(ordinary: Shared) -> None:
    assert (ordinary.claude.workspace / "touched.txt").exists()


def test_no_partial_messages_by_default(ordinary: Shared) -> None:
    assert not [event for event in ordinary.session.events if isinstance(event, AssistantTextDelta)]


def test_fr_016_a_missing_artifacts_directory_is_made(ordinary: Shared) -> None:
    log_file = ordinary.session.result.log_file
    assert log_file is not None
    assert log_file.parent == ordinary.claude.artifacts / "claude-code-logs"
    assert "Third" in log_file.read_text()


def independent_of_a_terminal(session: Session) -> dict[str, object]:
    log = session.log
    return {
        "status": session.result.status,
        "exit_code": session.result.exit_code,
        "messages": [(message.role, message.content) for message in log.messages],
        "tools": [(call.name, call.arguments, call.result, call.is_error) for call in log.tool_calls],
        "usage": log.usage and (log.usage.input_tokens, log.usage.output_tokens),
        "malformed": session.warning_codes().count("CLAUDE_MALFORMED_LINE"),
    }


@pytest.mark.full  # `test_claude_terminal.py` compares more of a terminal's events
@posix_only("a console there draws what it is given anew, with line breaks of its own")
async def test_pty_always_gives_the_same_log(claude: ClaudeBench, ordinary: Shared) -> None:
    with_terminal = await claude.run(ORDINARY, config={"pty": "always"})
    assert with_terminal.result.status == "success", with_terminal.result.errors
    assert independent_of_a_terminal(with_terminal) == independent_of_a_terminal(ordinary.session)


# -- the stream --------------------------------------------------------------------------------------------------


MEGABYTES = "".join(f"{number:015}\n" for number in range(3 * 1024 * 1024 // 16))


async def test_sc_002_three_megabytes_arrive_complete_with_the_result_line(claude: ClaudeBench) -> None:
    session = await claude.run(script(says(MEGABYTES)))
    assert session.result.status == "success", session.result.errors
    assert [text.strip() == MEGABYTES.strip() for text in said(session)] == [True]
    (closing,) = [event for event in session.events if isinstance(event, SessionResult)]
    assert closing.text is not None
    assert closing.text.strip() == MEGABYTES.strip()


@versions(full(NEWEST), full(OLD), OLDEST)  # the flag came with 1.0.108; see also `test_claude_terminal.py`
async def test_the_pieces_put_together_are_the_text(claude: ClaudeBench) -> None:
    text = "A first sentence. " * 40 + "漢 🙂 the end."
    turns = ({**bash("true"), "text": "Before. "}, says(text))
    session = await claude.run(script(*turns), config={"include_partial_messages": True})
    assert session.result.status == "success", session.result.errors
    pieces = [event.text for event in session.events if isinstance(event, AssistantTextDelta)]
    assert len(pieces) > 3
    assert "".join(pieces) == "Before. " + text
    finished = [event.text.strip() for event in session.events if isinstance(event, AssistantText)]
    assert finished == ["Before.", text]  # and nothing twice
    assert [each.strip() for each in said(session)] == ["Before.", text]


@needs_shell
async def test_a_garbage_line_is_skipped_with_a_warning(tmp_path: Path) -> None:
    received = await EchoCli(tmp_path, before="echo 'GARBAGE {\"type\": '").run()
    assert received.result.status == "success", received.result.errors
    assert received.warning_codes() == ["CLAUDE_MALFORMED_LINE"]
    assert [event.code for event in received.events if isinstance(event, WarningRaised)] == ["CLAUDE_MALFORMED_LINE"]
    assert [w.code for w in received.log.warnings] == ["CLAUDE_MALFORMED_LINE"]
    assert [m.content for m in received.log.messages if m.role == "assistant"] == ["Done."]
    assert "GARBAGE" in received.result.output  # the raw log has every line


@needs_shell
async def test_noise_on_stderr_is_ignored(tmp_path: Path) -> None:
    noise = 'i=0; while [ $i -lt 500 ]; do echo "noise {\\"type\\": \\"result\\"} $i" >&2; i=$((i+1)); done'
    received = await EchoCli(tmp_path, before=noise).run()
    assert received.result.status == "success", received.result.errors
    assert received.warning_codes() == []
    assert received.log.warnings == ()
    assert [m.content for m in received.log.messages if m.role == "assistant"] == ["Done."]
    assert "noise" in received.result.output
    assert "499" in received.result.output


@needs_shell
async def test_pty_always_is_a_real_terminal_and_auto_is_not(tmp_path: Path) -> None:
    cli = EchoCli(tmp_path, before="if test -t 1; then echo yes >> ~/terminal; else echo no >> ~/terminal; fi")
    for pty in ("always", "auto"):
        await cli.run(config={"pty": pty})
    assert (cli.home / "terminal").read_text().split() == ["yes", "no"]


@needs_shell
async def test_an_invalid_artifacts_directory_is_found_before_anything_runs(tmp_path: Path) -> None:
    """Edge case of seed 001."""
    cli, place = EchoCli(tmp_path), tmp_path / "artifacts"
    place.write_text("a file where the directory should be")
    with pytest.raises(YouBenchaError) as caught:
        await cli.run(artifacts_dir=place)
    assert caught.value.code == "ARTIFACTS_NOT_WRITABLE"
    assert caught.value.hint
    assert not cli.was_started


# -- output_format: text: there is no stream to read, so the exit code decides and the text is the answer ---------


TEXT = {"output_format": "text"}
KILOBYTE = "".join(f"{number:07d}\n" for number in range(128))


CLAIMS = """\
API Error: 401 was what I found; now there is a rate limit, and "Credit balance is too low" is translated.
Model: claude-of-the-answer
Input tokens: 7 Output tokens: 8
[TOOL: Deploy] production
Not logged in · Please run /login"""
ANSWER = KILOBYTE + CLAIMS


# Files say what was spent; those of 2.0.24 and 2.0.62: `test_counted_sessions.py`.
@versions(NEWEST, full(OLD), OLDEST, *(version for version in SPREAD if version != "2.0.24"))
async def test_cr_2_8_sc_007_text_mode_success(claude: ClaudeBench) -> None:
    """What the answer claims about errors, models, tokens and tools changes nothing."""
    model = "claude-sonnet-4-5-20250929"
    answers = script(bash("echo hidden"), says(ANSWER), model=model, usage={"output_tokens": 33})
    session = await claude.run(answers, config=TEXT)
    assert (session.result.status, session.result.exit_code) == ("success", 0), session.result.errors
    assert (session.codes(), session.warning_codes()) == ([], [])
    assert session.result.output.strip() == ANSWER
    assert session.result.log_file is not None
    assert session.result.log_file.read_text(encoding="utf-8") == session.result.output
    assert said(session) == [ANSWER]
    assert session.log.usage is not None  # from the CLI's own record: nothing of it was printed
    assert (session.log.usage.output_tokens, session.log.usage.partial) == (66, True)
    assert session.log.usage.input_tokens not in (None, 7)
    assert (session.log.model_info.name, session.log.turns) == (model, 2)
    assert "Deploy" not in [call.name for call in session.log.tool_calls]
    assert session.log.agent_info.version == claude.cli.version


@versions(NEWEST, full(OLD), OLDEST, *SPREAD)
async def test_in_text_mode_a_failure_quotes_the_text_and_is_not_what_it_is_about(claude: ClaudeBench) -> None:
    """The script's error is one of the provider; "max turns" would be the agent's own limit."""
    failed = {"error": {"status": 529, "message": f"max turns, invalid api key {API_KEY}"}, "times": "forever"}
    env = {"CLAUDE_CODE_MAX_RETRIES": "0"}
    session = await claude.run(script(bash("true"), failed), config=TEXT, env=env)
    assert (session.result.status, session.result.exit_code) == ("failed", 1)
    assert session.codes() == ["CLAUDE_OVERLOADED"]
    assert "max turns, invalid api key [REDACTED" in session.result.output
    assert "invalid api key [REDACTED" in session.result.errors[0].message


@needs_shell
async def test_text_mode_with_noise_on_stderr(tmp_path: Path) -> None:
    cli = EchoCli(tmp_path, before="echo a warning of the system >&2", output="Done.\n")
    received = await cli.run(config=TEXT)
    assert received.result.status == "success", received.result.errors
    assert "a warning of the system" in received.result.output
    assert "Done." in received.result.output


SECRETS = ("success", "assistant", "tool_use", "file.txt")


@versions(NEWEST, OLDEST, *SPREAD[1:])  # 1.0.60 cannot be asked about every tool
@pytest.mark.parametrize("transport", ["print", "stdio"])
async def test_secrets_that_are_words_of_the_protocol(claude: ClaudeBench, transport: str) -> None:
    """They are masked in what is written, and what the CLI sends is read and answered as it is."""
    turns = bash("echo file.txt > file.txt"), says(f"Wrote {' '.join(SECRETS)}.")
    config = {"transport": transport}
    env = {f"SECRET_{number}_KEY": secret for number, secret in enumerate(SECRETS)}
    session = await claude.run(script(*turns), config=config, env=env)
    assert session.result.status == "success", session.result.errors
    assert (claude.workspace / "file.txt").read_text() == "file.txt\n"
    masked = "Wrote [REDACTED] [REDACTED] [REDACTED] [REDACTED]."
    assert session.log.messages[-1].content == masked
    assert [call.name for call in session.log.tool_calls] == ["Bash"]
    assert [event.text for event in session.events if isinstance(event, AssistantText)] == [masked]
    assert [secret for secret in SECRETS if secret in session.result.output] == []
