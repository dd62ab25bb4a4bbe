"""`scripts/test`: a test that fails once is listed as flaky, one that fails again fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test"
PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    assert 1 == 2\n"
FAILS_ONCE = """
from pathlib import Path

def test_fails_once():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
CRASHES_ONCE = """
import os
from pathlib import Path

def test_crashes_once():
    seen = Path("crashed")
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), 9)
"""
HEADING = "FLAKY: failed, and passed when run again."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_script(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    env |= {"YOUBENCHA_FLAKY": str(project / "flaky.txt"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, str(SCRIPT), "-q", "-p", "xdist", *arguments]
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)


def write_tests(project: Path, **modules: str) -> None:
    for name, text in modules.items():
        (project / f"test_{name}.py").write_text(text)


@pytest.mark.parametrize("workers", [pytest.param("-n0", marks=pytest.mark.full), "-n2"])
def test_a_test_that_fails_once_is_listed_at_the_very_end(project: Path, workers: str) -> None:
    write_tests(project, a=PASSES, b=FAILS_ONCE)
    done = run_script(project, workers)
    assert done.returncode == 0, done.stdout
    assert HEADING in done.stdout.splitlines()[-2]
    assert done.stdout.splitlines()[-1] == "test_b.py::test_fails_once"
    assert (project / "flaky.txt").read_text().endswith("\ntest_b.py::test_fails_once\n")


def test_a_test_that_always_fails_fails_this_run_and_not_the_next(project: Path) -> None:
    write_tests(project, a=PASSES, b=FAILS_ONCE, c=FAILS)
    done = run_script(project)
    assert done.returncode == 1
    assert HEADING not in done.stdout
    assert done.stdout.count("FAILED test_c.py::test_fails") == 2
    assert "1 failed, 1 passed" in done.stdout  # the second time, without what had passed
    assert not (project / "flaky.txt").exists()
    write_tests(project, c=FAILS_ONCE.replace("seen", "seen_by_c"))
    done = run_script(project)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "test_c.py::test_fails_once"


def test_what_passes_runs_once(project: Path) -> None:
    write_tests(project, a=PASSES)
    done = run_script(project)
    assert (done.returncode, done.stdout.count("1 passed")) == (0, 1)
    assert HEADING not in done.stdout


@pytest.mark.full
def test_a_worker_that_dies_with_a_test_is_no_reason_to_lose_the_run(project: Path) -> None:
    write_tests(project, a=PASSES, b=CRASHES_ONCE)
    done = run_script(project, "-n2")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "test_b.py::test_crashes_once"


@pytest.mark.parametrize("modules", [{"a": PASSES, "b": "import missing_module\n"}, {}], ids=["broken", "empty"])
def test_a_run_that_cannot_be_trusted_fails(project: Path, modules: dict[str, str]) -> None:
    write_tests(project, **modules)
    done = run_script(project)
    assert done.returncode not in (0, 1), done.stdout
    assert HEADING not in done.stdout


SKIPPED_THEN = FAILS_ONCE.replace("import Path", "import Path\nimport pytest").replace(
    "    assert not first", "    first or pytest.skip()\n    assert not first"
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (SKIPPED_THEN, []),
        (FAILS_ONCE + FAILS, ["-qx"]),
        pytest.param(FAILS_ONCE + "\n" + FAILS, ["--maxfail=1"], marks=pytest.mark.full),
    ],
    ids=["skipped", "stopped", "at most one"],
)
def test_what_did_not_pass_is_not_taken_for_flaky(project: Path, text: str, options: list[str]) -> None:
    write_tests(project, b=text)
    done = run_script(project, *options)
    assert done.returncode == 1, done.stdout
    assert HEADING not in done.stdout


def test_many_failures_are_not_bad_luck(project: Path) -> None:
    write_tests(project, **{f"b{number}": FAILS_ONCE.replace("seen", f"seen{number}") for number in range(11)})
    done = run_script(project)
    assert (done.returncode, done.stdout.count("11 failed")) == (1, 1)


def test_coverage_of_both_runs_is_kept(project: Path) -> None:
    (project / "measured.py").write_text("def one():\n    return 1\n\ndef two():\n    return 2\n")
    write_tests(project, a="import measured\ndef test_one():\n    assert measured.one()\n", b=FAILS_ONCE)
    done = run_script(project, "-p", "pytest_cov", "--cov=measured")
    assert done.returncode == 0, done.stdout
    totals = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("TOTAL")]
    assert totals == ["75%", "75%"]
