"""The guard in Aider's process, around a stub of Aider."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from systems import posix_only
from youbencha.adapters.aider import guard


def started(scratch: Path, *others: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """A Python with the guard in its place, as Aider's is."""
    scratch.mkdir()
    shutil.copyfile(guard.__file__, scratch / "sitecustomize.py")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (scratch, *others)))}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def package(directory: Path) -> Path:
    modules = {
        "__init__": "",
        "io": "Console = dict",
        "main": "get_parser = generate_search_path_list = print",
        "models": "class Model:\n    send_completion = None",
        "repomap": "class RepoMap:\n    pass",
    }
    (directory / "aider").mkdir(parents=True)
    for name, text in modules.items():
        (directory / "aider" / f"{name}.py").write_text(text)
    return directory


def test_the_guard_leaves_no_trace_in_the_environment(tmp_path: Path) -> None:
    theirs, ran = package(tmp_path / "theirs"), tmp_path / "ran"
    (theirs / "sitecustomize.py").write_text(f"open({str(ran)!r}, 'w')")
    code = (
        "import os; from aider.repomap import RepoMap; print(os.environ['PYTHONPATH']); print(RepoMap.TAGS_CACHE_DIR)"
    )
    done = started(tmp_path / "scratch", theirs, code=code)
    assert done.stdout.splitlines() == [str(theirs), str(tmp_path / "scratch" / "tags")], done.stderr
    assert (tmp_path / "scratch" / "guarded").exists()
    assert ran.exists()  # the sitecustomize that it stood before


def test_an_unknown_aider_is_not_started(tmp_path: Path) -> None:
    done = started(tmp_path / "scratch", code="print('started')")
    assert done.returncode == guard.NOT_GUARDED
    assert done.stdout.startswith("youBencha cannot keep this Aider from the repository's settings: ")
    assert not (tmp_path / "scratch" / "guarded").exists()


def test_only_files_that_the_command_line_names() -> None:
    main: Any = SimpleNamespace(get_parser=lambda *given: given, generate_search_path_list=None)
    guard.ignore_found_files(main)
    assert main.get_parser(["/repository/.aider.conf.yml"], "/repository") == ([], "/repository")
    assert main.generate_search_path_list(".env", "/repository", "/scratch/empty") == ["/scratch/empty"]
    assert main.generate_search_path_list(".env", "/repository", None) == []


def test_lines_are_not_wrapped() -> None:
    io: Any = SimpleNamespace(Console=lambda *given, **options: options)
    guard.widen_console(io)
    assert io.Console(width=80, force_terminal=False) == {"width": guard.WIDTH, "force_terminal": False}


def test_calls_are_recorded(tmp_path: Path) -> None:
    class Model:
        name = "sonnet"

        def send_completion(self, answer: object) -> tuple[str, object]:
            return "hash", answer

    guard.record_calls(SimpleNamespace(Model=Model), tmp_path / "calls")
    usage = SimpleNamespace(model_dump=lambda: {"prompt_tokens": 5})
    sent = Model().send_completion(SimpleNamespace(usage=usage))
    Model().send_completion(iter("in pieces"))
    assert sent[0] == "hash"
    noted = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert noted == [{"model": "sonnet", "usage": {"prompt_tokens": 5}}, {"model": "sonnet", "usage": None}]


def test_home_directory_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", Path.home)  # put back afterwards
    monkeypatch.setattr(webbrowser, "open", webbrowser.open)
    guard.use_private_home(tmp_path)
    assert Path.home() == tmp_path
    assert webbrowser.open("http://127.0.0.1:9") is False


def test_a_missing_git_identity_is_supplied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.email")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "mine@example.org")
    monkeypatch.setenv("GIT_CONFIG_KEY_1", "")  # removed afterwards
    monkeypatch.setenv("GIT_CONFIG_VALUE_1", "")
    monkeypatch.chdir(tmp_path)
    guard.set_identity()
    known = [subprocess.check_output(["git", "config", key], text=True).strip() for key in guard.IDENTITY]
    assert known == ["Aider", "mine@example.org"]


@posix_only("paths are joined in another way")
@pytest.mark.parametrize(("given", "left"), [("/ours:/theirs", "/theirs"), ("/ours", None)])
def test_the_guard_removes_itself_from_the_environment(
    given: str, left: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", given)
    monkeypatch.setattr(sys, "path", ["/ours", "/theirs"])
    assert guard.leave_python_path() == Path("/ours")
    assert (os.environ.get("PYTHONPATH"), sys.path) == (left, ["/theirs"])
