"""`yb report`, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from systems import posix_only
from yb import yb, yb_process

DOCUMENT = {
    "version": "1.0.0",
    "test_case": {"name": "Größe | <b>", "config_file": "testcase.yaml", "config_hash": "0" * 64},
    "execution": {
        "started_at": "2026-03-01T09:30:00.000Z",
        "completed_at": "2026-03-01T09:30:02.000Z",
        "duration_ms": 2000,
        "youbencha_version": "0.2.0",
        "environment": {"os": "Linux", "python_version": "3.12.4", "workspace_dir": "."},
    },
    "agent": {"type": "command", "status": "success", "exit_code": 0},
    "evaluators": [
        {
            "evaluator": "git-diff",
            "status": "passed",
            "message": "1 file changed",
            "timestamp": "2026-03-01T09:30:02.000Z",
        }
    ],
    "summary": {"total_evaluators": 1, "passed": 1, "failed": 0, "skipped": 0, "overall_status": "passed"},
    "outcome": {"name": "solved", "valid": True, "reason": "every evaluator passed"},
    "identity": {"run_id": "run-1", "youbencha_version": "0.2.0", "config_hash": "0" * 64},
}


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    directory = tmp_path / ".youbencha-workspace" / "run-1" / "artifacts"
    directory.mkdir(parents=True)
    (directory / "results.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (None, "report.md"),
        ("md", "report.md"),
        ("json", "report.json"),
        ("html", "report.html"),
        ("junit", "report.xml"),
    ],
)
def test_the_report_is_written_beside_the_results_and_its_path_printed(
    artifacts: Path, form: str | None, name: str
) -> None:
    options = ["--format", form] if form else []
    done = yb("report", "--from", str(artifacts / "results.json"), *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{artifacts / name}\n"
    assert "Größe" in (artifacts / name).read_text(encoding="utf-8")


def test_from_a_project_the_newest_run(artifacts: Path, tmp_path: Path) -> None:
    done = yb("report", "--from", ".", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / done.stdout.strip()).samefile(artifacts / "report.md")


@pytest.mark.parametrize("newest", [".youbencha-workspace", ".youbencha-eval", "mine"])
def test_without_a_path_the_newest_run_here(artifacts: Path, tmp_path: Path, newest: str) -> None:
    if newest == "mine":
        (tmp_path / ".youbencharc").write_text("workspace_dir: mine\n")
    for root, day in ((".youbencha-workspace", 1), (".youbencha-eval", 1), (newest, 2)):
        written = tmp_path / root / f"run-2030-01-0{day}-000000-0123456789ab" / "artifacts"
        written.mkdir(parents=True)
        (written / "results.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    done = yb("report", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()) == written / "report.md"


def test_without_a_path_and_without_runs(tmp_path: Path) -> None:
    done = yb("report", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert ".youbencha-workspace or " in done.stderr


def test_into_a_file(artifacts: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.xml"
    done = yb("report", "--from", str(artifacts), "--format", "junit", "--output", str(target))
    assert (done.returncode, done.stdout) == (0, f"{target}\n")
    assert ElementTree.parse(target).getroot().tag == "testsuites"
    assert not (artifacts / "report.xml").exists()


def test_only_the_report_on_stdout(artifacts: Path) -> None:
    done = yb("report", "--from", str(artifacts), "--format", "json", "--output", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["identity"]["run_id"] == "run-1"
    assert [path.name for path in artifacts.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("content", "code"), [(None, "RESULTS_NOT_FOUND"), ("", "RESULTS_INVALID"), ('{"version": 1}', "RESULTS_INVALID")]
)
def test_invalid_input_is_one_message_and_exit_code_2(tmp_path: Path, content: str | None, code: str) -> None:
    file = tmp_path / "results.json"
    if content is not None:
        file.write_text(content)
    done = yb("report", "--from", str(file))
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"[{code}]" in done.stderr
    assert str(file) in done.stderr
    assert "hint" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["elsewhere/page.html", "elsewhere", "-"])
def test_links_lead_to_the_artifacts_from_anywhere(artifacts: Path, tmp_path: Path, output: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (artifacts / "report.md").write_text("x")
    document = {**DOCUMENT, "artifacts": {"reports": ["report.md"]}}
    (artifacts / "results.json").write_text(json.dumps(document), encoding="utf-8")
    done = yb("report", "--from", str(artifacts), "--format", "html", "--output", output, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = done.stdout if output == "-" else (tmp_path / done.stdout.strip()).read_text(encoding="utf-8")
    links = [unquote(link) for link in re.findall(r'href="(\./[^"]+)"', page)]
    place = tmp_path if output == "-" else tmp_path / "elsewhere"
    assert [(place / link).resolve() for link in links] == [artifacts.resolve() / "report.md"]


def test_a_missing_output_directory(artifacts: Path, tmp_path: Path) -> None:
    done = yb("report", "--from", str(artifacts), "--output", str(tmp_path / "gone" / "report.md"))
    assert done.returncode == 2
    assert "[REPORT_NOT_WRITTEN]" in done.stderr


@pytest.mark.parametrize("options", [["--format", "pdf"], ["--from"]])
def test_invalid_options(artifacts: Path, options: list[str]) -> None:
    given = ["--from", str(artifacts)] if options[:1] == ["--format"] else []
    assert yb("report", *given, *options).returncode == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems open files in other ways")
def test_the_report_is_opened_on_request(artifacts: Path, tmp_path: Path) -> None:
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(
        f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened.tmp" && mv "{tmp_path}/opened.tmp" "{tmp_path}/opened"\n'
    )
    opener.chmod(0o755)
    path = f"{opener.parent}{os.pathsep}{os.environ['PATH']}"
    done = yb_process("report", "--from", str(artifacts), "--format", "html", "--open", PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "opened").read_text().endswith("report.html")


@posix_only("links")
@pytest.mark.parametrize("target", ["a-file", "a-directory", "a-pipe"])
def test_a_report_is_not_written_through_a_link_among_the_results(artifacts: Path, tmp_path: Path, target: str) -> None:
    victim = tmp_path / target
    if target == "a-directory":
        victim.mkdir()
    elif target == "a-pipe":
        os.mkfifo(victim)
    else:
        victim.write_text("mine")
    (artifacts / "report.md").symlink_to(victim)
    done = yb("report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (artifacts / "report.md").is_symlink()
    assert (artifacts / "report.md").read_text().startswith("#")
    assert target != "a-file" or victim.read_text() == "mine"
    assert target != "a-directory" or list(victim.iterdir()) == []


@posix_only("links")
def test_a_report_is_not_written_into_a_linked_directory(artifacts: Path, tmp_path: Path) -> None:
    elsewhere = artifacts.rename(tmp_path / "elsewhere")
    artifacts.symlink_to(elsewhere)
    done = yb("report", cwd=tmp_path)
    assert done.returncode == 2
    assert "error [REPORT_NOT_WRITTEN]" in done.stderr
    assert [path.name for path in elsewhere.iterdir()] == ["results.json"]
    assert yb("report", "-o", str(tmp_path / "mine.md"), cwd=tmp_path).returncode == 0
