"""Models that their provider does not know are found before a matrix begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from arena_process import ArenaProject

from agent_clis import NEWEST
from claude_bench import API_KEY, says, script, versions
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

KNOWN = ["claude-opus-5-5"]


def orchestrator(name: str, model: str, executable: Path) -> dict[str, Any]:
    config = {"executable": str(executable)}
    return {"name": name, "agent": "claude-code", "model": model, "config": config, "env": {"IS_SANDBOX": "1"}}


@versions(NEWEST)
async def test_unknown_models_of_a_matrix(tmp_path: Path, claude_cli: InstalledAgent) -> None:
    """The error names all orchestrators; each model is asked for once, and only if a trial needs it."""
    given = {"one": "claude-opus-5", "two": "claude-opus-5", "three": "claude-opus-5-5"}
    listed = [orchestrator(name, model, claude_cli.executable) for name, model in given.items()]
    project = ArenaProject(tmp_path, tasks=2, orchestrators=listed, gateway="builtin")
    async with ScriptedModel(script(says("done", times="forever"), models=KNOWN)) as model:
        project.more_env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        planned = await asyncio.to_thread(project.run_here, "--dry-run")
        assert (planned.returncode, model.requests) == (0, [])
        done = await asyncio.to_thread(project.run_here)
        asked = [request.path.partition("?")[0] for request in model.requests]
        model.script.models[:] = [*KNOWN, "claude-opus-5"]
        first = await asyncio.to_thread(project.run_here, "--orchestrator", "one")
        model.script.models[:] = KNOWN  # the model was retired
        model.requests.clear()
        reused = await asyncio.to_thread(project.run_here, "--orchestrator", "one", "--reuse", "latest")
    assert done.returncode == 2
    assert "[MODEL_UNUSABLE]" in done.stderr
    assert "one, two: http://127.0.0.1" in done.stderr
    assert "does not know the model claude-opus-5 (did you mean 'claude-opus-5-5'?)" in done.stderr
    assert sorted(asked) == sorted(
        ["/v1/models", "/v1/models/claude-opus-5", *["/v1/models/claude-opus-5-5"] * 2]  # and one that is listed
    )
    assert len(list((project.results / "runs").iterdir())) == 2, "the run that was refused left nothing"
    assert "2 of 2 trials finished" in first.stdout
    assert "2 of 2 trials finished" in reused.stdout, reused.stderr
    assert model.requests == []
