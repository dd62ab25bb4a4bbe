"""Invisible characters are made visible."""

from __future__ import annotations

import pytest

from youbencha.text import first_line, one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größe 价格 😀 👩‍💻", "größe 价格 😀 👩‍💻"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a␍b"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b[2J", "␛[2J"),
        ("abc\u202edcba", "abc⟨U+202E⟩dcba"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("a\u2028b", "a⟨U+2028⟩b"),
        ("\x7f\x9b", "␡⟨U+009B⟩"),
        ("caf\udce9", "caf\\xe9"),
        ("\ud800", "⟨U+D800⟩"),
        ("hidden\U000e0041", "hidden⟨U+E0041⟩"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_everything_can_be_written_as_utf_8() -> None:
    every = "".join(map(chr, range(0x110000)))
    visible(every).encode("utf-8")


def test_one_line() -> None:
    assert one_line("a\n  b\t c\n") == "a b c"
    assert one_line("x" * 1000, 10) == "x" * 9 + "…"
    assert one_line("x" * 10, 10) == "x" * 10


def test_the_first_nonempty_line() -> None:
    assert first_line("\n  \n  hello \nthere") == "hello"
    assert first_line(" \n") == ""
