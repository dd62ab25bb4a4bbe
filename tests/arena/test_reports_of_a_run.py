"""Reports of a run and of its trials can be shared: they name the trial, and have no paths of this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from arena_process import ArenaProject

from yb import run_here
from youbencha.report.formats import ReportFormat

FORMS = [ReportFormat.MARKDOWN, ReportFormat.HTML, ReportFormat.JUNIT]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArenaProject]:
    """A run whose agents print their directory, which is in the cache. All trials fail: the agents create no file."""
    project = ArenaProject(tmp_path_factory.mktemp("arena"))
    config = {"command": "pwd; echo $HOME", "shell": True, "prompt_by": "none"}
    slow = {"name": "slow", "config": {**config, "command": "pwd; sleep 0.1"}}
    project.write(tasks=2, orchestrators=[{"name": "worker", "agent": "command", "config": config, "variants": [slow]}])
    with TemporaryDirectory(prefix="elsewhere-", dir="/tmp") as cache:
        project.more_env["XDG_CACHE_HOME"] = cache
        done = project.run_here()
        assert done.returncode == 0, done.stderr
        yield project


def report(project: ArenaProject, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = run_here(("report", *arguments), cwd=project.root, env=project.env)
    assert done.returncode == 0, done.stderr
    return done


def has_path_of(project: ArenaProject, text: str) -> bool:
    return str(project.root) in text or Path(project.more_env["XDG_CACHE_HOME"]).name in text


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_is_named_with_its_failed_tests_and_without_paths(project: ArenaProject, form: ReportFormat) -> None:
    trial = project.latest.path / "trials/worker+slow/task-1/trial-1"
    text = report(project, "--from", str(trial), "--format", form, "--output", "-").stdout
    assert "worker+slow · task-1 · trial 1" in text
    assert re.search(r"made\W.*failed", text, re.DOTALL)
    assert not has_path_of(project, text)


def test_the_report_beside_the_results_is_the_same(project: ArenaProject) -> None:
    artifacts = project.latest.path / "trials/worker+slow/task-1/trial-1/attempts/1/artifacts"
    written = report(project, "--from", str(artifacts), "--output", "-").stdout
    assert (artifacts / "report.md").read_text() == written


def test_the_last_attempt_of_a_trial_counts(project: ArenaProject, tmp_path: Path) -> None:
    trial = tmp_path / "trials/a/t/trial-1"
    source = project.latest.path / "trials/worker/task-1/trial-1/attempts/1/artifacts/results.json"
    for number in (2, 10):
        results = trial / "attempts" / str(number) / "artifacts/results.json"
        results.parent.mkdir(parents=True)
        document = json.loads(source.read_text())
        document["identity"]["run_id"] = f"attempt-{number}"
        results.write_text(json.dumps(document))
    (trial / "attempts/11").mkdir()
    found = json.loads(report(project, "--from", str(trial), "--format", "json", "--output", "-").stdout)
    assert found["identity"]["run_id"] == "attempt-10"


@pytest.mark.parametrize("form", FORMS)
def test_a_run_in_another_directory(project: ArenaProject, tmp_path: Path, form: ReportFormat) -> None:
    target = tmp_path / "pages"
    target.mkdir()
    run = project.latest.path
    report(project, "--from", str(run), "--format", form, "--output", str(target))
    text = (target / form.file_name).read_text()
    links = re.findall(r'href="\./([^"]+/meta\.json)"', text)
    assert len(links) == (4 if form is ReportFormat.HTML else 0)
    assert all((target / unquote(link)).is_file() for link in links)
    assert form is ReportFormat.JUNIT or "ompared with" in text
    assert form is ReportFormat.HTML or not has_path_of(project, text)  # a link may lead out of its directory


@pytest.mark.parametrize("form", ["markdown", "html", "junit", "json", "csv"])
def test_a_leaderboard_has_no_paths_of_the_machine(project: ArenaProject, form: str) -> None:
    (meta := project.latest.path / "trials/worker/task-2/trial-1/meta.json").write_text("{")
    done = project.run_here_as("report", "--format", form)
    assert done.returncode == 0, done.stderr
    assert meta.parent.parent.name in done.stdout
    assert not has_path_of(project, done.stdout)


def test_times_in_junit_are_real(project: ArenaProject) -> None:
    year = project.latest.name[:4]
    for arguments in (("report", "--format", "junit"), ("compare", "worker+slow", "worker", "--junit", "compare.xml")):
        done = project.run_here_as(*arguments)
        text = done.stdout if "report" in arguments else (project.root / "compare.xml").read_text()
        times = [suite.get("timestamp", "") for suite in ElementTree.fromstring(text).iter("testsuite")]
        assert times
        assert all(time.startswith(year) for time in times)


def test_a_resumed_run_is_not_newer(project: ArenaProject, tmp_path: Path) -> None:
    """`--resume` writes run.json again."""
    runs = tmp_path / ".youbencha-workspace/bench/runs"
    for name in ("2030-01-01T00-00-00Z-aaaaaaaa", "2030-01-02T00-00-00Z-bbbbbbbb"):
        (runs / name / "trials").mkdir(parents=True)
        (runs / name / "run.json").write_bytes((project.latest.path / "run.json").read_bytes())
    os.utime(runs / "2030-01-01T00-00-00Z-aaaaaaaa/run.json", (2_000_000_000, 2_000_000_000))
    done = report(project, "--from", str(tmp_path))
    assert "2030-01-02" in done.stdout
