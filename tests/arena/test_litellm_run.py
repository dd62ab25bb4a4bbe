"""An arena behind a real LiteLLM: LiteLLM, or youBencha itself, is killed during a trial."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest
from arena_process import ANSWER, ANSWER_USD, project_with_one_model_call
from engine_bench import appear, metas

from toolbox_tools import installed
from youbencha.scripted_model import ScriptedModel

pytestmark = [pytest.mark.real_cli, pytest.mark.full]


@pytest.mark.parametrize("killed", ["litellm", "youbencha"])
async def test_a_run_continues_with_a_new_litellm(tmp_path: Path, killed: str) -> None:
    litellm = {"executable": str(installed("litellm").executable), "startup_timeout_s": 120}
    project = project_with_one_model_call(tmp_path, {"type": "litellm", "litellm": litellm})
    async with ScriptedModel(ANSWER) as model:
        project.more_env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}
        process = project.start()
        await appear(tmp_path / "asked")
        children = psutil.Process(process.pid).children(recursive=True)
        if killed == "litellm":
            for child in children:
                if any("litellm" in word for word in child.cmdline()):
                    child.kill()
        else:
            process.kill()
            await asyncio.to_thread(process.communicate)
            process = project.start("--resume")
        (tmp_path / "asked").unlink()
        await appear(tmp_path / "asked")
        (tmp_path / "go").touch()
        _, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, errors
    (meta,) = metas(project.latest).values()
    first, second = meta.attempts
    assert (first.outcome, "LiteLLM ended" in first.reason) == (
        ("infra_error", True) if killed == "litellm" else ("killed", False)
    )
    assert (first.cost_usd, second.outcome, second.cost_usd) == (ANSWER_USD, "solved", ANSWER_USD)
    assert sorted(log.name for log in project.latest.path.glob("*.log")) == ["litellm-1.log", "litellm-2.log"]
    project.wait_until_no_process_is_left()
