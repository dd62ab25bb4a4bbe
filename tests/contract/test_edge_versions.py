"""Which CLI runs: the one that is asked for, and otherwise a clear error with the command that brings it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_clis import NEWEST, OLD, OLDEST
from claude_lab import ClaudeLab, says, script, versions
from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox import default_root


def use_the_toolbox(lab: ClaudeLab) -> None:
    """The lab's home is empty; the CLIs under test are in the toolbox of whoever runs the tests."""
    lab.harness_env["YOUBENCHA_TOOLBOX"] = str(default_root())


async def refused(lab: ClaudeLab, **config: Any) -> YouBenchaError:
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(YouBenchaError) as caught:
            await lab.adapter().execute(lab.context(model, config=config))
        assert model.requests == []
    return caught.value


async def test_a_version_is_taken_from_the_toolbox(lab: ClaudeLab) -> None:
    use_the_toolbox(lab)
    session = await lab.run(script(says("Done.")), config={"executable": None, "version": lab.cli.version})
    assert session.result.agent_version == lab.cli.version
    assert f"claude-cli/{lab.cli.version} " in session.main_requests[0].headers["user-agent"]
    assert session.log.agent_info.version == lab.cli.version


async def test_an_executable_of_another_version_is_refused(lab: ClaudeLab) -> None:
    if "executable" not in lab.chosen():
        pytest.skip("not on Windows: a JavaScript CLI is no executable there")
    error = await refused(lab, version="0.2.9")
    assert error.code == "CLAUDE_CLI_NOT_FOUND"
    assert f"is Claude Code {lab.cli.version}" in str(error)
    assert "0.2.9" in str(error)


# Nothing is started here, so that one version is enough.


@versions(NEWEST)
async def test_a_version_that_is_not_installed_is_an_error_with_the_command(lab: ClaudeLab) -> None:
    use_the_toolbox(lab)
    error = await refused(lab, executable=None, version="0.2.9")
    assert error.code == "CLAUDE_CLI_NOT_FOUND"
    assert "yb agents install claude-code@0.2.9" in (error.hint or "")


@versions(NEWEST)
async def test_fr_017_no_cli_at_all_is_an_error_with_the_command(lab: ClaudeLab) -> None:
    lab.harness_env |= {"PATH": "/nowhere", "YOUBENCHA_TOOLBOX": str(lab.home / "empty")}
    error = await refused(lab, executable=None)
    assert error.code == "CLAUDE_CLI_NOT_FOUND"
    assert "yb agents install claude-code" in (error.hint or "")


@versions(NEWEST)
async def test_an_executable_that_is_not_there_is_an_error(lab: ClaudeLab) -> None:
    error = await refused(lab, executable=str(lab.home / "no-claude"))
    assert error.code == "CLAUDE_CLI_NOT_FOUND"
    assert "no-claude" in str(error)


@versions(OLD, OLDEST)  # another one than the toolbox would choose
async def test_a_claude_on_path_wins_over_the_toolbox(lab: ClaudeLab) -> None:
    use_the_toolbox(lab)
    lab.put_on_path()
    session = await lab.run(script(says("Done.")), config={"executable": None, "version": None})
    assert session.result.agent_version == lab.cli.version
