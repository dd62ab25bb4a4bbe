"""Backends: Ralph's names over our adapters, found without starting a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters import get_adapter
from youbencha.adapters.command import CommandAdapter
from youbencha.errors import YouBenchaError
from youbencha.loop.backends import BACKENDS, Backend, choose_backend, installed_backends
from youbencha.spec.loop import CliSpec, HatBackend


class Computer:
    """A PATH, and an empty toolbox."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.bin.mkdir()
        self.env = {"PATH": str(self.bin), "HOME": str(root), "YOUBENCHA_TOOLBOX": str(root / "toolbox")}

    def has(self, *programs: str) -> None:
        for program in programs:
            file = self.bin / program
            file.write_text('#!/bin/sh\necho started >> "$HOME/started"\n')
            file.chmod(0o755)

    def choose(self, name: str = "auto", **options: Any) -> Backend:
        cli = CliSpec(**options.pop("cli", {}))
        return choose_backend(name, cli, self.env, **options)

    def refused(self, name: str = "auto", **options: Any) -> YouBenchaError:
        with pytest.raises(YouBenchaError) as caught:
            self.choose(name, **options)
        return caught.value


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def argv_of(backend: Backend) -> list[str]:
    command = backend.config["command"]
    return [*(command if isinstance(command, list) else command.split()), *backend.config["args"]]


def test_auto_takes_claude_first(computer: Computer) -> None:
    computer.has("opencode", "claude", "gemini", "aider")
    assert computer.choose().name == "claude"
    assert list(installed_backends(CliSpec(), computer.env)) == ["claude", "gemini", "opencode", "aider"]
    assert not (computer.bin.parent / "started").exists()


def test_the_priority_and_disabled_adapters_change_what_auto_takes(computer: Computer) -> None:
    computer.has("opencode", "claude", "codex")
    assert computer.choose(cli={"agent_priority": ["gemini", "codex"]}).name == "codex"
    assert computer.choose(disabled=["claude", "codex"]).name == "opencode"


def test_auto_without_any_agent_says_what_to_install(computer: Computer) -> None:
    error = computer.refused()
    assert error.code == "BACKEND_NOT_INSTALLED"
    assert "claude, kiro, gemini" in error.message
    assert "yb agents install claude-code" in (error.hint or "")


def test_an_unknown_backend_names_the_nearest(computer: Computer) -> None:
    error = computer.refused("cluade")
    assert (error.code, error.hint) == ("BACKEND_UNKNOWN", "did you mean 'claude'?")
    assert "not supported yet" in computer.refused("kiro-acp").message


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_that_is_not_installed_says_how_to_install_it(computer: Computer, name: str) -> None:
    error = computer.refused(name)
    assert error.code == "BACKEND_NOT_INSTALLED"
    assert BACKENDS[name].program in error.message
    known = BACKENDS[name].agent_type
    assert (f"yb agents install {known}" in (error.hint or "")) is (known != "command")
    assert computer.choose(name, check_installed=False).name == name


@pytest.mark.parametrize("name", BACKENDS)
def test_the_adapter_accepts_the_configuration(computer: Computer, name: str) -> None:
    computer.has(BACKENDS[name].program)
    chosen = computer.choose(name, model="opus", cli={"backend": name, "args": ["--some-flag"]})
    adapter = get_adapter(chosen.agent_type)
    assert not adapter.check_config({**chosen.config, "prompt": "x"}, None)  # type: ignore[attr-defined]


def test_claude_gets_a_terminal_and_partial_messages(computer: Computer) -> None:
    computer.has("claude")
    config = computer.choose("claude").config
    assert (config["pty"], config["include_partial_messages"], config["exit_grace_s"]) == ("always", "auto", 5)
    text = computer.choose("claude", cli={"output_format": "text"}).config
    assert (text["output_format"], "include_partial_messages" in text) == ("text", False)


@pytest.mark.parametrize("name", [*BACKENDS, "custom"])
def test_any_backend_may_get_a_terminal(computer: Computer, name: str) -> None:
    cli = {"backend": name, "command": "/bin/echo", "pty_mode": True}
    assert computer.choose(name, cli=cli).config["pty"] == "always"
    assert ("pty" in computer.choose(name, cli={**cli, "pty_mode": False}).config) is (name == "claude")


def test_arguments_that_the_adapter_passes_itself_are_left_out(computer: Computer) -> None:
    computer.has("claude", "codex")
    given = {"backend": "claude", "args": ["--dangerously-skip-permissions", "--model", "haiku", "--add-dir", "/x"]}
    chosen = computer.choose("claude", cli=given)
    assert (chosen.model, chosen.config["extra_args"]) == ("haiku", ["--add-dir", "/x"])
    chosen = computer.choose("codex", cli={"backend": "codex", "args": ["exec", "--yolo", "-m=gpt-5"]})
    assert (chosen.model, chosen.config) == ("gpt-5", {})


def test_the_configured_arguments_are_for_the_configured_backend_only(computer: Computer) -> None:
    computer.has("claude", "codex")
    cli = {"backend": "claude", "args": ["--add-dir", "/x"], "model": "opus", "config": {"max_turns": 5}}
    assert computer.choose("claude", cli=cli).config["max_turns"] == 5
    other = computer.choose("codex", cli=cli)
    assert (other.config, other.model) == ({}, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kiro", ["kiro-cli", "chat", "--no-interactive", "--trust-all-tools", "--x", "--model", "m", "{prompt}"]),
        ("amp", ["amp", "--dangerously-allow-all", "--x", "-x", "{prompt}"]),
        ("pi", ["pi", "-p", "--no-session", "--x", "--model", "m", "{prompt}"]),
        ("roo", ["roo", "--print", "--ephemeral", "--x", "--model", "m", "--prompt-file", "{prompt_file}"]),
        ("forge", ["forge", "--x", "-p", "{prompt}"]),
    ],
)
def test_further_backends_are_programs_with_arguments(computer: Computer, name: str, expected: list[str]) -> None:
    computer.has(BACKENDS[name].program)
    assert argv_of(computer.choose(name, model="m", cli={"backend": name, "args": ["--x"]})) == expected


@pytest.mark.parametrize(
    ("cli", "argv", "prompt_by"),
    [
        ({}, ["mine", "{prompt}"], "argument"),
        ({"prompt_flag": "-p"}, ["mine", "-p", "{prompt}"], "argument"),
        ({"args": ["--task={prompt}", "-v"]}, ["mine", "--task={prompt}", "-v"], "argument"),
        ({"prompt_mode": "stdin", "args": ["-v"]}, ["mine", "-v"], "stdin"),
        ({"prompt_mode": "file", "prompt_flag": "-f"}, ["mine", "-f", "{prompt_file}"], "file"),
    ],
)
def test_a_custom_program_gets_the_prompt_as_configured(
    computer: Computer, cli: dict[str, Any], argv: list[str], prompt_by: str
) -> None:
    computer.has("mine")
    chosen = computer.choose("custom", cli={"backend": "custom", "command": "mine", **cli})
    assert (argv_of(chosen), chosen.config["prompt_by"]) == (argv, prompt_by)
    assert CommandAdapter().check_config({**chosen.config, "prompt": "x"}, None) == ()


def test_a_custom_program_must_be_on_path(computer: Computer) -> None:
    error = computer.refused("custom", cli={"backend": "custom", "command": "mine --fast"})
    assert (error.code, "there is no mine on PATH" in error.message) == ("BACKEND_NOT_INSTALLED", True)
    assert computer.choose("custom", cli={"backend": "custom", "command": "./mine.sh"}).title == "mine.sh"


def test_a_hat_may_have_an_agent_or_a_program_of_its_own(computer: Computer) -> None:
    computer.has("kiro-cli", "claude")
    kiro = computer.choose("kiro", own=HatBackend(type="kiro", agent="reviewer", args=("--x",)))
    assert argv_of(kiro)[-4:] == ["--x", "--agent", "reviewer", "{prompt}"]
    assert computer.choose("claude", own=HatBackend(type="claude", agent="r")).config["agent_name"] == "r"
    cli = {"backend": "custom", "command": "/bin/other", "prompt_flag": "-p", "config": {"version": "1"}}
    mine = computer.choose("custom", own=HatBackend(command="./mine.sh", args=("-q",)), cli=cli)
    assert argv_of(mine) == ["./mine.sh", "-q", "{prompt}"]
    assert "version" not in mine.config, "that is for the loop's own program"


def test_the_path_of_a_cli_may_be_given(computer: Computer) -> None:
    computer.has("claude-nightly")
    chosen = computer.choose("claude", cli={"backend": "claude", "command": "claude-nightly"})
    assert chosen.config["executable"] == str(computer.bin / "claude-nightly")
