"""`yb run` with the real CLIs in real containers: they work, every token is counted alike, and nothing is left."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from run_bench import Outcome, RunBench, cut_off

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, bash, full, says, script, versions
from docker_engine import containers_of
from toolbox_tools import installed
from youbencha.gateway.ledger import read_ledger
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import Script, ScriptedModel
from youbencha.user_dirs import toolbox_dir

TOKENS = {"input_tokens": 1000, "output_tokens": 25, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 50}
MODEL = "claude-opus-4-5"
PLACES = {
    "YOUBENCHA_TOOLBOX": str(toolbox_dir(os.environ)),
    **{name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ},
}
SIDECAR = ".thunderdome-metrics.json"

pytestmark = pytest.mark.real_cli


def environment(model: ScriptedModel) -> dict[str, str]:
    """What the harness has, and its agent does not."""
    return {**PLACES, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}


def claude(cli: InstalledAgent, **config: Any) -> dict[str, Any]:
    given = {"prompt": "Fix the tax.", **config}
    return {"type": "claude-code", "version": cli.version, "model": MODEL, "config": given}


async def run_in(runs: RunBench, image: str, agent: dict[str, Any], answers: Script, **more: Any) -> Outcome:
    sandbox = {"type": "docker", "image": image, **more.pop("sandbox", {})}
    async with ScriptedModel(answers) as model:
        done = await runs.run(agent, sandbox=sandbox, env=environment(model), **more)
    assert containers_of(done.artifacts.parent.name) == []
    return done


def ledger(done: Outcome) -> list[dict[str, Any]]:
    assert done.bundle.agent is not None
    assert done.bundle.agent.gateway is not None
    return list(read_ledger(done.artifacts / done.bundle.agent.gateway.ledger))


@versions(NEWEST, full(OLD))
async def test_claude_code(runs: RunBench, image: str, claude_cli: InstalledAgent) -> None:
    """The newest is talked to over its stdin and stdout, the older one over a WebSocket."""
    answers = script(
        bash("pwd; id -u; env | sort > environment.txt; ls -la / ~"),
        bash("echo 'TAX = 0.2' > src/prices.py"),
        says("Done."),
        usage=TOKENS,
    )
    tests = {"name": "command", "config": {"command": "python3 -c 'import os; print(os.getcwd())'"}}
    transport = "websocket" if claude_cli.version == OLD else "stdio"
    agent = claude(claude_cli, transport=transport)
    done = await run_in(runs, image, agent, answers, evaluators=["git-diff", tests])
    assert done.done.code == 0, done.done.err
    bundle, log = done.bundle, done.log
    assert "+TAX = 0.2" in done.diff
    assert SIDECAR not in done.diff
    assert bundle.agent is not None
    assert bundle.agent.sandbox is not None
    assert (bundle.agent.sandbox.type, bundle.agent.sandbox.image, bundle.agent.sandbox.network) == (
        "docker", image, "gateway",
    )  # fmt: skip
    assert (bundle.agent.sandbox.image_id or "").startswith("sha256:")

    first = log.tool_calls[0]
    assert str(first.result).startswith(f"/workspace\n{os.getuid()}\n"), first
    inside = (done.tree / "environment.txt").read_text()
    assert "HOME=/home/agent" in inside
    assert "ANTHROPIC_API_KEY=sk-yb-" in inside
    assert API_KEY not in inside
    assert str(runs.home) not in inside

    lines = [line for line in ledger(done) if line["path"] == "/v1/messages"]
    usage = log.usage
    assert usage is not None
    counted = {
        "input_tokens": sum(line["input_tokens"] for line in lines),
        "output_tokens": sum(line["output_tokens"] for line in lines),
        "cache_read_tokens": sum(line["cache_read_tokens"] for line in lines),
        "cache_creation_tokens": sum(line["cache_creation_tokens"] for line in lines),
    }
    assert counted["cache_read_tokens"] == len(lines) * 700 >= 3 * 700
    assert {name: getattr(usage, name) for name in counted} == counted
    sidecar = json.loads((done.artifacts / SIDECAR).read_text())
    assert {name: sidecar[name] for name in counted} == counted
    assert sidecar["tools_used"] == ["Bash"]
    assert bundle.identity.agent_sha256 == claude_cli.sha256
    assert bundle.evaluators[1].status == "passed"
    output = (done.artifacts / bundle.evaluators[1].artifacts[0].path).read_text()
    assert output == "/workspace\n"


@pytest.mark.parametrize("program", ["/bin/sh", "sh"])
async def test_a_program_of_the_image_is_not_the_hosts(runs: RunBench, image: str, program: str) -> None:
    agent = {"type": "command", "config": {"command": [program, "-c", "true"]}}
    done = await runs.run(agent, sandbox={"type": "docker", "image": image}, env=PLACES, evaluators=["git-diff"])
    identity = done.bundle.identity
    assert (identity.agent_executable, identity.agent_sha256) == (program, None)


@pytest.mark.full
async def test_aider(runs: RunBench, image: str) -> None:
    cli = installed("aider")
    edit = "src/prices.py\n```\n<<<<<<< SEARCH\nTAX = 0.19\n=======\nTAX = 0.2\n>>>>>>> REPLACE\n```\n"
    agent = {
        "type": "aider",
        "version": cli.version,
        "model": "anthropic/claude-sonnet-4-5",
        "config": {"prompt": "Fix the tax.", "files": ["src/prices.py"]},
    }
    done = await run_in(runs, image, agent, script(says(edit), usage=TOKENS, tools_optional=True))
    assert done.done.code == 0, done.done.err
    assert "+TAX = 0.2" in done.diff
    assert ".aider" not in done.diff
    lines = [line for line in ledger(done) if line["path"] == "/v1/messages"]
    usage = done.log.usage
    assert usage is not None
    assert len(lines) == 1
    assert (usage.input_tokens, usage.output_tokens) == (lines[0]["input_tokens"], lines[0]["output_tokens"])
    assert (usage.cache_read_tokens, usage.cost_source) == (700, "gateway")


async def test_any_program(runs: RunBench, image: str) -> None:
    """A user's script, with the Thunderdome's contract."""
    script_file = runs.root / "adapter.sh"
    script_file.write_text(
        "#!/bin/bash\n"
        'set -eu; cd "$TASK_DIR"; cp "$TASK_DESCRIPTION" task.txt; echo "$PROXY_URL" > proxy.txt\n'
        'echo \'{"input_tokens": 12, "output_tokens": 3, "turns": 1, "tools_used": ["sed"]}\' '
        f"> {SIDECAR}\n"
    )
    script_file.chmod(0o755)
    agent = {"type": "command", "config": {"command": ["./adapter.sh"], "prompt": "Do it."}, "env": {"WHO": "me"}}
    done = await run_in(runs, image, agent, script(says("Never asked.")))
    assert done.done.code == 0, done.done.err
    assert (done.tree / "task.txt").read_text().strip() == "Do it."
    assert (done.tree / "proxy.txt").read_text().strip() == "http://127.0.0.1:4000"
    assert SIDECAR not in done.diff
    sidecar = json.loads((done.artifacts / SIDECAR).read_text())
    assert (sidecar["turns"], sidecar["tools_used"], sidecar["ended"]) == (1, ["sed"], "completed")
    assert (sidecar["input_tokens"], sidecar["output_tokens"]) == (12, 3)  # nothing went through the gateway
    assert done.bundle.agent is not None
    assert done.bundle.agent.warnings == ()


@versions(NEWEST)
async def test_a_deadline_ends_the_container(runs: RunBench, image: str, claude_cli: InstalledAgent) -> None:
    answers = script(bash("echo begun > begun.txt; sleep 1000"), says("Never said."), usage=TOKENS)
    done = await cut_off(
        lambda timeout: run_in(runs, image, claude(claude_cli), answers, timeout=timeout), 8_000, "begun.txt"
    )
    assert done.done.code == 1
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "limit"
    assert done.log.execution.status == "timeout"
    assert "begun.txt" in done.diff
    assert done.log.usage is not None
    assert done.log.usage.input_tokens
    assert (done.artifacts / SIDECAR).is_file()


async def test_a_missing_key_is_reported(runs: RunBench, image: str) -> None:
    """It could reach nothing else, so this is reported before anything runs."""
    runs.write_case({"type": "claude-code", "config": {"prompt": "Hello."}}, sandbox={"type": "docker", "image": image})
    done = await runs.yb("run", "-c", str(runs.case_file), env=PLACES)
    assert done.code == 2
    assert "ANTHROPIC_API_KEY" in done.err
    assert runs.runs() == []


@pytest.mark.parametrize(
    ("sandbox", "wanted"),
    [
        ({"image": "youbencha/there-is-none:1"}, ("SANDBOX_IMAGE", "youbencha/there-is-none:1")),
        ({"image": "youbencha/there-is-none:1", "network": "none"}, ("SANDBOX_IMAGE",)),
    ],
)
async def test_a_missing_image(runs: RunBench, image: str, sandbox: dict[str, Any], wanted: tuple[str, ...]) -> None:
    runs.write_case(runs.program("true"), sandbox={"type": "docker", **sandbox})
    done = await runs.yb("run", "-c", str(runs.case_file), env=PLACES)
    assert done.code == 2
    assert [text for text in wanted if text not in done.err] == []
    assert runs.runs() == []


async def test_a_program_that_is_not_in_the_image_is_no_verdict(runs: RunBench, image: str) -> None:
    evaluators = [{"name": "command", "config": {"command": "no-such-program"}}]
    sandbox = {"type": "docker", "image": image, "network": "none"}
    agent = {"type": "command", "config": {"command": ["true"], "prompt": "Nothing."}}
    done = await runs.run(agent, sandbox=sandbox, env=PLACES, evaluators=evaluators)
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "verifier_error"
    (result,) = done.bundle.evaluators
    assert result.error is not None
    assert result.error.code in ("COMMAND_NOT_FOUND", "COMMAND_NOT_STARTED")
    assert containers_of(done.artifacts.parent.name) == []


@versions(NEWEST)
async def test_a_judge_runs_in_a_container_too(runs: RunBench, image: str, claude_cli: InstalledAgent) -> None:
    """It has tools, and it reads files of an agent that may want to misuse them."""
    secret = runs.root / "secret.txt"
    secret.write_text("the host's")
    verdict = json.dumps({"assertions": {"fixed": {"score": 1, "reason": "seen"}}, "message": "well"})
    # Not the whole key, which the gateway would mask in the model's answer.
    look = f"env | grep -c {API_KEY[:-1]}[{API_KEY[-1]}]; cat link; pwd; git log --oneline | wc -l; ls -d '{runs.home}'"
    answers = script(bash(look), says(verdict), usage=TOKENS)
    asked = {"type": "claude-code", "version": claude_cli.version, "model": MODEL, "assertions": {"fixed": "It is."}}
    judge = {"name": "agentic-judge", "config": asked}
    agent = runs.program(f"ln -s '{secret}' link; echo 'TAX = 0.2' > src/prices.py")
    done = await run_in(runs, image, agent, answers, evaluators=["git-diff", judge])
    judged = done.bundle.evaluators[1]
    assert judged.status == "passed", judged
    log = json.loads((done.artifacts / "evaluators" / "agentic-judge" / "vote-1" / "youbencha-log.json").read_text())
    heard = log["tool_calls"][0]["result"]
    assert "the host's" not in heard
    assert heard.splitlines()[0] == "0"
    assert "/workspace" in heard
    assert "No such file or directory" in heard


async def test_no_set_uid_program_is_left(runs: RunBench, image: str) -> None:
    """A container has no capabilities, but may set that permission on its files, which belong to the harness's user."""
    plant = "cp /bin/busybox {0} 2>/dev/null || cp /bin/sh {0}; chmod 6755 {0}"
    capability = "python3 -c \"import os; os.setxattr('shell', 'security.capability', bytes(20))\" && touch capable"
    in_place = {"name": "command", "config": {"command": plant.format("again"), "shell": True, "copy": False}}
    agent = runs.program(f"{plant.format('shell')}; {capability}; ls -l shell")
    done = await runs.run(
        agent, sandbox={"type": "docker", "image": image}, env=PLACES, evaluators=[in_place], timeout=60_000
    )
    assert "rws" in (next((done.artifacts).glob("*-logs/terminal-output-*.log"))).read_text()  # it was one
    assert {name: oct((done.tree / name).stat().st_mode & 0o7777) for name in ("shell", "again")} == {
        "shell": "0o755",
        "again": "0o755",
    }
    assert not (done.tree / "capable").exists()
    assert "set-uid or set-gid permissions were removed: shell" in done.bundle.model_dump_json()
    assert done.artifacts.parent.stat().st_mode & 0o777 == 0o700
