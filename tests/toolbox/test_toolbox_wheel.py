from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from toolbox_packages import SDK, Lines, Registry, WheelHouse, needs_npm, node_says, posix, says

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.fetch import explain
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = posix


async def test_the_newest_wheel_is_installed_once_and_described(
    toolbox: Toolbox, wheels: WheelHouse, lines: Lines
) -> None:
    wheels.sdk("0.9.8", "9.9.8")
    wheels.sdk("0.9.10", "9.9.9")
    have = await toolbox.install("claude-code")
    assert (have.agent, have.version, have.source) == ("claude-code", "9.9.9", "pypi")
    assert have.package == "claude-agent-sdk==0.9.10"
    assert have.executable == toolbox.root / "claude-code" / "9.9.9" / "claude"
    assert have.sha256 == hashlib.sha256(says("9.9.9").encode()).hexdigest()
    assert have.size_bytes == len(says("9.9.9"))
    assert subprocess.run(have.command, capture_output=True, text=True).stdout == "9.9.9 (Claude Code)\n"
    assert toolbox.installed() == [have]
    assert toolbox.find("claude-code") == have
    kept = sorted(path.name for path in have.executable.parent.rglob("*"))
    assert kept == ["claude", "manifest.json"]
    manifest = json.loads((have.executable.parent / "manifest.json").read_text())
    assert manifest["executable"] == "claude"
    assert manifest["sha256"] == have.sha256
    assert await toolbox.install("claude-code", "latest", progress=lines.add) == have
    assert lines
    assert not any(line.startswith("downloading") for line in lines)


async def test_an_installed_version_is_not_fetched_again_or_from_another_source(
    toolbox: Toolbox, wheels: WheelHouse, lines: Lines
) -> None:
    wheel = wheels.sdk("0.1.14", "2.0.62")
    first = await toolbox.install("claude-code", "2.0.62")
    wheel.unlink()
    assert await toolbox.install("claude-code", "2.0.62", progress=lines.add) == first
    assert lines == ["claude-code 2.0.62 is already installed"]
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("claude-code", "2.0.62", source="npm")
    assert caught.value.code == "AGENT_FROM_OTHER_SOURCE"


async def test_a_wheel_that_carries_another_version_is_refused(toolbox: Toolbox, copied_wheels: WheelHouse) -> None:
    copied_wheels.sdk("0.1.14", "2.0.61")
    with pytest.raises(YouBenchaError, match=r"version 2\.0\.61, not 2\.0\.62"):
        await toolbox.install("claude-code", "2.0.62", source="pypi")
    assert toolbox.installed() == []


async def test_a_binary_with_another_version_is_refused(toolbox: Toolbox, copied_wheels: WheelHouse) -> None:
    copied_wheels.sdk("0.1.14", "2.0.62", binary=says("2.0.99"))
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("claude-code", "2.0.62", source="pypi")
    assert caught.value.code == "AGENT_VERSION_MISMATCH"
    assert toolbox.installed() == []


async def test_a_binary_that_does_not_run_is_refused(toolbox: Toolbox, copied_wheels: WheelHouse) -> None:
    copied_wheels.sdk("0.1.14", "2.0.62", binary="#!/bin/sh\necho 2.0.62\necho no such processor >&2\nexit 3\n")
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("claude-code", "2.0.62", source="pypi")
    assert caught.value.code == "AGENT_CANNOT_RUN"
    assert "--version` failed: exit code 3: " in caught.value.message
    assert "no such processor" in caught.value.message
    assert toolbox.installed() == []


async def test_the_binary_is_tried_in_a_clean_environment(
    toolbox: Toolbox, copied_wheels: WheelHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    strict = '#!/bin/sh\n[ -z "$ANTHROPIC_API_KEY" ] && touch "$HOME/dropped" && echo 2.0.62\n'
    copied_wheels.sdk("0.1.14", "2.0.62", binary=strict)
    have = await toolbox.install("claude-code", "2.0.62", source="pypi")
    assert list(toolbox.root.rglob("dropped")) == []
    assert have.version == "2.0.62"


async def test_a_wheel_without_a_cli_is_refused(toolbox: Toolbox, copied_wheels: WheelHouse) -> None:
    copied_wheels.add(SDK, "0.1.14", {f"{SDK}/__init__.py": ""})
    with pytest.raises(YouBenchaError, match="contains no CLI"):
        await toolbox.install("claude-code", "2.0.62", source="pypi")


async def test_a_deleted_release_is_reported_as_missing(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.sdk("0.9.10", "9.9.9")
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("claude-code", "2.0.62", source="pypi")
    assert caught.value.code == "AGENT_VERSION_NOT_FOUND"
    assert "claude-agent-sdk==0.1.14" in caught.value.message


@needs_npm
async def test_npm_is_the_fallback_for_a_deleted_release(
    toolbox: Toolbox, wheels: WheelHouse, registry: Registry, lines: Lines
) -> None:
    registry.add("@anthropic-ai/claude-code", "2.0.62", {"cli.js": node_says("2.0.62")}, bin={"claude": "cli.js"})
    have = await toolbox.install("claude-code", "2.0.62", progress=lines.add)
    assert have.source == "npm"
    assert any(line.startswith("pypi failed (") and line.endswith("trying npm instead") for line in lines)


async def test_without_npm_pips_error_is_reported(toolbox: Toolbox, wheels: WheelHouse, only_programs: Path) -> None:
    with pytest.raises(YouBenchaError, match=r"pip could not fetch claude-agent-sdk==0\.1\.14"):
        await toolbox.install("claude-code", "2.0.62")


def test_a_python_without_pip_is_reported_with_a_hint(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = subprocess.run([tmp_path / "bare/bin/python", "-I", "-m", "pip"], capture_output=True, text=True)
    error = explain("pip", "claude-agent-sdk", bare.stderr)
    assert error.code == "PIP_NOT_FOUND"
    assert "ensurepip" in str(error)
    assert "uv pip install pip" in str(error)


@pytest.mark.parametrize(("version", "code"), [("0.86.2", "PYTHON_UNSUPPORTED"), ("0.87", "AGENT_VERSION_NOT_FOUND")])
def test_versions_of_an_index_for_other_pythons(version: str, code: str) -> None:
    output = (
        "ERROR: Ignored the following versions that require a different python version: 0.86.1 Requires-Python "
        "<3.13,>=3.10; 0.86.2 Requires-Python <3.13,>=3.10\n"
        f"ERROR: Could not find a version that satisfies the requirement aider-chat=={version} (from versions: 0.5)\n"
        f"ERROR: No matching distribution found for aider-chat=={version}\n"
    )
    error = explain("pip", f"aider-chat=={version}", output)
    assert error.code == code
    assert ("<3.13,>=3.10" in error.message) == (code == "PYTHON_UNSUPPORTED")
