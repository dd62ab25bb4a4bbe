"""ClaudeCodeConfig: every rule and limit, on both sides of its boundary, and the error messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from claude_config import parse_config
from pydantic import ValidationError

from youbencha.adapters import AgentExecutionContext
from youbencha.adapters.claude_code import ClaudeCodeAdapter, ClaudeCodeConfig
from youbencha.errors import ConfigError, Problem

ACCEPTED: list[tuple[str, Any]] = [
    ("prompt", "x"),
    ("prompt", "x" * 1_000_000),
    ("prompt", "漢🙂" * 500_000),
    ("prompt_file", "p"),
    ("prompt_file", "p" * 500),
    ("agent_name", "a"),
    ("agent_name", "Code-Reviewer_2"),
    ("agent_name", "a" * 100),
    ("model", "claude-sonnet-4-5-20250929"),
    ("model", "claude-3.5_x"),
    ("model", "sonnet"),
    ("model", "opus"),
    ("model", "haiku"),
    ("model", "default"),
    ("model", "opusplan"),
    ("model", "sonnet[1m]"),
    ("model", "claude-opus-4-1[1m]"),
    ("append_system_prompt", ""),
    ("append_system_prompt", "x" * 10_000),
    ("system_prompt", ""),
    ("system_prompt", "x" * 50_000),
    ("system_prompt", "漢" * 43_690),
    ("mcp_config", "x" * 131_071),
    *[
        ("permission_mode", mode)
        for mode in ("auto", "plan", "ask", "default", "acceptEdits", "bypassPermissions", "dontAsk", "manual")
    ],
    ("allowed_tools", []),
    ("allowed_tools", ["Read", "mcp__server__tool", "read-file", "Bash(git log:*)", "Bash(echo (a) b)"]),
    ("allowed_tools", ("Read",)),
    ("allowed_tools", ["T" * 1000]),
    ("disallowed_tools", ["WebFetch", "Bash(rm *)"]),
    ("max_tokens", 1),
    ("max_tokens", 200_000),
    ("temperature", 0),
    ("temperature", 0.0),
    ("temperature", 0.5),
    ("temperature", 1),
    ("temperature", 1.0),
    ("max_turns", 1),
    ("effort", "low"),
    ("effort", "max"),
    ("mcp_config", '{"mcpServers": {}}'),
    ("output_format", "text"),
    ("output_format", "stream-json"),
    ("include_partial_messages", True),
    ("pty", "always"),
    ("prompt_delivery", "file"),
    ("version", "2.1.197"),
    ("executable", "./claude"),
    ("slash_commands", True),
    ("extra_args", ["--foo", ""]),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("prompt", "", "must not be empty"),
    ("prompt", "x" * 1_000_001, "at most 1,000,000 characters"),
    ("prompt", 5, "must be text, not a number (put it in quotes)"),
    ("prompt", True, "must be text, not true or false"),
    ("prompt", ["x"], "must be text, not a list"),
    ("prompt", b"x", "must be text"),
    ("prompt", "half a pair \ud800", "not valid Unicode"),
    ("prompt_file", "", "must not be empty"),
    ("prompt_file", "p" * 501, "at most 500 characters"),
    ("prompt_file", {"a": 1}, "must be text, not a mapping"),
    ("agent_name", "", "letters, digits, hyphens and underscores"),
    ("agent_name", "a" * 101, "at most 100 characters"),
    ("agent_name", "a b", "letters, digits"),
    ("agent_name", "a/../b", "letters, digits"),
    ("agent_name", "abc\n", "letters, digits"),
    ("agent_name", "é", "letters, digits"),
    ("model", "gpt-5", "must be claude-… or an alias"),
    ("model", "gpt-5", "set ANTHROPIC_MODEL in agent.env"),
    ("model", "", "must be claude-…"),
    ("model", "claude-", "must be claude-…"),
    ("model", "claude-x\n", "must be claude-…"),
    ("model", "claude-x y", "must be claude-…"),
    ("model", "Sonnet", "must be claude-…"),
    ("model", "sonnet-4", "must be claude-…"),
    ("model", "sonnet[2m]", "must be claude-…"),
    ("model", "sonnet[1m][1m]", "must be claude-…"),
    ("model", "--help", "must be claude-…"),
    ("append_system_prompt", "x" * 10_001, "at most 10,000 characters"),
    ("append_system_prompt", "a\0b", "NUL"),
    ("system_prompt", "x" * 50_001, "at most 50,000 characters"),
    ("system_prompt", "a\0b", "NUL"),
    ("system_prompt", "漢" * 43_691, "at most 131,071 bytes"),
    ("mcp_config", "x" * 131_072, "at most 131,071 bytes"),
    ("permission_mode", "", "must be one of 'auto'"),
    ("permission_mode", "acceptedits", "did you mean 'acceptEdits'?"),
    ("permission_mode", 1, "must be one of 'auto'"),
    ("allowed_tools", "Read", "must be a list, not text"),
    ("allowed_tools", {"Read": 1}, "must be a list, not a mapping"),
    ("allowed_tools", ["Read", ""], "must be a tool (Read) or a tool with a rule"),
    ("allowed_tools", ["Read Write"], "must be a tool"),
    ("allowed_tools", ["Read,Write"], "must be a tool"),
    ("allowed_tools", ["Bash("], "must be a tool"),
    ("allowed_tools", ["Bash(a\nb)"], "must be a tool"),
    ("allowed_tools", ["Bash(a)\n"], "must be a tool"),
    ("allowed_tools", ["Bash(\0)"], "must be a tool"),
    ("allowed_tools", [5], "must be text"),
    ("allowed_tools", ["T" * 1001], "at most 1,000 characters"),
    ("disallowed_tools", ["a b"], "must be a tool"),
    ("max_tokens", 0, "must be more than 0"),
    ("max_tokens", -1, "must be more than 0"),
    ("max_tokens", 200_001, "must be at most 200,000"),
    ("max_tokens", True, "must be a whole number, not true or false"),
    ("max_tokens", 1.0, "must be a whole number"),
    ("max_tokens", "100", "must be a whole number, not text"),
    ("temperature", -0.01, "must be at least 0"),
    ("temperature", 1.01, "must be at most 1"),
    ("temperature", 2, "must be at most 1"),
    ("temperature", True, "must be a number, not true or false"),
    ("temperature", "0.5", "must be a number, not text"),
    ("temperature", float("nan"), "must be"),
    ("temperature", float("inf"), "must be at most 1"),
    ("max_turns", 0, "must be more than 0"),
    ("effort", "medum", "did you mean 'medium'?"),
    ("output_format", "json", "must be 'stream-json' or 'text'"),
    ("include_partial_messages", "yes", "must be true or false"),
    ("include_partial_messages", 1, "must be true or false"),
    ("pty", True, "must be one of 'auto'"),
    ("version", "2.1", "must be a whole version, such as 2.1.197"),
    ("version", "2.1.197\n", "must be a whole version"),
    ("version", 2.1, "must be text"),
    ("executable", "a\0b", "NUL"),
    ("extra_args", "--foo", "must be a list, not text"),
    ("extra_args", [1], "must be text"),
    ("extra_args", ["a\0b"], "NUL"),
]


def config_with(key: str, value: Any) -> dict[str, Any]:
    return {key: value} if key in ("prompt", "prompt_file") else {"prompt": "x", key: value}


def problems(raw: dict[Any, Any]) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(raw)
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    return caught.value.problems


def short(value: object) -> str:
    return ascii(value)[:40]


@pytest.mark.parametrize(("key", "value"), ACCEPTED, ids=short)
def test_accepted_values_are_kept(key: str, value: Any) -> None:
    kept = getattr(parse_config(config_with(key, value)), key)
    assert kept == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(("key", "value", "words"), REFUSED, ids=short)
def test_refused_values_are_named_with_a_reason(key: str, value: Any, words: str) -> None:
    found = problems(config_with(key, value))
    # One mistake is one problem: a prompt of the wrong kind is not missing besides.
    assert len(found) == 1
    assert found[0].path.partition(".")[0] == key
    assert words in str(found[0])


def test_messages_show_no_regular_expression() -> None:
    """A person should never have to read a regular expression."""
    for key, value, _ in REFUSED:
        for problem in problems(config_with(key, value)):
            assert not re.search(r"\\[wdZ]|\(\?|\]\+", str(problem)), problem


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        ({}, "prompt", "neither was given"),
        ({"prompt": None}, "prompt", "neither was given"),
        ({"prompt": "a", "prompt_file": "b"}, "prompt_file", "both were given"),
    ],
)
def test_exactly_one_prompt_is_required(raw: dict[str, Any], path: str, words: str) -> None:
    (only,) = problems(raw)
    assert only.path == path
    assert only.message == f"exactly one of prompt or prompt_file must be provided; {words}"


def test_null_means_not_set() -> None:
    assert parse_config({"prompt": None, "prompt_file": "p.md", "model": None}).prompt_file == "p.md"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("promt", "prompt"),
        ("prompt-file", "prompt_file"),
        ("maxTokens", "max_tokens"),
        ("Model", "model"),
        ("allowedTools", "allowed_tools"),
        ("temprature", "temperature"),
        ("agent", "agent_name"),
    ],
)
def test_an_unknown_key_suggests_the_nearest(key: str, near: str) -> None:
    found = problems({**({} if near.startswith("prompt") else {"prompt": "x"}), key: "claude-x"})
    assert [(p.path, p.message, p.hint) for p in found] == [(key, "unknown key", f"did you mean '{near}'?")]


def test_an_unknown_key_without_a_suggestion() -> None:
    (only,) = problems({"prompt": "x", "zzzzqqqq": 1})
    assert (only.path, only.message) == ("zzzzqqqq", "unknown key")


def test_a_key_that_is_not_text() -> None:
    (only,) = problems({"prompt": "x", 5: 6})
    assert only.message == "a key must be text"


def test_all_problems_are_reported_together() -> None:
    raw = {
        "prompt": "a",
        "prompt_file": "b",
        "model": "gpt-5",
        "max_tokens": 0,
        "temperature": 2,
        "allowed_tools": ["Read", "a b", 5],
        "permission_mode": "never",
        "tempperature": 1,
    }
    with pytest.raises(ConfigError) as caught:
        parse_config(raw)
    assert sorted(problem.path for problem in caught.value.problems) == [
        "allowed_tools.1",
        "allowed_tools.2",
        "max_tokens",
        "model",
        "permission_mode",
        "prompt_file",
        "temperature",
        "tempperature",
    ]
    lines = str(caught.value).splitlines()
    assert lines[0] == "The Claude Code configuration has 8 problems:"
    assert len(lines) == 9
    assert all(line.startswith("  - ") for line in lines[1:])


def test_a_missing_prompt_is_reported_with_other_problems() -> None:
    assert [problem.path for problem in problems({"max_tokens": 0})] == ["max_tokens", "prompt"]


def test_values_are_never_quoted() -> None:
    """What stands in the wrong place may be a secret."""
    secret = "sk-ant-very-secret-value"
    for key in ClaudeCodeConfig.model_fields:
        if key in ("prompt", "prompt_file", "system_prompt", "append_system_prompt", "mcp_config", "executable"):
            continue
        for value in (secret, secret + " ", [secret + " "]):
            said = ""
            try:
                parse_config(config_with(key, value))
            except ConfigError as error:
                said = str(error)
            assert secret not in said


def test_the_configuration_is_immutable() -> None:
    config = parse_config({"prompt": "x", "allowed_tools": ["Read"]})
    with pytest.raises(ValidationError):
        config.prompt = "y"
    assert isinstance(config.allowed_tools, tuple)


def test_later_changes_of_the_input_have_no_effect() -> None:
    tools = ["Read"]
    config = parse_config({"prompt": "x", "allowed_tools": tools})
    tools.append("Bash")
    assert config.allowed_tools == ("Read",)


def test_defaults() -> None:
    given = parse_config({"prompt": "x"}).model_dump()
    assert {key: value for key, value in given.items() if value is not None} == {
        "prompt": "x",
        "output_format": "stream-json",
        "include_partial_messages": False,
        "pty": "auto",
        "prompt_delivery": "auto",
        "transport": "auto",
        "silence_timeout_s": 300.0,
        "exit_grace_s": 30.0,
        "slash_commands": False,
        "extra_args": (),
    }


def test_schema_patterns_are_valid_in_javascript() -> None:
    """JSON Schema's patterns are JavaScript's, where `\\Z` is the letter Z."""
    text = str(ClaudeCodeConfig.model_json_schema())
    assert "'pattern': " in text
    assert "\\\\Z" not in text
    assert "(?" not in text


@pytest.mark.parametrize(
    "given", [["hello"], ["--"], ["-p", "x"], ["--x", "1", "--print"], ["--model=opus"], ["--version"]]
)
def test_extra_arguments_cannot_replace_the_prompt_or_an_option(given: list[str]) -> None:
    with pytest.raises(ConfigError, match="extra_args"):
        parse_config({"prompt": "x", "extra_args": given})


def test_extra_arguments_of_other_flags() -> None:
    given = ["--fallback-model", "haiku", "--settings={}"]
    assert parse_config({"prompt": "x", "extra_args": given}).extra_args == tuple(given)


def test_setting_sources() -> None:
    assert parse_config({"prompt": "x", "setting_sources": ["user"]}).setting_sources == ("user",)
    with pytest.raises(ConfigError, match="setting_sources"):
        parse_config({"prompt": "x", "setting_sources": ["everyone"]})


# -- MCP servers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("docs.json", None),
        ('{"mcpServers": {}}', None),
        ("in-the-repository.json", None),
        ("x" * 131_071, None),
        ("{mcpServers}", "is not JSON"),
        ("{}", "has no `mcpServers`"),
        ("text.json", "text.json is not JSON: Expecting value"),
        ("list.json", "list.json has no `mcpServers`"),
        ("large.json", "large.json is larger than"),
    ],
)
def test_mcp_servers_are_checked_as_far_as_they_are_here(given: str, message: str | None, tmp_path: Path) -> None:
    files = {"docs": '{"mcpServers": {"a": {"command": "b"}}}', "text": "hello", "list": "[]", "large": " " * 1_000_001}
    for name, text in files.items():
        (tmp_path / f"{name}.json").write_text(text)
    found = ClaudeCodeAdapter().check_config({"prompt": "x", "mcp_config": given}, tmp_path)
    assert [problem.path for problem in found] == ["mcp_config"] * (message is not None)
    assert (message or "") in "".join(problem.message for problem in found)


def test_a_file_of_mcp_servers_is_next_to_the_configuration_or_in_the_repository(tmp_path: Path) -> None:
    here, workspace = tmp_path / "here", tmp_path / "workspace"
    for directory, name in ((here, "both"), (workspace, "both"), (workspace, "theirs")):
        directory.mkdir(exist_ok=True)
        (directory / name).write_text("{}")

    def used(name: str) -> str | None:
        config = {"prompt": "x", "mcp_config": name}
        context = AgentExecutionContext(
            workspace_dir=workspace, repo_dir=workspace, artifacts_dir=tmp_path, config=config, config_dir=here
        )
        return ClaudeCodeAdapter().configure(context).mcp_config

    assert used("both") == str(here / "both")
    assert used("theirs") == "theirs"
    assert used('{"mcpServers": {}}') == '{"mcpServers": {}}'
    with pytest.raises(ConfigError, match=r"nowhere does not exist \(searched: .*here, then the repository\)"):
        used("nowhere")
