"""What an agent was given is kept, without secrets, in the artifacts of a run of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_agent_files import write
from trial_bench import TrialBench

from youbencha.process import Redactor
from youbencha.spec.testcase import AgentSpec
from youbencha.trial.kept_files import keep_agent_files
from youbencha.trial.run import run_trial

SECRET = "correct-horse-battery"
SHAPED = "sk-ant-api03-0123456789abcdef"
KEPT = {
    ".mcp.json": (
        f'{{"env": {{"A_TOKEN": "{SECRET}", "B_TOKEN": "${{B_TOKEN}}"}}, "max_tokens": 128000}}',
        '{"env": {"A_TOKEN": "[REDACTED]", "B_TOKEN": "${B_TOKEN}"}, "max_tokens": 128000}',
    ),
    "two.json": (
        f'{{"one": {{"TOKEN": "{SECRET}"}}, "two": {{"TOKEN": "second-{SECRET}"}}}}',
        '{"one": {"TOKEN": "[REDACTED]"}, "two": {"TOKEN": "[REDACTED]"}}',
    ),
    "args.json": (
        f'["--api-key", "{SECRET}", "--token=other-{SECRET}", "monkey", "elephant"]',
        '["--api-key", "[REDACTED]", "--token=[REDACTED]", "monkey", "elephant"]',
    ),
    "config.toml": (f"[a]\napi_key = '{SECRET}'\n", "[a]\napi_key = '[REDACTED]'\n"),
    "settings.yaml": (f"a:\n  - password: {SECRET}\n", "a:\n  - password: [REDACTED]\n"),
    ".npmrc": (f"//x/:_authToken={SECRET}\n", "//x/:_authToken=[REDACTED]\n"),
    ".env": (f"export API_KEY={SECRET}\n", "export API_KEY=[REDACTED]\n"),
    "CLAUDE.md": (f"Token: required everywhere.\n{SHAPED}\n", "Token: required everywhere.\n[REDACTED]\n"),
    "known.txt": ("It is known-to-the-harness.\n", "It is [REDACTED].\n"),
}


@pytest.mark.parametrize("name", KEPT)
def test_secrets_are_masked(tmp_path: Path, name: str) -> None:
    text, expected = KEPT[name]
    write(tmp_path / "given", {name: text})
    agent = AgentSpec.model_validate({"type": "claude-code", "home": "given"})
    keep_agent_files(agent, tmp_path, tmp_path / "kept", Redactor(["known-to-the-harness"]))
    assert (tmp_path / "kept/home" / name).read_text() == expected


def test_the_configuration_is_kept_without_secrets(tmp_path: Path) -> None:
    servers = json.dumps({"mcpServers": {"a": {"env": {"API_KEY": SECRET}}}})
    config = {"prompt": "Not here.", "append_system_prompt": "Be brief.", "mcp_config": servers}
    env = {"OTHER_KEY": f"other-{SECRET}", "PLAIN": "plain"}
    agent = AgentSpec.model_validate({"type": "claude-code", "config": config, "env": env, "without": ["CLAUDE.md"]})
    keep_agent_files(agent, tmp_path, tmp_path / "kept", Redactor())
    written = (tmp_path / "kept/agent.json").read_text()
    assert SECRET not in written
    about = json.loads(written)["agent"]
    assert (about["without"], about["env"]["PLAIN"]) == (["CLAUDE.md"], "plain")
    assert about["config"]["append_system_prompt"] == "Be brief."
    assert "prompt" not in about["config"]


def test_large_files_are_only_listed(tmp_path: Path) -> None:
    write(tmp_path / "given", {"large.txt": "x" * 2_000_000, "small.txt": "x"})
    agent = AgentSpec.model_validate({"type": "claude-code", "home": "given"})
    keep_agent_files(agent, tmp_path, tmp_path / "kept", Redactor())
    files = json.loads((tmp_path / "kept/agent.json").read_text())["files"]
    assert [(file["path"], file["kept"], file["size"]) for file in files] == [
        ("home/large.txt", False, 2_000_000),
        ("home/small.txt", True, 1),
    ]
    assert not (tmp_path / "kept/home/large.txt").exists()


async def test_a_run_keeps_the_files_of_its_agent(trials: TrialBench) -> None:
    write(trials.root / "overlay", {"AGENTS.md": "Be brief.\n"})
    case = trials.case("open('made', 'w')", workspace_dir=str(trials.runs))
    agent = AgentSpec.model_validate({**case.agent.model_dump(), "files": "overlay"})
    host = trials.host()
    done = await run_trial(trials.plan(host, case.model_copy(update={"agent": agent})), host)
    assert done.bundle.artifacts.agent_files == "agent-files"
    assert (done.directory.artifacts / "agent-files/files/AGENTS.md").read_text() == "Be brief.\n"
    assert done.bundle.agent is not None
    assert done.bundle.agent.warnings == ()
