"""Plain text: terminal sequences and the seeds' patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.adapters.claude_code.stream import read_claims
from youbencha.text import clean_text, strip_ansi


@pytest.mark.parametrize(
    ("dressed", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[?25h", ""),
        ("a\x1b[<ub", "ab"),
        ("a\x1b[>4;2mb", "ab"),
        ("\x1b]9;4;0;\x07done", "done"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b7save\x1b8", "save"),
        ("\x1b(Bx\x1b=", "x"),
        ("\x1bP+q\x1b\\y", "y"),
        ("\x1b[38;5;12mx", "x"),
        ("end\x1b", "end"),
        ("\x1b]never ended", "never ended"),
        ("\x1b]never\nended\x07", "never\nended\x07"),
        ("no escapes [0m", "no escapes [0m"),
    ],
)
def test_cr_3_9_ansi_sequences(dressed, plain):
    assert strip_ansi(dressed) == plain


@given(st.text(alphabet="ab\x1b[]0;mh?<\x07\\P7(\n"))
def test_no_escape_survives(text):
    assert "\x1b" not in strip_ansi(text)


@given(st.text(alphabet=st.characters(exclude_characters="\x1b")))
def test_plain_text_is_left_alone(text):
    assert strip_ansi(text) is text


def test_clean_text_line_ends_and_surrogates():
    assert clean_text("a\r\nb\udcffc\u2028d") == "a\nb?c\u2028d"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Claude Code v1.2.3", "1.2.3"),
        ("Claude Code CLI v2.0", "2.0"),
        ("claude code 1", "1"),
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("Welcome to Claude Code!", None),
        ("I would use Claude Code v1.2.3", None),
        ("version 2.1.325", None),
    ],
)
def test_version(text, version):
    assert read_claims(text).facts.agent_version == version


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Model: claude-sonnet-4", "claude-sonnet-4"),
        ("Model: claude-opus-4.1-20250805, go", "claude-opus-4.1-20250805"),
        ("first\n  Model: gpt-x\n", "gpt-x"),
        ("Model: gpt-x (default)", "gpt-x"),
        ("using model: claude-opus-4.1-20250805", None),
        ("The Data Model: users and groups", None),
        ("Model: users and groups", None),
        ("Model:", None),
        ("Data Model: a\nModel: claude-b\nModel: claude-c", "claude-b"),
        ("\u0130" * 40 + "\nMODEL: Claude-c\n" + "more\n" * 40, "Claude-c"),
    ],
)
def test_model(text, model):
    assert read_claims(text).facts.model == model


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Input tokens: 1234 Output tokens: 5678", (1234, 5678)),
        ("Output tokens: 5678\nInput tokens: 1234\nInput tokens: 9", (1234, 5678)),
        ("INPUT TOKENS: 1,234,567", (1234567, None)),
        ("output tokens:0", (None, 0)),
        ("Input tokens: many", None),
        ("It had Input tokens: 12", None),
        ("Input tokens: " + "9" * 5000, None),
    ],
)
def test_tokens(text, tokens):
    usage = read_claims(text).facts.usage
    assert (usage and usage.tokens[:2]) == tokens


def test_tool_calls():
    found = read_claims("[TOOL: read_file] path/to/file\n[tool: mcp__a.b-c]\nnext line\n[TOOL:x]\nsee [TOOL: y] z")
    assert [(call.name, call.arguments) for call in found.tool_calls] == [
        ("read_file", "path/to/file"),
        ("mcp__a.b-c", ""),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```"])
def test_quoted_code_is_not_a_claim(fence):
    code = "Model: gpt-quoted\nInput tokens: 1\n[TOOL: quoted] x"
    quoted = f"{fence}text\n{code}\n{fence}\n"
    assert read_claims(quoted) == read_claims("")
    assert read_claims(quoted + "Model: claude-own").facts.model == "claude-own"
    assert read_claims("    " + code.replace("\n", "\n    ")) == read_claims("")
    assert read_claims("> " + code.replace("\n", "\n> ")) == read_claims("")


@given(st.text())
def test_any_text_can_be_read(text):
    read_claims(text)
