"""FR-017: the requested CLI runs; otherwise an error names the command that installs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from echo_cli import EchoCli, needs_shell
from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.user_dirs import toolbox_dir

pytestmark = needs_shell


async def refused(cli: EchoCli, **config: Any) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as caught:
        await cli.run(config=config)
    assert caught.value.code == "CLAUDE_CLI_NOT_FOUND"
    assert not cli.was_started
    return caught.value


@pytest.fixture
def cli(tmp_path: Path) -> EchoCli:
    """One of 2.0.62, and an empty toolbox."""
    cli = EchoCli(tmp_path, version="2.0.62")
    cli.harness_env["YOUBENCHA_TOOLBOX"] = str(tmp_path / "empty")
    return cli


async def test_an_executable_of_another_version_is_refused(cli: EchoCli) -> None:
    error = await refused(cli, version="2.0.9")
    assert "is Claude Code 2.0.62" in str(error)
    assert "2.0.9" in str(error)


async def test_a_version_that_is_not_installed_is_an_error_with_the_command(cli: EchoCli) -> None:
    error = await refused(cli, executable=None, version="2.0.9")
    assert "yb agents install claude-code@2.0.9" in (error.hint or "")


async def test_fr_017_no_cli_at_all_is_an_error_with_the_command(cli: EchoCli) -> None:
    cli.harness_env["PATH"] = "/nowhere"
    error = await refused(cli, executable=None)
    assert "yb agents install claude-code" in (error.hint or "")


async def test_a_missing_executable_is_an_error(cli: EchoCli) -> None:
    error = await refused(cli, executable=str(cli.home / "no-claude"))
    assert "no-claude" in str(error)


async def test_a_claude_on_path_wins_over_the_toolbox(cli: EchoCli) -> None:
    assert Toolbox().find("claude-code") is not None
    cli.harness_env["YOUBENCHA_TOOLBOX"] = str(toolbox_dir())
    cli.harness_env["PATH"] = os.pathsep.join([str(cli.path.parent), cli.harness_env["PATH"]])
    received = await cli.run(config={"executable": None})
    assert received.result.agent_version == "2.0.62"
