"""Without a container, a loop has the environment of the shell that started it; test cases have a short list."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from claude_loop import ClaudeLoop
from loop_bench import LoopBench

from agent_clis import NEWEST
from claude_bench import API_KEY, ClaudeBench, bash, says, script, versions
from systems import posix_only
from yb import PATIENCE_S, yb
from youbencha.loop.iteration import ralph_program

SHELL = {
    "DATABASE_URL": "postgres://me:yb-secret-21@db/shop",
    "PYTHONPATH": "/somewhere",
    "NODE_OPTIONS": "--max-old-space-size=4096",
    "CI": "true",
    "JAVA_HOME": "/jdk",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "AWS_PROFILE": "staging",
    "AMP_API_KEY": "yb-amp-0123456789",
    "GROQ_API_KEY": "yb-groq-0123456789",
    "CLAUDECODE": "1",
}


def variables(file: Path) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in file.read_text().splitlines() if "=" in line)


@posix_only("env is a program")
async def test_agents_and_gates_get_the_environment_of_the_shell(loops: LoopBench) -> None:
    loops.configure(
        "env > ../agent; echo LOOP_COMPLETE",
        cli={"env": {"JAVA_HOME": "/other"}},
        gates=[{"name": "env", "command": "env > ../gate"}],
    )
    state = await loops.run(loops.host(**SHELL, ANTHROPIC_API_KEY="sk-ant-mine-0123456789"))
    assert state.outcome == "completed"
    agent, gate = variables(loops.root / "agent"), variables(loops.root / "gate")
    for name in SHELL.keys() - {"CLAUDECODE", "JAVA_HOME"}:
        assert agent[name] == gate[name] == SHELL[name]
    assert (agent["JAVA_HOME"], gate["JAVA_HOME"]) == ("/other", "/jdk")
    assert agent["ANTHROPIC_API_KEY"] == "sk-ant-mine-0123456789"  # there is no gateway that holds it
    assert "CLAUDECODE" not in agent
    assert Path(agent["RALPH_BIN"]).parent == Path(agent["PATH"].partition(":")[0])


@posix_only("env is a program")
async def test_a_fresh_home_is_not_replaced_by_the_users(loops: LoopBench) -> None:
    loops.configure("env > ../agent; echo LOOP_COMPLETE", sandbox={"type": "local", "home": "fresh"})
    await loops.run(loops.host(**SHELL))
    agent = variables(loops.root / "agent")
    assert agent["HOME"] != str(loops.home)
    assert agent["DATABASE_URL"] == SHELL["DATABASE_URL"]


@posix_only("env is a program")
@versions(NEWEST)
async def test_a_gateway_withholds_only_the_keys_of_models(claude: ClaudeBench) -> None:
    loop = ClaudeLoop(claude)
    loop.configure(gates=[{"name": "env", "command": "env > gate.env"}])
    done = await loop.run_script(
        script(bash("env > agent.env"), says("LOOP_COMPLETE")),
        env={**SHELL, "HTTP_PROXY": "http://127.0.0.1:9", "ANTHROPIC_MODEL": "claude-haiku-4-5", "NO_PROXY": "corp"},
    )
    assert done.state.outcome == "completed", done.reasons
    assert {request.body["model"] for request in done.requests} == {"claude-haiku-4-5"}
    agent, gate = variables(loop.tree / "agent.env"), variables(loop.tree / "gate.env")
    for name in {*SHELL, "HTTP_PROXY"} - {"CLAUDECODE"}:
        assert agent[name] == gate[name]
    assert agent["NO_PROXY"].split(",") == ["127.0.0.1", "corp"]
    assert API_KEY not in (*agent.values(), *gate.values())


@posix_only("env is a program")
def test_the_command_adds_only_what_agents_need(loops: LoopBench) -> None:
    loops.configure("env > ../agent; echo LOOP_COMPLETE", gates=[{"name": "env", "command": "env > ../gate"}])
    with loops.start("run", "--no-tui", "-c", str(loops.root / "ralph.yml")) as running:
        printed, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, printed
    of_a_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    for file in ("agent", "gate"):
        added = variables(loops.root / file).keys() - loops.env.keys() - of_a_shell
        assert all(name.startswith(("RALPH_", "TASK_", "YOUBENCHA_")) for name in added), added


@posix_only("the script has another name there")
def test_agents_use_the_ralph_of_this_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after `pip install --user`, which puts scripts into another directory than that of Python's own."""
    about = tmp_path / "lib/python/site-packages/youbencha-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: youbencha\nVersion: 1\n")
    (about / "RECORD").write_text("youbencha/loop/ralph,,\n../../../bin/ralph,,\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ralph").touch()
    monkeypatch.syspath_prepend(str(about.parent))
    assert ralph_program() == tmp_path / "bin/ralph"


def test_logs_of_failed_programs_name_withheld_variables(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    fails = 'echo "no ${DATABASE_URL:-database}"; exit 3'
    case = {
        "name": "needs a database",
        "repo": "./repo",
        "agent": {"type": "command", "config": {"command": fails, "shell": True, "prompt": "x"}},
        "evaluators": [{"name": "command", "config": {"command": fails, "shell": True}}],
    }
    (tmp_path / "case.json").write_text(json.dumps(case))
    init = "git init -q && git -c user.name=a -c user.email=a@b commit -qm x --allow-empty"
    subprocess.run(init, shell=True, cwd=tmp_path / "repo", check=True)
    done = yb("run", "-c", "case.json", "--keep-workspace", cwd=tmp_path, **SHELL)
    assert done.returncode == 1, done.stdout + done.stderr
    (log,) = tmp_path.rglob("youbencha-log.json")
    withheld = json.loads(log.read_text())["environment"]["withheld_variables"]
    assert {"DATABASE_URL", "CI"} <= set(withheld)
    assert not {"PATH", "HOME", "HTTPS_PROXY"} & set(withheld)
    (printed,) = (file for file in tmp_path.rglob("output.log"))
    assert "DATABASE_URL" in printed.read_text().splitlines()[-1]
    written = [file.read_bytes() for file in log.parent.rglob("*") if file.is_file()]
    assert not any(b"yb-secret-21" in data for data in written)
