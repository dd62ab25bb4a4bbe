"""US-5: permission modes. A run in which nothing was allowed must not look like one in which all went well."""

from __future__ import annotations

from typing import Any

import pytest
from wrapped_cli import Recorder

from agent_clis import NEWEST, OLD, OLDEST
from claude_lab import ClaudeLab, bash, says, script, uses, versions
from youbencha.errors import ConfigError
from youbencha.events import ToolDenied

WRITES = {
    "Bash": bash("touch written.txt"),  # not `echo > file`: 2.0.62 lets that pass in every mode
    "Write": uses("Write", file_path="${workspace}/written.txt", content="hello\n"),
}


@pytest.mark.parametrize("tool", ["Bash", "Write"])
@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_us_5_2_a_denied_tool_is_a_warning_and_nothing_is_written(lab: ClaudeLab, mode: str, tool: str) -> None:
    session = await lab.run(script(WRITES[tool], says("I could not.")), config={"permission_mode": mode})
    assert not (lab.workspace / "written.txt").exists()
    assert session.result.status == "success", session.result.errors
    assert "CLAUDE_TOOL_DENIED" in session.warning_codes()
    warning = next(w for w in session.result.warnings if w.code == "CLAUDE_TOOL_DENIED")
    assert tool in warning.message
    assert [event.name for event in session.events if isinstance(event, ToolDenied)] == [tool]
    assert "CLAUDE_TOOL_DENIED" in [w.code for w in session.log.warnings]


@pytest.mark.parametrize("config", [{}, {"permission_mode": "bypassPermissions"}], ids=["unset", "bypass"])
async def test_us_5_with_all_allowed_the_tool_runs(lab: ClaudeLab, config: dict[str, Any]) -> None:
    session = await lab.run(script(WRITES["Bash"], says("Done.")), config=config)
    assert (lab.workspace / "written.txt").exists()
    assert "CLAUDE_TOOL_DENIED" not in session.warning_codes()


@versions(OLD, OLDEST)  # the newest has this mode
async def test_us_5_auto_is_refused_where_the_cli_does_not_have_it(lab: ClaudeLab) -> None:
    async with lab.model(script(says("never"))) as model:
        with pytest.raises(ConfigError) as caught:
            await lab.adapter().execute(lab.context(model, config={"permission_mode": "auto"}))
        assert model.requests == []
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert f"Claude Code {lab.cli.version} has no mode 'auto'" in str(caught.value)


@versions(NEWEST)  # the others do not have this mode
async def test_us_5_auto_is_passed_on_where_the_cli_has_it(lab: ClaudeLab) -> None:
    recorder = Recorder(lab)
    session = await lab.run(script(says("Nothing to do.")), config={**recorder.config, "permission_mode": "auto"})
    assert session.result.status == "success", session.result.errors
    argv = recorder.argv()
    assert argv[argv.index("--permission-mode") + 1] == "auto"
