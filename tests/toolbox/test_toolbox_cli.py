from __future__ import annotations

import json
from pathlib import Path

import pytest
from toolbox_packages import WheelHouse, plant, posix, says

from yb import yb
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = posix


@pytest.fixture(autouse=True)
def ours(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOUBENCHA_TOOLBOX", str(toolbox.root))


def agents(*arguments: str) -> str:
    done = yb("agents", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str) -> str:
    done = yb("agents", *arguments)
    assert done.returncode == 2
    return done.stderr


def test_install_prints_the_path(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.sdk("0.1.14", "2.0.62")
    assert agents("install", "claude-code@2.0.62") == f"{toolbox.root / 'claude-code/2.0.62/claude'}\n"


def test_one_unknown_name_installs_nothing(toolbox: Toolbox, wheels: WheelHouse) -> None:
    wheels.sdk("0.1.14", "2.0.62")
    assert "Unknown agent 'clade'" in refused("install", "claude-code@2.0.62", "clade")
    assert toolbox.installed() == []


def test_list_as_json(toolbox: Toolbox, only_programs: Path) -> None:
    have = plant(toolbox, "2.0.62")
    on_path = only_programs / "claude"
    on_path.write_text(says("1.0.7"))
    on_path.chmod(0o755)
    ours, found = json.loads(agents("list", "--json"))
    assert ours["source"] == "pypi"
    assert ours["executable"] == str(have.executable)
    assert ours["sha256"] == have.sha256
    assert (found["agent"], found["version"], found["source"]) == ("claude-code", "1.0.7", "PATH")
    assert found["executable"] == str(on_path)


@pytest.mark.parametrize(
    ("asked", "on_path", "found"),
    [
        ("claude-code", None, "3.0.1"),
        ("claude-code", "1.0.7", "PATH"),
        ("claude-code@2.0.62", None, "2.0.62"),
        ("claude-code@2.0.62", "1.0.7", "2.0.62"),
        ("claude-code@1.0.7", "1.0.7", "PATH"),
        ("claude-code@2.0.63", "1.0.7", None),
        ("codex", None, None),
    ],
)
def test_path_prints_the_program_that_a_run_would_use(
    toolbox: Toolbox, only_programs: Path, asked: str, on_path: str | None, found: str | None
) -> None:
    programs = {version: plant(toolbox, version).executable for version in ("2.0.62", "3.0.1")}
    programs["PATH"] = only_programs / "claude"
    if on_path:
        programs["PATH"].write_text(says(on_path))
        programs["PATH"].chmod(0o755)
    done = yb("agents", "path", asked)
    if found:
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{programs[found]}\n", "")
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{asked} is neither on PATH nor in the toolbox" in done.stderr
        assert f"`yb agents install {asked}`" in done.stderr


def test_list_as_text(toolbox: Toolbox, only_programs: Path) -> None:
    have = plant(toolbox, "2.0.62")
    line = next(line for line in agents("list").splitlines() if "2.0.62" in line)
    assert line.split() == ["claude-code", "2.0.62", "pypi", "0", "MB", have.sha256[:12], "claude-code/2.0.62/claude"]


def test_a_program_on_path_without_a_version(only_programs: Path) -> None:
    (only_programs / "codex").write_text("#!/bin/sh\nexit 1\n")
    (only_programs / "codex").chmod(0o755)
    assert json.loads(agents("list", "--json"))[0]["version"] is None


def test_an_empty_list_has_a_hint(only_programs: Path) -> None:
    assert "yb agents install claude-code" in agents("list")


def test_remove_needs_a_version(toolbox: Toolbox) -> None:
    plant(toolbox, "2.0.62")
    assert "AGENT_VERSION_INVALID" in refused("remove", "claude-code")
    agents("remove", "claude-code@2.0.62")
    assert toolbox.installed() == []


def test_verify_names_all_changed_installations(toolbox: Toolbox) -> None:
    changed, damaged = plant(toolbox, "2.0.62"), plant(toolbox, "2.0.53")
    assert agents("verify").count("ok ") == 2
    changed.executable.write_text("something else")
    (damaged.executable.parent / "manifest.json").write_text("")
    message = refused("verify")
    assert "claude-code@2.0.62 has changed" in message
    assert f"{damaged.executable.parent} is damaged" in message
