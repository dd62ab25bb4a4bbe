"""Which CLI is run, and how its version is determined."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from claude_config import parse_config
from small_clis import asked, in_toolbox, small_cli

from youbencha.adapters.claude_code import ClaudeCodeAdapter
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent import AgentCli
from youbencha.adapters.cli_agent.locate import CliFinder
from youbencha.errors import YouBenchaError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the small programs are shell scripts")


@pytest.fixture
def toolbox(tmp_path: Path) -> Path:
    return tmp_path / "toolbox"


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    return tmp_path / "bin"


@pytest.fixture
def env(bin_dir: Path, toolbox: Path) -> dict[str, str]:
    return {"PATH": f"{bin_dir}:/usr/bin:/bin", "YOUBENCHA_TOOLBOX": str(toolbox)}


async def locate(env: dict[str, str], **config: Any) -> AgentCli:
    return await ClaudeCodeAdapter({}).locate(parse_config({"prompt": "x", **config}), env, None)


async def test_path_wins_over_the_toolbox(env: dict[str, str], bin_dir: Path, toolbox: Path) -> None:
    on_path = small_cli(bin_dir / "claude", "2.0.1")
    in_toolbox(toolbox, "2.1.9")
    found = await locate(env)
    assert (found.path, found.version) == (on_path, "2.0.1")
    assert found.argv == (str(on_path),)


async def test_the_first_on_path(env: dict[str, str], bin_dir: Path, tmp_path: Path) -> None:
    first = small_cli(tmp_path / "first" / "claude", "2.0.2")
    small_cli(bin_dir / "claude", "2.0.1")
    assert (await locate({**env, "PATH": f"{first.parent}:{bin_dir}"})).path == first


async def test_otherwise_the_newest_of_the_toolbox(env: dict[str, str], toolbox: Path) -> None:
    for version in ("2.1.9", "2.1.30", "1.0.128"):
        in_toolbox(toolbox, version)
    found = await locate(env)
    assert found.version == "2.1.30"
    assert asked(found.path) == []  # the manifest knows its version


@pytest.mark.parametrize(("version", "where"), [("2.0.1", "bin"), ("2.1.9", "2.1.9"), ("1.0.128", "1.0.128")])
async def test_a_version_selects_the_matching_installation(
    version: str, where: str, env: dict[str, str], bin_dir: Path, toolbox: Path
) -> None:
    small_cli(bin_dir / "claude", "2.0.1")
    for installed in ("2.1.9", "1.0.128", "2.0.1"):
        in_toolbox(toolbox, installed)
    found = await locate(env, version=version)
    assert found.version == version
    assert found.path.parent.name == where


async def test_a_missing_version_is_reported(env: dict[str, str], bin_dir: Path) -> None:
    assert await CliFinder(ClaudeCode).find(env) is None
    with pytest.raises(YouBenchaError) as caught:
        await locate(env)
    assert caught.value.code == "CLAUDE_CLI_NOT_FOUND"
    assert caught.value.message == "Claude Code is neither on PATH nor in the toolbox."
    assert "yb agents install claude-code`" in (caught.value.hint or "")
    small_cli(bin_dir / "claude", "2.0.1")
    with pytest.raises(YouBenchaError, match=r"Claude Code 2\.1\.9 is neither") as caught:
        await locate(env, version="2.1.9")
    assert "yb agents install claude-code@2.1.9`" in (caught.value.hint or "")


async def test_an_explicit_path_wins_over_everything(env: dict[str, str], bin_dir: Path, tmp_path: Path) -> None:
    small_cli(bin_dir / "claude", "2.0.1")
    mine = small_cli(tmp_path / "mine" / "my-claude", "2.0.3")
    found = await locate(env, executable=str(mine))
    assert (found.path, found.version) == (mine, "2.0.3")
    assert await locate(env, executable=str(mine), version="2.0.3") == found


async def test_an_explicit_path_may_be_a_link(env: dict[str, str], tmp_path: Path) -> None:
    mine = small_cli(tmp_path / "mine" / "my-claude", "2.0.3")
    (tmp_path / "link").symlink_to(mine)
    assert (await locate(env, executable=str(tmp_path / "link"))).path == mine


async def test_an_explicit_path_in_the_home(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    small_cli(tmp_path / "c", "2.0.3")
    assert (await locate(env, executable="~/c")).path == tmp_path / "c"


@pytest.mark.parametrize("name", ["missing", "", "a-directory"])
async def test_an_explicit_path_that_is_not_a_file(
    name: str, env: dict[str, str], bin_dir: Path, tmp_path: Path
) -> None:
    small_cli(bin_dir / "claude", "2.0.1")  # which must not be taken in its place
    (tmp_path / "a-directory").mkdir()
    with pytest.raises(YouBenchaError, match=r"agent\.config\.executable: there is no file") as caught:
        await locate(env, executable=str(tmp_path / name))
    assert caught.value.code == "CLAUDE_CLI_NOT_FOUND"


async def test_an_explicit_path_of_another_version(env: dict[str, str], tmp_path: Path) -> None:
    mine = small_cli(tmp_path / "c", "2.0.3")
    with pytest.raises(YouBenchaError, match=r"is Claude Code 2\.0\.3, but agent\.config\.version asks for 2\.0\.4"):
        await locate(env, executable=str(mine), version="2.0.4")


async def test_a_file_that_cannot_be_started(env: dict[str, str], tmp_path: Path) -> None:
    mine = small_cli(tmp_path / "c", "2.0.3")
    mine.chmod(0o644)
    with pytest.raises(YouBenchaError, match="does not start") as caught:
        await locate(env, executable=str(mine))
    assert caught.value.code == "CLAUDE_CLI_NOT_FOUND"
    assert caught.value.hint


@pytest.mark.parametrize("answer", ["", "hello", "Error: no such module"])
async def test_an_answer_that_is_not_a_version(answer: str, env: dict[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "c"
    mine.write_text(f"#!/bin/sh\necho '{answer}'\n")
    mine.chmod(0o755)
    with pytest.raises(YouBenchaError, match="which is not a version") as caught:
        await locate(env, executable=str(mine))
    assert caught.value.code == "CLAUDE_VERSION_UNKNOWN"
    assert (answer or "nothing") in caught.value.message


async def test_the_version_is_cached(env: dict[str, str], bin_dir: Path) -> None:
    cli = small_cli(bin_dir / "claude", "2.0.1")
    for _ in range(3):
        await locate(env)
    assert asked(cli) == ["--version"]


async def test_a_replaced_file_is_asked_again_even_with_the_same_size_and_time(
    env: dict[str, str], bin_dir: Path
) -> None:
    cli = small_cli(bin_dir / "claude", "2.0.1")
    before = cli.stat()
    assert await CliFinder(ClaudeCode).read_version(cli, env) == "2.0.1"
    small_cli(cli, "2.0.2")
    os.utime(cli, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (cli.stat().st_mtime_ns, cli.stat().st_size) == (before.st_mtime_ns, before.st_size)
    assert await CliFinder(ClaudeCode).read_version(cli, env) == "2.0.2"


async def test_a_link_changed_to_another_file(env: dict[str, str], bin_dir: Path, tmp_path: Path) -> None:
    link = bin_dir / "claude"
    bin_dir.mkdir()
    for version in ("2.0.1", "2.0.2"):
        link.unlink(missing_ok=True)
        link.symlink_to(small_cli(tmp_path / version / "cli", version))
        assert (await locate(env)).version == version


async def test_the_version_is_asked_in_the_agents_environment(env: dict[str, str], tmp_path: Path) -> None:
    """A secret of the harness must not reach a program just because it was asked for its version."""
    mine = tmp_path / "c"
    mine.write_text(f'#!/bin/sh\nenv > "{tmp_path}/seen"\necho 2.0.1\n')
    mine.chmod(0o755)
    os.environ["KIT_OTHER_SECRET"] = "x"
    try:
        await locate(env, executable=str(mine))
    finally:
        del os.environ["KIT_OTHER_SECRET"]
    seen = (tmp_path / "seen").read_text()
    assert "YOUBENCHA_TOOLBOX" in seen
    assert "KIT_OTHER_SECRET" not in seen
