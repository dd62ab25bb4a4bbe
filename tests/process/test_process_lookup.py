"""Programs are found as the system would find them, but never in the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from systems import ON_LINUX, posix_only
from youbencha.process import find_executable

PATH_AND_MODES = posix_only("what makes a file a program, and what parts a PATH, is different there")


def program(directory: Path, name: str, mode: int = 0o755) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


@PATH_AND_MODES
def test_the_first_on_the_path_wins(tmp_path: Path) -> None:
    first, second = program(tmp_path / "a", "tool"), program(tmp_path / "b", "tool")
    assert find_executable("tool", {"PATH": f"{tmp_path}/a:{tmp_path}/b"}) == first
    assert find_executable("tool", {"PATH": f"{tmp_path}/b:{tmp_path}/a"}) == second
    assert find_executable("tool", {"PATH": f"{tmp_path}/none:{tmp_path}/b"}) == second


@PATH_AND_MODES
def test_files_that_cannot_run_are_skipped(tmp_path: Path) -> None:
    program(tmp_path / "a", "tool", 0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    runnable = program(tmp_path / "c", "tool")
    assert find_executable("tool", {"PATH": f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c"}) == runnable
    assert find_executable("tool", {"PATH": f"{tmp_path}/a:{tmp_path}/b"}) is None


@pytest.mark.parametrize("path", ["", ":", ".", "bin", "./bin", ":bin:.:", ";", ";bin;.;"])
def test_the_current_directory_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    for name in ("tool", "tool.exe"):
        program(tmp_path, name)
        program(tmp_path / "bin", name)
    monkeypatch.chdir(tmp_path)
    for platform in ("linux", "win32"):
        assert find_executable("tool", {"PATH": path}, platform=platform) is None


@pytest.mark.parametrize("name", ["", ".", "..", "bin/tool", "/bin/sh", "./tool"])
def test_only_names_are_looked_up(tmp_path: Path, name: str) -> None:
    program(tmp_path / "bin", "tool")
    assert find_executable(name, {"PATH": f"{tmp_path}:{tmp_path}/bin:/"}) is None


def test_only_the_given_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "tool")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_executable("tool", {}) is None
    assert find_executable("tool", {"Path": str(tmp_path)}, platform="linux") is None


def on_windows(name: str, env: dict[str, str]) -> str | None:
    found = find_executable(name, env, platform="win32")
    return found.name if found else None


def test_windows_extensions(tmp_path: Path) -> None:
    program(tmp_path, "tool", 0o644)
    program(tmp_path, "tool.cmd", 0o644)
    program(tmp_path, "tool.exe", 0o644)
    program(tmp_path, "other.PY", 0o644)
    assert on_windows("tool", {"Path": str(tmp_path)}) == "tool.exe"
    assert on_windows("tool", {"path": str(tmp_path), "PathExt": ".CMD;.EXE"}) == "tool.cmd"
    assert on_windows("tool.cmd", {"PATH": str(tmp_path)}) == "tool.cmd"
    if ON_LINUX:  # where files distinguish case
        assert on_windows("tool.CMD", {"PATH": str(tmp_path)}) is None
    assert on_windows("absent", {"PATH": str(tmp_path)}) is None


def test_windows_paths(tmp_path: Path) -> None:
    program(tmp_path / "with spaces", "tool.exe")
    assert on_windows("tool", {"PATH": f';.;bin;"{tmp_path}/with spaces"'}) == "tool.exe"
