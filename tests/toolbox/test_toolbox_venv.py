from __future__ import annotations

import subprocess

from toolbox_packages import WheelHouse, posix

from youbencha.sandbox.toolbox import Toolbox

pytestmark = posix

SAYS = "import sys\nprint('aider', '0.5.0', *sys.argv[2:])\n"


async def test_a_python_agent_gets_an_environment_that_survives_the_rename(
    toolbox: Toolbox, wheels: WheelHouse
) -> None:
    wheels.add("aider_chat", "0.5.0", {"aider/__init__.py": "", "aider/__main__.py": SAYS})
    have = await toolbox.install("aider")
    assert (have.version, have.source, have.package) == ("0.5.0", "pypi", "aider-chat==0.5.0")
    done = subprocess.run([*have.command, "--version", "two words"], capture_output=True, text=True)
    assert done.stdout == "aider 0.5.0 two words\n"
    assert ".partial" not in have.executable.read_text()


async def test_the_digest_stands_for_all_packages_of_the_environment(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.add("aider_chat", "0.5.0", {"aider/__init__.py": "", "aider/__main__.py": SAYS})
    assert "# aider-chat==0.5.0\n" in (await toolbox.install("aider", "0.5.0")).executable.read_text()


async def test_a_file_in_the_workspace_does_not_replace_the_agent(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.add("aider_chat", "0.5.0", {"aider/__init__.py": "", "aider/__main__.py": SAYS})
    have = await toolbox.install("aider")
    workspace = toolbox.root / "workspace"
    workspace.mkdir()
    (workspace / "aider.py").write_text("print('not the agent')")
    done = subprocess.run([*have.command, "--version"], capture_output=True, text=True, cwd=workspace)
    assert done.stdout == "aider 0.5.0\n"


async def test_a_gateway_is_installed_in_the_same_way_with_its_optional_part(
    toolbox: Toolbox, wheels: WheelHouse
) -> None:
    says = "print('LiteLLM: Current Version = 1.2.3')\n"
    files = {"litellm/__init__.py": "", "litellm/proxy/__init__.py": "", "litellm/proxy/proxy_cli.py": says}
    wheels.add("litellm", "1.2.3", files)
    have = await toolbox.install("litellm")
    assert (have.version, have.package, have.executable.name) == ("1.2.3", "litellm[proxy]==1.2.3", "litellm")
