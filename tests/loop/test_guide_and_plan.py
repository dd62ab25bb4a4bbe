"""`ralph guide` from another shell, and `ralph plan` in a terminal."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from loop_bench import RALPH, LoopBench

from agent_clis import NEWEST
from claude_bench import API_KEY, ClaudeBench, says, script, versions
from systems import ON_WINDOWS
from tmux import terminal
from yb import PATIENCE_S
from youbencha.events import GuidanceGiven
from youbencha.scripted_model import ScriptedModel

pytestmark = pytest.mark.skipif(ON_WINDOWS, reason="shell scripts, and there is no tmux on Windows")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


def test_guidance_from_another_shell_is_in_the_next_prompt_once(loops: LoopBench) -> None:
    loops.configure(
        'echo "$PROMPT" > ../prompt-$N; touch ../began-$N; while [ $N = 1 -a ! -e ../go ]; do sleep 0.02; done;'
        " [ $N = 3 ] && echo LOOP_COMPLETE; exit 0",
        event_loop={"stale_after": 0, "checkpoint_interval": 0},
    )
    (loops.tree / "below").mkdir()
    with loops.start("run", "--no-tui", "-c", str(loops.root / "ralph.yml")) as running:
        wait_for(loops.root / "began-1")
        guided = loops.ralph("guide", "Leave", "`api.py` alone: yb-canary-17")
        (loops.root / "go").touch()
        printed, _ = running.communicate(timeout=PATIENCE_S)
    assert (guided.returncode, loops.history().state.loop_id in guided.stdout) == (0, True), guided.stderr
    assert running.returncode == 0, printed
    prompts = [(loops.root / f"prompt-{number}").read_text().count("yb-canary-17") for number in (1, 2, 3)]
    assert prompts == [0, 1, 0]
    assert "yb-canary-17" in printed
    over = loops.ralph("guide", "too late")
    assert (over.returncode, "LOOP_NOT_RUNNING" in over.stderr) == (2, True)


async def test_late_guidance_is_kept_for_the_continued_loop(loops: LoopBench) -> None:
    loops.configure(
        'echo "$PROMPT" > ../prompt-$N; f=$(ls -d .ralph/loops/*/ | head -1)guidance.jsonl;'
        ' [ $N = 1 ] && echo \'{"topic": "guidance", "payload": "yb-canary-18"}\' > $f; exit 0',
        event_loop={"max_iterations": 1, "checkpoint_interval": 0},
    )
    assert (await loops.run()).outcome == "max_iterations"
    assert [event.text for event in loops.of_type(GuidanceGiven)] == ["yb-canary-18"]
    text = (loops.root / "ralph.yml").read_text()
    (loops.root / "ralph.yml").write_text(text.replace("max_iterations: 1", "max_iterations: 2"))
    await loops.run(goes_on=True)
    assert "yb-canary-18" in (loops.root / "prompt-2").read_text()
    assert len(loops.of_type(GuidanceGiven)) == 1


def test_a_planning_session_has_the_terminal_and_its_exit_code_counts(tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text(
        "#!/bin/bash\ntrap 'echo the agent is interrupted' INT\n"
        'printf %s "${@: -1}" > told; echo "$1 $KIND"\n'
        'read -p "question? " answer; echo "I heard $answer"; exit 7\n'
    )
    agent.chmod(0o755)
    (tmp_path / "ralph.yml").write_text(
        "cli: {backend: claude, command: ./agent.sh, env: {KIND: '${ROLE}-plan'}}\ncore: {specs_dir: mine/}\n"
    )
    with terminal(tmp_path, env={"ROLE": "of"}) as pane:
        pane.run(RALPH, "plan", "Export yb-canary-19", "--", "--further")
        pane.wait_for("question")
        pane.press("C-c")
        pane.wait_for("the agent is interrupted")
        pane.run("yes")
        pane.wait_for("I heard")
        pane.type("echo code $?")
        pane.press("Enter")
        assert "--further of-plan" in pane.wait_for("code 7")
    told = (tmp_path / "told").read_text()
    assert "yb-canary-19" in told
    assert "`mine/<" in told


@versions(NEWEST)
async def test_claude_code_starts_its_interactive_session_with_the_plan(claude: ClaudeBench) -> None:
    """The real CLI shows its own screen, and sends what it was told to the model."""
    claude.put_on_path()
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [API_KEY[-20:]]},
        "projects": {str(claude.workspace): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (claude.home / ".claude.json").write_text(json.dumps(known))  # so that it asks nothing before it starts

    def converse(env: dict[str, str]) -> None:
        with terminal(claude.workspace, env=env, rows=50) as pane:
            pane.run(RALPH, "plan", "-b", "claude", "Export yb-canary-20")
            pane.wait_for("Who needs this")

    async with ScriptedModel(script(says("Who needs this?"), across_sessions=True)) as model:
        env = {**claude.harness_env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        await asyncio.to_thread(converse, env)
        sent = [str(request.body) for request in model.requests if request.kind == "turn"]
    assert "yb-canary-20" in sent[0]
