"""Aider's command line, and the files that exist before it starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from invocations import invocation
from youbencha.adapters import get_adapter
from youbencha.adapters.aider import AiderConfig
from youbencha.adapters.aider.agent import aider_command
from youbencha.adapters.cli_agent import AgentCli
from youbencha.process import Command


def command(directory: Path, prompt: str = "Do it.", env: dict[str, str] | None = None, **config: Any) -> Command:
    for each in ("scratch", "workspace"):
        (directory / each).mkdir()
    aider = AgentCli(Path("/bin/aider"), "0.86.2")
    chosen = AiderConfig(prompt=prompt, **config)
    return aider_command(invocation(chosen, aider, directory / "workspace", directory / "scratch", env or {}))


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("-x\r\ny", "-x\r\ny"), ("/run rm", "\n/run rm"), ("!rm", "\n!rm"), (" /run", " /run"), ("é", "é")],
)
def test_a_prompt_is_neither_a_command_nor_a_flag(tmp_path: Path, prompt: str, message: str) -> None:
    done = command(tmp_path, prompt)
    (file,) = [word.partition("=")[2] for word in done.argv if word.startswith("--message-file=")]
    assert Path(file).read_bytes() == message.encode()
    assert prompt not in done.argv


def test_nothing_is_written_into_the_workspace(tmp_path: Path) -> None:
    done = command(tmp_path)
    files = [word.partition("=")[2] for word in done.argv if word.partition("=")[0].endswith(("-file", "-log"))]
    assert len(files) == 8
    assert all(Path(file).parent == tmp_path / "scratch" for file in files)


def test_options_and_their_flags(tmp_path: Path) -> None:
    argv = command(
        tmp_path,
        model="sonnet",
        architect=True,
        files=["a.py", "-b.py"],
        read_only=["c.md"],
        lint_cmd=["python: ruff check"],
        test_cmd="make test",
        map_tokens=0,
        auto_commits=True,
        stream=True,
        extra_args=["--subtree-only"],
    ).argv
    assert argv[0] == "/bin/aider"
    assert argv[-1] == "--subtree-only"
    expected = {
        "--model=sonnet", "--architect", "--file=a.py", "--file=-b.py", "--read=c.md", "--lint-cmd=python: ruff check",
        "--test-cmd=make test", "--auto-test", "--map-tokens=0", "--auto-commits", "--stream", "--no-git",
    }  # fmt: skip
    assert expected <= set(argv)


def test_defaults_are_aiders(tmp_path: Path) -> None:
    argv = command(tmp_path).argv
    named = {word.partition("=")[0] for word in argv}
    assert not named & {
        "--model",
        "--map-tokens",
        "--edit-format",
        "--architect",
        "--file",
        "--test-cmd",
        "--weak-model",
    }
    assert {"--no-auto-commits", "--no-auto-test", "--auto-lint", "--no-stream"} <= named


def test_the_test_cases_pythonpath_is_kept(tmp_path: Path) -> None:
    done = command(tmp_path, env={"PYTHONPATH": "/mine"})
    assert done.env["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "scratch"), "/mine"]
    assert (tmp_path / "scratch" / "sitecustomize.py").is_file()


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"extra_args": ["--api-key", "x=y"]}, "extra_args"),
        ({"extra_args": ["--message=/run rm"]}, "extra_args"),
        ({"map_tokens": -1}, "map_tokens"),
        ({"files": "a.py"}, "files"),
        ({"test_cmd": ""}, "test_cmd"),
    ],
)
def test_invalid_options(config: dict[str, Any], path: str) -> None:
    adapter = get_adapter("aider")
    (problem,) = adapter.check_config({"prompt": "x", **config}, None)
    assert problem.path.startswith(path)
