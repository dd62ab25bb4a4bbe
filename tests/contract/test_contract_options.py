"""CR-2.6, CR-2.7, CR-2.11, FR-008, FR-009, US-5: what a test case sets is what the CLI does, and the model is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shared_session import Shared, shared
from wrapped_cli import argv_of, offered_tools, recorded, system_of

from agent_clis import NEWEST, OLD, OLDEST, SPREAD
from claude_bench import API_KEY, ClaudeBench, Session, bash, full, says, script, uses, versions
from echo_cli import EchoCli, needs_shell
from youbencha.errors import ConfigError
from youbencha.events import ToolDenied
from youbencha.sandbox.toolbox.installed import InstalledAgent

MODEL = "claude-sonnet-4-5-20250929"
OWN_WORDS = 'Speak like a pirate (PIRATE-7f3a), "quoted" and $UNQUOTED.\n- and a list'
SECRET = "swordfish-0123456789abcdef"
HARNESS = {
    "CLAUDECODE": "harness-1",
    "CLAUDE_CODE_ENTRYPOINT": "harness-2",
    "CLAUDE_CODE_SSE_PORT": "harness-3",
    "GITHUB_TOKEN": "harness-4-ghp-0123456789",
    "ANTHROPIC_MODEL": "claude-harness-5",
    "NODE_OPTIONS": "--title=harness-6",
}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}
ALL_TURNS = (
    uses("AskUserQuestion", questions=[QUESTION]),
    bash("env; touch touched.txt"),
    bash('echo "key=$ANTHROPIC_API_KEY token=$SERVICE_TOKEN"'),
    uses("Write", file_path="${workspace}/written.txt", content="hello\n"),
    says(f"The token is {SECRET}."),
)


# -- one session with many options -------------------------------------------------------------------------------


async def with_many_options(claude: ClaudeBench) -> Session:
    claude.harness_env |= HARNESS
    config = {
        "executable": recorded(claude),
        "model": MODEL,
        "max_tokens": 4321,
        "temperature": 0.25,
        "append_system_prompt": OWN_WORDS,
        "disallowed_tools": ["Write", "WebFetch"],
        "permission_mode": "bypassPermissions",
    }
    env = {"GIVEN": "by the test case", "SERVICE_TOKEN": SECRET}
    return await claude.run(script(*ALL_TURNS), config=config, env=env)


@pytest.fixture
async def many(claude_cli: InstalledAgent, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    done = await shared(with_many_options, claude_cli, tmp_path_factory)
    assert done.session.result.status == "success", done.session.result.errors
    return done


def test_cr_2_6_fr_009_the_model_is_the_one_on_the_wire(many: Shared) -> None:
    argv = argv_of(many.claude)
    assert argv[argv.index("--model") + 1] == MODEL
    assert {request.body["model"] for request in many.session.main_requests} == {MODEL}
    assert many.session.log.model_info.name == MODEL


def test_us_5_max_tokens_and_temperature_are_in_the_request(many: Shared) -> None:
    """The CLI has no flags for them."""
    body = many.session.main_requests[0].body
    assert body["max_tokens"] == 4321
    assert body["temperature"] == 0.25
    assert body["thinking"] == {"type": "disabled"}  # the API takes no other temperature than 1 with thinking
    assert not {"--max-tokens", "--temperature", "4321", "0.25"} & set(argv_of(many.claude))


def test_us_5_1_append_system_prompt_is_added_to_the_clis_own(many: Shared) -> None:
    system = system_of(many.session.main_requests[0])
    assert OWN_WORDS in system
    assert len(system) > len(OWN_WORDS) + 2_000  # the CLI's own is still there


def test_us_5_a_disallowed_tool_is_not_offered_and_does_not_run(many: Shared) -> None:
    assert not {"Write", "WebFetch"} & offered_tools(many.session.main_requests[0])
    assert "Read" in offered_tools(many.session.main_requests[0])
    assert not (many.claude.workspace / "written.txt").exists()


def test_us_5_with_all_allowed_the_tool_runs(many: Shared) -> None:
    assert (many.claude.workspace / "touched.txt").exists()
    denied = [event.name for event in many.session.events if isinstance(event, ToolDenied)]
    assert "Bash" not in denied  # 2.1.61 denies the question


def test_a_question_that_cannot_be_answered_does_not_hang(many: Shared) -> None:
    """Edge case of seed 001."""
    assert len(many.session.main_requests) == len(ALL_TURNS)
    assert [m.content for m in many.session.log.messages if m.role == "assistant"][-1].startswith("The token is")


def test_cr_2_11_the_harness_own_variables_do_not_reach_the_agent(many: Shared) -> None:
    printed = many.session.log.tool_calls[1].result
    assert printed is not None
    assert "GIVEN=by the test case" in printed
    assert "harness-" not in printed
    assert "GITHUB_TOKEN" not in printed


def test_secrets_that_the_agent_prints_are_masked_everywhere(many: Shared) -> None:
    session = many.session
    assert session.result.log_file is not None
    # It did print them: the model got them.
    assert SECRET in str(session.main_requests[-1].body["messages"])
    written = {
        "output": session.result.output,
        "log file": session.result.log_file.read_text(encoding="utf-8"),
        "log": session.log.model_dump_json(),
        "details": str(session.result.details),
        "events": str(session.events),
    }
    for secret in (SECRET, API_KEY):
        assert [where for where, text in written.items() if secret in text] == []
    assert "The token is" in session.result.output


# -- a custom system prompt, and a repository's settings --------------------------------------------------------


SETTINGS = {
    "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
    "model": "claude-evil-1",
    "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch HOOKED"}]}]},
}


async def with_own_system_prompt(claude: ClaudeBench) -> Session:
    (claude.workspace / ".claude").mkdir()
    (claude.workspace / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
    return await claude.run(script(says("Arr.")), config={"system_prompt": OWN_WORDS, "setting_sources": ["user"]})


@pytest.fixture
async def pirate(claude_cli: InstalledAgent, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    done = await shared(with_own_system_prompt, claude_cli, tmp_path_factory)
    assert done.session.result.status == "success", done.session.result.errors
    return done


@versions(NEWEST, OLDEST, *SPREAD[1:])  # 1.0.60 has no --setting-sources
def test_us_5_system_prompt_replaces_the_clis_own(pirate: Shared, many: Shared) -> None:
    system = system_of(pirate.session.main_requests[0])
    assert OWN_WORDS in system
    assert len(system) < len(system_of(many.session.main_requests[0])) / 2


@versions(NEWEST, OLDEST, *SPREAD[1:])
def test_a_repositorys_own_settings_can_be_kept_out(pirate: Shared) -> None:
    """With `setting_sources: [user]`."""
    assert pirate.session.main_requests
    assert pirate.session.log.model_info.name != "claude-evil-1"
    assert not (pirate.claude.workspace / "HOOKED").exists()


# -- custom agents -----------------------------------------------------------------------------------------------


AGENT = """---
name: code-reviewer
description: Reviews code
model: claude-haiku-4-5-20251001
tools: Read, Grep
---
You are REVIEWER-7f3a. You look, and never touch.
"""


def define(directory: Path, definition: str = AGENT) -> None:
    agents = directory / ".claude" / "agents"
    agents.mkdir(parents=True)
    (agents / "code-reviewer.md").write_text(definition)


@versions(NEWEST)  # the older ones are refused, see below
async def test_cr_2_7_fr_008_the_agents_prompt_and_model_are_on_the_wire(claude: ClaudeBench) -> None:
    define(claude.workspace)
    session = await claude.run(script(says("Reviewed.")), config={"agent_name": "code-reviewer"})
    assert session.result.status == "success", session.result.errors
    request = session.main_requests[0]
    assert "REVIEWER-7f3a" in system_of(request)
    assert request.body["model"] == "claude-haiku-4-5-20251001"


@versions(NEWEST)
async def test_an_agent_without_tools_is_a_warning(claude: ClaudeBench) -> None:
    """The definition names another agent's tools: the CLI silently works without any."""
    define(claude.workspace, AGENT.replace("Read, Grep", "read, search"))
    session = await claude.run(script(says("Reviewed.")), config={"agent_name": "code-reviewer"})
    assert session.result.status == "success", session.result.errors
    assert session.warning_codes() == ["CLAUDE_NO_TOOLS"]


@versions(NEWEST, full(OLD))
async def test_allowed_tools_that_do_not_exist_are_a_warning(claude: ClaudeBench) -> None:
    session = await claude.run(script(says("Done.")), config={"allowed_tools": ["read", "search"]})
    assert session.warning_codes() == ["CLAUDE_NO_TOOLS"]


@needs_shell
async def test_cr_2_7_fr_008_a_users_agent_is_passed_too(tmp_path: Path) -> None:
    cli = EchoCli(tmp_path)
    define(cli.home)
    argv = (await cli.run(config={"agent_name": "code-reviewer"})).argv
    assert argv[argv.index("--agent") + 1] == "code-reviewer"
    definition = json.loads(argv[argv.index("--agents") + 1])["code-reviewer"]
    assert "REVIEWER-7f3a" in definition["prompt"]
    assert (definition["model"], definition["tools"]) == ("claude-haiku-4-5-20251001", ["Read", "Grep"])


@needs_shell
async def test_us_2_3_unset_options_are_not_passed(tmp_path: Path) -> None:
    argv = (await EchoCli(tmp_path).run()).argv
    assert not {"--model", "--agent", "--agents"} & set(argv)


# -- refusals: the CLI is asked for its version only -------------------------------------------------------------


async def refused(cli: EchoCli, **config: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        await cli.run(config=config)
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert not cli.was_started
    return str(caught.value)


@needs_shell
@pytest.mark.parametrize("version", ["2.0.62", "1.0.128"])
async def test_cr_2_7_a_cli_without_agents_is_refused_with_the_version_needed(tmp_path: Path, version: str) -> None:
    """2.0.62 has a flag of that name, but takes only the model from the definition."""
    cli = EchoCli(tmp_path, version=version)
    define(cli.home)
    assert "2.1.9 or later" in await refused(cli, agent_name="code-reviewer")


@needs_shell
async def test_cr_2_7_an_undefined_agent_is_an_error_that_names_the_places(tmp_path: Path) -> None:
    cli = EchoCli(tmp_path)
    message = await refused(cli, agent_name="no-such-agent")
    for place in (".claude/agents of the repository", str(cli.home / ".claude" / "agents")):
        assert place in message


@needs_shell
@pytest.mark.parametrize("version", ["2.0.62", "1.0.128"])
async def test_us_5_auto_is_refused_where_the_cli_does_not_have_it(tmp_path: Path, version: str) -> None:
    message = await refused(EchoCli(tmp_path, version=version), permission_mode="auto")
    assert f"Claude Code {version} has no mode 'auto'" in message


# -- permissions -------------------------------------------------------------------------------------------------


@needs_shell
async def test_us_5_auto_is_passed_on_where_the_cli_has_it(tmp_path: Path) -> None:
    argv = (await EchoCli(tmp_path).run(config={"permission_mode": "auto"})).argv
    assert argv[argv.index("--permission-mode") + 1] == "auto"


@pytest.mark.full
@versions(NEWEST)  # the others do not have this mode
async def test_us_5_auto_is_accepted_by_the_cli(claude: ClaudeBench) -> None:
    session = await claude.run(script(says("Nothing to do.")), config={"permission_mode": "auto"})
    assert session.result.status == "success", session.result.errors


@pytest.mark.parametrize("mode", [pytest.param("plan", marks=pytest.mark.full), "ask"])
async def test_us_5_2_a_denied_tool_is_a_warning_and_nothing_is_written(claude: ClaudeBench, mode: str) -> None:
    """A run in which nothing was allowed must not look like one in which all went well."""
    turns = (
        bash("touch touched.txt"),  # not `echo > file`: 2.0.62 lets that pass in every mode
        uses("Write", file_path="${workspace}/written.txt", content="hello\n"),
        says("I could not."),
    )
    session = await claude.run(script(*turns), config={"permission_mode": mode})
    assert not list(claude.workspace.glob("*.txt"))
    assert session.result.status == "success", session.result.errors
    assert "CLAUDE_TOOL_DENIED" in session.warning_codes()
    warning = next(w for w in session.result.warnings if w.code == "CLAUDE_TOOL_DENIED")
    assert warning.context["tools"] == {"Bash": 1, "Write": 1}
    # In 2.1.61, the result of the first does not say that it was denied, but the end of the session does.
    assert sorted(event.name for event in session.events if isinstance(event, ToolDenied)) == ["Bash", "Write"]
    assert "CLAUDE_TOOL_DENIED" in [w.code for w in session.log.warnings]


@pytest.mark.parametrize(
    "how",
    [
        {},
        pytest.param({"permission_mode": "default"}, marks=pytest.mark.full),
        pytest.param({"permission_mode": "ask"}, marks=pytest.mark.full),
        {"transport": "stdio"},
    ],
    ids=str,
)
# 1.0.60 cannot be asked about every tool, and 2.1.61 does not let a rule allow `touch`.
@versions(NEWEST, full(OLD), OLDEST, *(version for version in SPREAD if version not in ("1.0.60", "2.1.61")))
async def test_us_5_3_only_allowed_tools_run_without_asking(claude: ClaudeBench, how: dict[str, str]) -> None:
    """A whole tool, and a rule that allows what it names."""
    turns = (
        uses("Write", file_path="${workspace}/written.txt", content="hello\n"),
        bash("touch named"),
        bash("mkdir other"),
        says("Done."),
    )
    config = {**how, "allowed_tools": ["Write", "Bash(touch:*)"]}
    session = await claude.run(script(*turns), config=config)
    assert session.result.status == "success", session.result.errors
    assert sorted(path.name for path in claude.workspace.iterdir()) == ["named", "written.txt"]
    warning = next(w for w in session.result.warnings if w.code == "CLAUDE_TOOL_DENIED")
    assert warning.context["tools"] == {"Bash": 1}


@pytest.mark.parametrize(
    ("sources", "run"),
    [
        ([], False),
        pytest.param(["user"], False, marks=pytest.mark.full),  # as in the session above
        pytest.param(["project"], True, marks=pytest.mark.full),
        (None, True),
    ],
)
@versions(NEWEST, full(OLD), OLDEST, *SPREAD[1:])
async def test_whose_hooks_run(claude: ClaudeBench, sources: list[str] | None, run: bool) -> None:
    hook = {"hooks": [{"type": "command", "command": f"touch '{claude.workspace}/hooked'"}]}
    (claude.workspace / ".claude").mkdir()
    (claude.workspace / ".claude/settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    session = await claude.run(script(says("Done.")), config={"setting_sources": sources})
    assert session.result.status == "success", session.result.errors
    assert (claude.workspace / "hooked").exists() == run
