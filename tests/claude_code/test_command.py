"""From configuration to command line, option by option and version by version."""

from __future__ import annotations

import itertools
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from claude_config import parse_config
from packaging.version import Version

from invocations import invocation
from youbencha.adapters.base import parse_version
from youbencha.adapters.claude_code.command import build_command
from youbencha.adapters.cli_agent import AgentCli
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.process import Command

NEW, OLD, OLDEST = Version("2.1.325"), Version("2.0.62"), Version("1.0.128")
CLAUDE = Path("/opt/claude")
WORKSPACE, SCRATCH = Path("/work space"), Path("/scratch")
ALWAYS = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")

FLAGS_SINCE = {
    "-p": (1, 0, 0),
    "--output-format": (1, 0, 0),
    "--verbose": (1, 0, 0),
    "--debug": (1, 0, 0),
    "--model": (1, 0, 0),
    "--max-turns": (1, 0, 0),
    "--system-prompt": (1, 0, 0),
    "--append-system-prompt": (1, 0, 0),
    "--allowedTools": (1, 0, 0),
    "--disallowedTools": (1, 0, 0),
    "--mcp-config": (1, 0, 0),
    "--dangerously-skip-permissions": (1, 0, 0),
    "--permission-mode": (1, 0, 15),
    "--add-dir": (1, 0, 21),
    "--strict-mcp-config": (1, 0, 44),
    "--session-id": (1, 0, 53),
    "--include-partial-messages": (1, 0, 108),
    "--setting-sources": (1, 0, 122),
    "--agents": (1, 0, 126),
    "--agent": (2, 0, 59),
    "--effort": (2, 1, 38),
}
"""What each version has, as measured. All that this adapter may ever write on a command line is in here."""

VARIADIC = {"--allowedTools", "--disallowedTools", "--add-dir", "--mcp-config", "--debug"}
WITHOUT_VALUE = {
    "-p", "--verbose", "--debug", "--dangerously-skip-permissions", "--strict-mcp-config", "--include-partial-messages",
}  # fmt: skip


def build(
    version: Version = NEW,
    /,
    *,
    env: dict[str, str] | None = None,
    is_root: bool = False,
    prompt: str = "Do it.",
    agent_definition: str | None = None,
    command: tuple[str, ...] = (),
    scratch: Path = SCRATCH,
    **config: Any,
) -> Command:
    chosen = parse_config({"prompt": prompt, **config})
    run = invocation(chosen, AgentCli(CLAUDE, str(version), command), WORKSPACE, scratch, env or {})
    return build_command(run, agent_definition=agent_definition, is_root=is_root)


def flags(command: Command) -> tuple[str, ...]:
    """What stands between the program and the prompt, without what is always there."""
    argv = command.argv[1 : command.argv.index("-p")]
    return tuple(part for part in argv if part not in ALWAYS)


def test_the_default_command() -> None:
    command = build()
    assert command == Command(
        argv=(str(CLAUDE), *ALWAYS, "-p", "--", "Do it."), cwd=WORKSPACE, env={}, stdin=None, terminal=False
    )


ASKING = ("--permission-mode", "default")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model": "claude-sonnet-4-5-20250929"}, ("--model", "claude-sonnet-4-5-20250929")),
        ({"model": "sonnet[1m]"}, ("--model", "sonnet[1m]")),
        ({"system_prompt": "You are\n`me`"}, ("--system-prompt", "You are\n`me`")),
        ({"system_prompt": ""}, ("--system-prompt", "")),
        ({"append_system_prompt": "-x"}, ("--append-system-prompt", "-x")),
        ({"allowed_tools": ["Read", "Bash(a b:*)"]}, (*ASKING, "--allowedTools", "Read,Bash(a b:*)")),
        ({"allowed_tools": []}, ASKING),
        ({"setting_sources": []}, ("--setting-sources", "")),
        ({"setting_sources": ["user", "local"]}, ("--setting-sources", "user,local")),
        ({"disallowed_tools": ["WebFetch", "Bash"]}, ("--disallowedTools", "WebFetch,Bash")),
        ({"max_turns": 3}, ("--max-turns", "3")),
        ({"effort": "high"}, ("--effort", "high")),
        ({"mcp_config": "mcp.json"}, ("--mcp-config", "mcp.json", "--strict-mcp-config")),
        ({"include_partial_messages": True}, ("--include-partial-messages",)),
        ({"extra_args": ["--foo", "bar"]}, ("--foo", "bar")),
        ({"max_tokens": 5, "temperature": 0.5}, ()),
        ({"pty": "auto"}, ()),
        ({"slash_commands": True}, ()),
        ({"version": "2.1.325", "executable": "/opt/claude"}, ()),
    ],
)
def test_each_option(config: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert flags(build(**config)) == expected


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (None, ("--dangerously-skip-permissions",)),
        ("ask", ("--permission-mode", "default")),
        ("plan", ("--permission-mode", "plan")),
        ("acceptEdits", ("--permission-mode", "acceptEdits")),
        ("bypassPermissions", ("--permission-mode", "bypassPermissions")),
        ("auto", ("--permission-mode", "auto")),
    ],
)
def test_permission_modes(mode: str | None, expected: tuple[str, ...]) -> None:
    argv = build(permission_mode=mode).argv
    assert argv[argv.index("--verbose") + 1 : argv.index("-p")] == expected


def test_text_output() -> None:
    assert build(output_format="text", include_partial_messages=True).argv == (
        str(CLAUDE), "--output-format", "text", "--dangerously-skip-permissions",
        "--debug", "--session-id", str(uuid.uuid5(uuid.NAMESPACE_URL, SCRATCH.as_uri())), "-p", "--", "Do it.",
    )  # fmt: skip


def test_an_agent_is_defined_and_selected() -> None:
    command = build(agent_name="reviewer", agent_definition='{"reviewer": {}}')
    assert flags(command) == ("--agents", '{"reviewer": {}}', "--agent", "reviewer")


def test_a_cli_started_by_an_interpreter() -> None:
    assert build(command=("node", "claude.js")).argv[:3] == ("node", "claude.js", "--output-format")


@pytest.mark.parametrize("pty", ["auto", "never", "always"])
def test_a_terminal_only_on_request(pty: str) -> None:
    assert build(pty=pty).terminal is (pty == "always")


# -- the prompt --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["-v", "--help", "--", "-p", "a 'b' \"c\" `d` $(e) \\ \n é 漢 🙂", " "])
def test_the_prompt_is_the_last_argument(text: str) -> None:
    argv = build(prompt=text, allowed_tools=["Bash"], extra_args=["--add-dir", "a"]).argv
    assert argv[-3:] == ("-p", "--", text)


def test_prompt_on_stdin() -> None:
    command = build(prompt="é\0🙂", prompt_delivery="stdin")
    assert command.stdin == "é\0🙂".encode()
    assert command.argv[-1] == "-p"
    assert "--" not in command.argv


def test_a_prompt_in_a_file(tmp_path: Path) -> None:
    command = build(prompt="secret task", prompt_delivery="file", scratch=tmp_path)
    assert command.stdin is None
    assert flags(command) == ("--add-dir", str(tmp_path))
    assert command.argv[-3:-1] == ("-p", "--")
    assert str(tmp_path / "prompt.md") in command.argv[-1]
    assert (tmp_path / "prompt.md").read_text() == "secret task"
    assert "secret task" not in " ".join(command.argv)


# -- the environment ---------------------------------------------------------------------------------------------


def test_options_without_a_flag_are_set_in_the_environment() -> None:
    env = build(max_tokens=4096, temperature=0.3, env={"A": "b"}).env
    assert set(env) == {"A", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_EXTRA_BODY"}
    assert env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4096"
    assert json.loads(env["CLAUDE_CODE_EXTRA_BODY"])["temperature"] == 0.3


def test_a_temperature_of_zero_is_set() -> None:
    assert json.loads(build(temperature=0).env["CLAUDE_CODE_EXTRA_BODY"])["temperature"] == 0


def test_the_test_cases_environment_wins() -> None:
    given = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "1", "CLAUDE_CODE_EXTRA_BODY": "{}"}
    assert build(max_tokens=4096, temperature=0.3, env=given).env == given


def test_nothing_secret_is_on_the_command_line() -> None:
    """Everybody on the machine can read arguments."""
    command = build(env={"ANTHROPIC_API_KEY": "sk-ant-secret"})
    assert "sk-ant-secret" not in " ".join(command.argv)


# -- versions ----------------------------------------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [
    {"model": "opus"},
    {"system_prompt": "s", "append_system_prompt": "a"},
    {"allowed_tools": ["Read"], "disallowed_tools": ["Bash"]},
    {"max_turns": 1},
    {"mcp_config": "m"},
    {"include_partial_messages": True},
    {"effort": "low"},
    {"agent_name": "a"},
    {"permission_mode": "plan"},
    {"output_format": "text"},
    {"setting_sources": ["user"]},
    {"max_tokens": 1, "temperature": 1},
]


@pytest.mark.parametrize(
    "version", [*map(parse_version, ("1.0.0", "1.0.24", "1.0.60", "2.1.30", "2.1.197")), OLDEST, OLD, NEW], ids=str
)
@pytest.mark.parametrize("delivery", ["argument", "stdin", "file"])
def test_no_version_gets_an_unknown_flag(version: Version, delivery: Any, tmp_path: Path) -> None:
    for first, second in itertools.combinations(OPTIONS, 2):
        options = {**first, **second}
        definition = '{"a": {}}' if "agent_name" in options else None
        given = {"prompt": "-x", "prompt_delivery": delivery, "agent_definition": definition, "scratch": tmp_path}
        try:
            command = build(version, **given, **options)
        except ConfigError:
            continue  # refused with a word, which is as good
        check_line(command.argv[1:], version)


def check_line(argv: tuple[str, ...], version: Version) -> None:
    """Read the line as the CLI would: known flags, each with its value, and the prompt last."""
    rest = list(argv)
    before = ""
    while rest:
        flag = rest.pop(0)
        if flag == "--":
            assert before == "-p", f"{before} would swallow the prompt"
            assert len(rest) == 1
            return
        assert flag in FLAGS_SINCE, f"{flag} is unknown"
        since = Version(".".join(map(str, FLAGS_SINCE[flag])))
        assert version >= since, f"{flag} came with {since}"
        if flag not in WITHOUT_VALUE:
            rest.pop(0)
        if flag in VARIADIC and rest:
            assert rest[0].startswith("-"), f"{flag} would swallow {rest[0]}"
        before = flag
    assert before == "-p"


@pytest.mark.parametrize("version", [OLDEST, OLD, NEW], ids=str)
def test_stream_json_always_comes_with_verbose(version: Version) -> None:
    for options in OPTIONS:
        try:
            argv = build(version, agent_definition="{}", **options).argv
        except ConfigError:
            continue
        assert ("stream-json" in argv) is ("--verbose" in argv)


@pytest.mark.parametrize(("patch", "wanted"), [(76, True), (77, False)])
def test_debug_is_enabled_for_versions_that_do_not_report_retries(patch: int, wanted: bool) -> None:
    assert ("--debug" in build(Version(f"2.1.{patch}")).argv) is wanted


@pytest.mark.parametrize(("patch", "wanted"), [(121, False), (122, True)])
def test_in_text_mode_the_debug_log_is_never_in_the_answer(patch: int, wanted: bool) -> None:
    assert ("--debug" in build(Version(f"1.0.{patch}"), output_format="text").argv) is wanted


@pytest.mark.parametrize(
    ("version", "options", "path", "words"),
    [
        ("1.0.14", {"permission_mode": "plan"}, "permission_mode", "1.0.15 or later"),
        ("1.0.20", {"prompt_delivery": "file"}, "prompt_delivery", "1.0.21 or later"),
        ("1.0.43", {"mcp_config": "{}"}, "mcp_config", "1.0.44 or later"),
        ("1.0.121", {"setting_sources": ["user"]}, "setting_sources", "1.0.122 or later"),
        ("1.0.107", {"include_partial_messages": True}, "include_partial_messages", "1.0.108 or later"),
        ("2.1.37", {"effort": "low"}, "effort", "2.1.38 or later"),
        ("2.1.8", {"agent_name": "a"}, "agent_name", "2.1.9 or later"),
        ("2.0.43", {"permission_mode": "dontAsk"}, "permission_mode", "it has acceptEdits, bypassPermissions"),
        ("1.0.128", {"permission_mode": "auto"}, "permission_mode", "has no mode 'auto'"),
        ("2.1.197", {"permission_mode": "manual"}, "permission_mode", "has no mode 'manual'"),
    ],
)
def test_unsupported_options_are_refused(
    version: str, options: dict[str, Any], path: str, words: str, tmp_path: Path
) -> None:
    parsed = parse_version(version)
    assert parsed
    with pytest.raises(ConfigError) as caught:
        build(parsed, agent_definition="{}", **options)
    (only,) = caught.value.problems
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert only.path == path
    assert f"Claude Code {version} has no" in only.message
    assert words in str(only)
    later = Version(f"{parsed.major}.{parsed.minor}.{parsed.micro + 1}")
    if "or later" in words:
        build(later, agent_definition="{}", scratch=tmp_path, **options)


def test_all_unsupported_options_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        build(Version("1.0.0"), agent_name="a", effort="low", include_partial_messages=True, permission_mode="auto")
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"agent_name", "effort", "include_partial_messages", "permission_mode"}


def test_every_version_supports_ask() -> None:
    assert "default" in build(OLDEST, permission_mode="ask").argv


# -- root --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [None, "bypassPermissions"])
def test_root_is_refused_without_a_sandbox(mode: str | None) -> None:
    for env in ({}, {"IS_SANDBOX": ""}):
        with pytest.raises(YouBenchaError) as caught:
            build(is_root=True, permission_mode=mode, env=env)
        assert caught.value.code == "CLAUDE_ROOT_REFUSED"
        assert "IS_SANDBOX" in (caught.value.hint or "")
        assert "normal user" in (caught.value.hint or "")


@pytest.mark.parametrize("mode", [None, "bypassPermissions"])
def test_root_in_a_sandbox(mode: str | None) -> None:
    command = build(is_root=True, permission_mode=mode, env={"IS_SANDBOX": "1"})
    assert command.env == {"IS_SANDBOX": "1"}


@pytest.mark.parametrize("mode", ["plan", "ask", "acceptEdits"])
def test_root_may_use_modes_that_ask(mode: str) -> None:
    assert "--permission-mode" in build(is_root=True, permission_mode=mode).argv


def test_versions_that_cannot_bypass_permissions_as_root() -> None:
    with pytest.raises(ConfigError, match="has no bypassing permissions as root"):
        build(Version("1.0.43"), is_root=True, env={"IS_SANDBOX": "1"})
    build(Version("1.0.44"), is_root=True, env={"IS_SANDBOX": "1"})
    build(Version("1.0.43"), is_root=False)
