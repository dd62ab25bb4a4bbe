"""The demo: the bug is real, the test case is valid, and its run is one of the workspace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import youbencha.demo
from agent_clis import NEWEST
from claude_bench import versions
from yb import yb
from youbencha.cli.setup import _what_next
from youbencha.cli.terminal import StepPrinter
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import load_script
from youbencha.spec.loader import load_test_case
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
    known |= {"REPOSITORY": "/repository"}
    loaded = load_test_case(HERE / "testcase.yaml", known, check=check_parts)
    assert [evaluator.name for evaluator in loaded.evaluators] == ["git-diff", "command:tests"]
    assert loaded.unknown_variables == ()


@versions(NEWEST)
def test_the_run_is_one_of_the_workspace(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    before = set(Path(tempfile.gettempdir()).glob("youbencha-demo-*"))
    done = yb("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(yb("runs", "--json", cwd=tmp_path).stdout)
    assert (run["state"], run["agent"]) == ("passed", "claude-code")
    report = yb("report", "--format", "html", cwd=tmp_path).stdout.strip()
    assert Path(report) == Path(run["path"], "artifacts", "report.html")
    assert subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout == b""
    assert "removed 1 run" in yb("prune", "--keep", "0", "--yes", cwd=tmp_path).stdout
    assert [path.name for path in (tmp_path / ".youbencha-workspace").iterdir()] == [".gitignore"]
    assert set(Path(tempfile.gettempdir()).glob("youbencha-demo-*")) <= before


def test_suggested_commands_can_be_typed_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    printed = _what_next(tmp_path / "my demo" / "testcase.yaml", Path("my runs"))
    assert "The test case  my demo/testcase.yaml\n" in printed.replace("\\", "/")
    assert "The report     yb report --from 'my runs' --format html" in printed
    assert "/elsewhere/" in _what_next(Path("/elsewhere/testcase.yaml"), None).replace("\\", "/")


def test_a_yb_that_is_not_on_path_is_named_as_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv" / "bin" / "yb"), "demo"])
    printed = _what_next(tmp_path / "testcase.yaml", None).replace("\\", "/")
    assert "The report     .venv/bin/yb report --format html" in printed
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
