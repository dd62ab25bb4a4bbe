"""The help: whole words at every width, and colours where they are wanted."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import typer

from yb import yb
from youbencha.cli.app import COMMANDS
from youbencha.cli.help import _coloured, first_sentence

RUN_OPTIONS = ("-c, --config PATH", "--delete-workspace / --keep-workspace", "--gateway auto|builtin|litellm|none")


def test_sections_are_in_order() -> None:
    lines = yb("--help").stdout.splitlines()
    titles = [line.rstrip(":") for line in lines if re.fullmatch(r"\S.*:", line)]
    assert titles == [*dict.fromkeys(entry.section for entry in COMMANDS.values()), "Options"]
    assert [line.split()[0] for line in lines if re.match(r"  [a-z]", line)] == [*COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_sentence_of_the_commands_help(name: str) -> None:
    module, _, attribute = COMMANDS[name].where.partition(":")
    command = getattr(import_module(f"youbencha.cli.{module}"), attribute)
    text = command.info.help if isinstance(command, typer.Typer) else command.__doc__
    assert COMMANDS[name].summary == first_sentence(text)


@pytest.mark.parametrize("width", ["40", "80", "120", "200"])
def test_option_names_are_not_cut(width: str) -> None:
    help_text = yb("run", "--help", COLUMNS=width).stdout
    assert "…" not in help_text
    for names in RUN_OPTIONS:
        assert f" {names}" in f" {help_text}"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_help_fits_the_terminal_width(width: int) -> None:
    for command in ([], ["run"], ["gateway"], ["agents", "install"]):
        lines = yb(*command, "--help", COLUMNS=str(width)).stdout.splitlines()
        assert max(len(line) for line in lines) <= width


def test_metavars_show_what_to_type() -> None:
    help_text = yb("agents", "install", "--help").stdout
    assert "Usage: yb agents install [OPTIONS] AGENT[@VERSION]...\n" in help_text
    assert "--from pypi|npm " in help_text
    assert not re.search(r"<\w+>|\{", yb("prune", "--help").stdout + yb("schema", "--help").stdout + help_text)


def test_related_options_are_grouped() -> None:
    help_text = yb("run", "--help").stdout
    model = help_text.partition("\nThe model:\n")[2].partition("\n\n")[0]
    assert [option for option in ("--budget", "--record", "--replay", "--sandbox") if option in model] == [
        "--budget",
        "--record",
        "--replay",
    ]


def test_colours_do_not_change_the_text_and_are_not_used_in_pipes() -> None:
    plain = yb("run", "--help", TERM="xterm-256color", NO_COLOR="").stdout
    assert "\x1b" not in plain
    coloured = _coloured(plain)
    assert "\x1b[36m-c, --config\x1b[0m" in coloured
    assert "\x1b[1mThe model:\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain.replace("`", "")
