"""The demo without its agent: the bug is real, and the test case is valid. (`make demo` runs all of it.)"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import youbencha.demo
from youbencha.cli.console import StepPrinter
from youbencha.cli.demo import _what_next
from youbencha.demo import _make_ignored
from youbencha.gateway.script import load_script
from youbencha.spec import load_test_case
from youbencha.trial.checks import check_parts

HERE = Path(youbencha.demo.__file__).parent
WRONG, RIGHT = "for price in prices[1:]:", "for price in prices:"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(HERE / "repository", tmp_path / "repository", ignore=shutil.ignore_patterns("__pycache__"))
    )


def is_fixed(repository: Path) -> bool:
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "-q"], cwd=repository, capture_output=True, check=False
    )
    return done.returncode == 0


def test_the_bug_is_real(repository: Path) -> None:
    assert not is_fixed(repository)


def test_the_scripts_edit_fixes_the_bug(repository: Path) -> None:
    script = (HERE / "script.yaml").read_text()
    assert WRONG in script
    assert RIGHT in script
    code = (repository / "pricing.py").read_text()
    assert code.count(WRONG) == 1
    (repository / "pricing.py").write_text(code.replace(WRONG, RIGHT))
    assert is_fixed(repository)


def test_the_script_can_be_loaded() -> None:
    assert len(load_script(HERE / "script.yaml", variables={"python": "/p"}).turns) == 4


def test_the_test_case_is_valid() -> None:
    known = {"CLAUDE": "/claude", "HOME": "/home", "MODEL_URL": "http://127.0.0.1:1", "PYTHON": sys.executable}
    loaded = load_test_case(HERE / "testcase.yaml", known, check=check_parts)
    assert [evaluator.name for evaluator in loaded.evaluators] == ["git-diff", "command:tests"]
    assert loaded.unknown_variables == ()


def test_the_demo_is_ignored_by_the_users_git(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    _make_ignored(tmp_path / ".youbencha-workspace")
    (tmp_path / ".youbencha-workspace" / "testcase.yaml").touch()
    assert subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout == b""


def test_an_existing_directory_is_left_unchanged(tmp_path: Path) -> None:
    _make_ignored(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_suggested_commands_can_be_typed_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    printed = _what_next(tmp_path / "my demo" / "testcase.yaml", tmp_path / "my demo" / "run-1")
    assert "The test case  my demo/testcase.yaml\n" in printed.replace("\\", "/")
    assert "The report     yb report --from 'my demo" in printed
    assert "/elsewhere/" in _what_next(Path("/elsewhere/testcase.yaml"), tmp_path).replace("\\", "/")


def test_a_yb_that_is_not_on_path_is_named_as_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv" / "bin" / "yb"), "demo"])
    printed = _what_next(tmp_path / "testcase.yaml", tmp_path / "runs").replace("\\", "/")
    assert "The report     .venv/bin/yb report --from runs" in printed
    assert ".venv/bin/yb init, then .venv/bin/yb run" in printed


def test_a_download_does_not_fill_the_screen() -> None:
    printed: list[str] = []
    seconds = iter(range(100))
    progress = StepPrinter(printed.append, clock=lambda: float(next(seconds)))
    progress("looking")
    for second in range(1, 25):
        progress("downloading", f"{second} s")
    progress("unpacking")
    assert printed == ["looking", *(f"downloading ... {second} s" for second in (1, 11, 21)), "unpacking"]
