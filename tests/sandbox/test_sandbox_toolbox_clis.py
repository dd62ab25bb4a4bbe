"""Every CLI of the toolbox starts in a bare image, with nothing but what is carried in: no install step, no Node.js."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agent_clis import OTHERS
from toolbox_tools import installed
from youbencha.adapters.base import AgentDescription
from youbencha.adapters.cli_agent import AgentCli
from youbencha.adapters.cli_agent.locate import CliFinder
from youbencha.process import Command, Limits
from youbencha.sandbox.docker.sandbox import open_docker_sandbox
from youbencha.sandbox.toolbox.catalogue import lookup
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.spec.sandbox import SandboxSpec
from youbencha.user_dirs import TOOLBOX_VARIABLE

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.skipif(sys.platform != "linux", reason="CLIs of this computer run in containers on Linux only"),
]
ENV = {name: os.environ[name] for name in ("PATH", "HOME", TOOLBOX_VARIABLE)}


async def starts(have: InstalledAgent, image: str, directory: Path) -> AgentCli:
    tree = directory / "tree"
    tree.mkdir()

    class Installed(AgentDescription):
        name = title = have.agent
        prefix = "X"
        program = lookup(have.agent).command

    spec = SandboxSpec(type="docker", image=image)
    run_id = f"test-{os.urandom(6).hex()}"
    async with open_docker_sandbox(
        spec, workspace=tree, scratch=directory / "scratch", run_id=run_id, on_event=lambda event: None
    ) as sandbox:
        cli = await CliFinder(Installed).locate(ENV, executable=None, version=have.version, sandbox=sandbox)
        command = Command(argv=(*cli.argv, "--version"), cwd=tree, env=sandbox.environment({}))
        done = await sandbox.run(command, limits=Limits(timeout_s=120))
    assert (done.exit.code, have.version in done.output) == (0, True), done.output
    return cli


@pytest.mark.full
@pytest.mark.parametrize("name", ["aider", *OTHERS])
async def test_each_cli_starts(name: str, image: str, tmp_path: Path) -> None:
    cli = await starts(installed(name), image, tmp_path)
    assert not any(path.is_relative_to("/usr") for path in cli.needs)  # what the image has stays as it is


async def test_claude_code_starts(claude_cli: InstalledAgent, image: str, tmp_path: Path) -> None:
    cli = await starts(claude_cli, image, tmp_path)
    assert cli.sha256 == claude_cli.sha256
