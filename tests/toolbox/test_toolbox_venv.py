from __future__ import annotations

import os
import subprocess

import pytest
from toolbox_packages import WheelHouse, posix

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = posix

SAYS = "import sys\nprint('aider', '0.5.0', *sys.argv[2:])\n"


async def test_a_python_agent_gets_its_own_environment(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.add("aider_chat", "0.5.0", {"aider/__init__.py": "", "aider/__main__.py": SAYS})
    have = await toolbox.install("aider")
    assert (have.version, have.source, have.package) == ("0.5.0", "pypi", "aider-chat==0.5.0")
    launcher = have.executable.read_text()
    assert ".partial" not in launcher  # it was renamed after it was made
    assert "# aider-chat==0.5.0\n" in launcher  # its digest stands for all packages

    workspace = toolbox.root / "workspace"
    workspace.mkdir()
    (workspace / "aider.py").write_text("print('not the agent')")
    command = [*have.command, "--version", "two words"]
    assert subprocess.check_output(command, text=True, cwd=workspace) == "aider 0.5.0 two words\n"


@pytest.mark.full
async def test_a_gateway_is_installed_the_same_way_with_its_extra(toolbox: Toolbox, wheels: WheelHouse) -> None:
    says = "print('LiteLLM: Current Version = 1.2.3')\n"
    files = {"litellm/__init__.py": "", "litellm/proxy/__init__.py": "", "litellm/proxy/proxy_cli.py": says}
    wheels.add("litellm", "1.2.3", files)
    have = await toolbox.install("litellm")
    assert (have.version, have.package, have.executable.name) == ("1.2.3", "litellm[proxy]==1.2.3", "litellm")


@pytest.mark.parametrize(
    ("version", "needs", "code", "reason"),
    [
        ("0.5.0", "Requires-Dist: lite_llm==1.47.0", "AGENT_DEPENDENCY_NOT_FOUND", "it needs lite_llm==1.47.0"),
        ("0.5.0", "Requires-Python: >=4.1", "PYTHON_UNSUPPORTED", "'>=4.1'"),
        ("0.6.0", "Requires-Python: >=4.1", "AGENT_VERSION_NOT_FOUND", "aider-chat==0.6.0"),
    ],
)
async def test_a_version_that_exists_but_cannot_be_installed(
    version: str, needs: str, code: str, reason: str, toolbox: Toolbox, wheels: WheelHouse
) -> None:
    wheels.add("aider_chat", "0.5.0", {"aider/__init__.py": "", "aider/__main__.py": SAYS}, needs=needs)
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("aider", version)
    assert caught.value.code == code
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "index", ["http://pypi.invalid/simple", "https://pypi.invalid/simple", "https://127.0.0.1:9/s"]
)
async def test_an_unreachable_index(index: str, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"INDEX_URL": index, "RETRIES": "1", "CONFIG_FILE": os.devnull, "FIND_LINKS": "", "NO_INDEX": "0"}
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    for version in ("0.5.0", None):
        with pytest.raises(YouBenchaError) as caught:
            await toolbox.install("aider", version)
        assert caught.value.code == "TOOLBOX_NETWORK"
