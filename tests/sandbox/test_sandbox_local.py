"""A local sandbox: which parts of a user's home affect a trial, and which tools keep working."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from youbencha.process import Command
from youbencha.sandbox.local import HOST, TOOL_VARIABLES, LocalSandbox, open_local_sandbox, tool_homes
from youbencha.store.bundle import SandboxReport
from youbencha.user_dirs import toolbox_dir

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="homes are elsewhere there")


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """A user with settings of their own."""
    home = tmp_path / "person"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Person\n\temail = person@example.invalid\n[alias]\n\tst = status\n"
    )
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


@pytest.fixture
def sandbox(tmp_path: Path) -> LocalSandbox:
    return open_local_sandbox(scratch=tmp_path / "scratch")


@on_posix
def test_a_fresh_home(sandbox: LocalSandbox, person: dict[str, str], tmp_path: Path) -> None:
    env = sandbox.environment({**person, "XDG_CONFIG_HOME": person["HOME"] + "/.config", "TMPDIR": "/somewhere"})
    home = tmp_path / "scratch" / "home"
    assert env["HOME"] == str(home)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        assert Path(env[name]).is_relative_to(home)
        assert Path(env[name]).is_dir()
    assert (env["PATH"], env["TMPDIR"]) == (person["PATH"], "/somewhere")
    assert home.stat().st_mode & 0o077 == 0


@on_posix
@pytest.mark.parametrize(
    "name",
    ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "OPENCODE_CONFIG", "GIT_CONFIG_GLOBAL", "XDG_RUNTIME_DIR"],
)
def test_variables_that_lead_to_the_users_settings_are_removed(
    name: str, sandbox: LocalSandbox, person: dict[str, str]
) -> None:
    assert name not in sandbox.environment({**person, name: person["HOME"]})


@on_posix
def test_the_toolbox_directory_is_unchanged(sandbox: LocalSandbox, person: dict[str, str], tmp_path: Path) -> None:
    for given in ({}, {"XDG_DATA_HOME": str(tmp_path / "data")}, {"YOUBENCHA_TOOLBOX": str(tmp_path / "box")}):
        env = {**person, **given}
        assert toolbox_dir(sandbox.environment(env)) == toolbox_dir(env)


def test_report_of_the_sandbox(sandbox: LocalSandbox) -> None:
    assert sandbox.report() == SandboxReport(type="local", fresh_home=True)
    assert HOST.report() == SandboxReport(type="local", fresh_home=False)


@on_posix
async def test_an_agent_can_commit_but_not_as_the_user(
    sandbox: LocalSandbox, person: dict[str, str], tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    env = sandbox.environment({**person, "GIT_CONFIG_NOSYSTEM": "1"})
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Done."]):
        done = await sandbox.run(Command(argv=("git", *words), cwd=tree, env=env))
        assert done.exit.code == 0, done.output
    log = ["git", "-C", str(tree), "log", "-1", "--format=%an <%ae>"]
    author = subprocess.run(log, env=env, capture_output=True, text=True, check=True).stdout
    assert author == "youBencha agent <agent@youbencha.invalid>\n"
    alias = await sandbox.run(Command(argv=("git", "st"), cwd=tree, env=env))
    assert alias.exit.code != 0


# -- tools in the home -----------------------------------------------------------------------------------------------


def test_tool_directories_of_the_home_are_found(tmp_path: Path) -> None:
    for below in (".pyenv", ".cache/uv", ".local/share/mise", "go/pkg/mod", ".cargo", ".local/lib"):
        (tmp_path / below).mkdir(parents=True)
    assert tool_homes({}, tmp_path, "linux") == {
        "PYENV_ROOT": str(tmp_path / ".pyenv"),
        "UV_CACHE_DIR": str(tmp_path / ".cache" / "uv"),
        "MISE_DATA_DIR": str(tmp_path / ".local" / "share" / "mise"),
        "GOMODCACHE": str(tmp_path / "go" / "pkg" / "mod"),
        "PYTHONUSERBASE": str(tmp_path / ".local"),
    }


def test_the_users_variables_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".npm").mkdir()
    assert tool_homes({"npm_config_cache": "/elsewhere"}, tmp_path, "linux") == {}
    assert tool_homes({"NPM_CONFIG_CACHE": ""}, tmp_path, "linux") == {"NPM_CONFIG_CACHE": str(tmp_path / ".npm")}


def test_tool_directories_of_other_systems(tmp_path: Path) -> None:
    (tmp_path / "Library" / "Caches" / "pip").mkdir(parents=True)
    assert tool_homes({}, tmp_path, "darwin") == {"PIP_CACHE_DIR": str(tmp_path / "Library" / "Caches" / "pip")}
    assert tool_homes({}, tmp_path, "linux") == {}
    (tmp_path / "Local" / "pip").mkdir(parents=True)
    local = {"LOCALAPPDATA": str(tmp_path / "Local")}
    assert tool_homes(local, tmp_path, "win32") == {"PIP_CACHE_DIR": str(tmp_path / "Local" / "pip")}


def test_no_tool_directory_with_credentials() -> None:
    assert TOOL_VARIABLES.isdisjoint({"CARGO_HOME", "GRADLE_USER_HOME", "HF_HOME", "CODEX_HOME"})
