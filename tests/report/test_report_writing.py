"""Reports as files: written atomically, and never over something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sample

from systems import ON_WINDOWS
from youbencha.errors import YouBenchaError
from youbencha.report.formats import ReportFormat, render_json, write_report, write_text
from youbencha.store.bundle import ResultsBundle

NAMES = {
    "markdown": "report.md",
    "md": "report.md",
    "json": "report.json",
    "html": "report.html",
    "junit": "report.xml",
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    file = tmp_path / "results.json"
    file.write_text(render_json(sample.bundle()), encoding="utf-8")
    return file


@pytest.mark.parametrize("form", ReportFormat)
def test_every_format_beside_the_results(results: Path, form: ReportFormat) -> None:
    written = write_report(sample.bundle(), form, results)
    assert written == results.parent / NAMES[form.value]
    assert sorted(path.name for path in results.parent.iterdir()) == sorted(["results.json", written.name])
    assert "Prices are rounded half up" in written.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ReportFormat)
def test_hostile_text_can_be_written_in_every_format(results: Path, form: ReportFormat) -> None:
    write_report(sample.hostile_bundle(), form, results).read_bytes().decode("utf-8")


def test_html_shows_files_beside_the_results(results: Path) -> None:
    (results.parent / "git-diff.patch").write_text(sample.PATCH, encoding="utf-8")
    text = write_report(sample.bundle(), ReportFormat.HTML, results).read_text(encoding="utf-8")
    assert "def test_half_goes_up() -&gt; None:" in text


def test_json_is_the_bundle() -> None:
    assert ResultsBundle.model_validate_json(render_json(sample.bundle())) == sample.bundle()
    assert json.loads(render_json(sample.hostile_bundle()))["test_case"]["name"].startswith("Prices")


def test_a_directory_as_output(results: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert (
        write_report(sample.bundle(), ReportFormat.JUNIT, results, tmp_path / "out") == tmp_path / "out" / "report.xml"
    )


def test_the_results_are_not_replaced(results: Path) -> None:
    before = results.read_bytes()
    with pytest.raises(YouBenchaError) as caught:
        write_report(sample.bundle(), ReportFormat.JSON, results, results)
    assert caught.value.code == "REPORT_NOT_WRITTEN"
    assert results.read_bytes() == before


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    target.write_text("old and much longer than the new one")
    write_text(target, "new")
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        write_text(tmp_path / "gone" / "report.md", "x")
    assert caught.value.code == "REPORT_NOT_WRITTEN"
    assert str(tmp_path / "gone" / "report.md") in caught.value.message


@pytest.mark.skipif(ON_WINDOWS, reason="no such limit there")
def test_a_full_disk_leaves_the_old_report(tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    target.write_text("old")
    script = (
        "import resource, signal, sys\nfrom pathlib import Path\nfrom youbencha.report.formats import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_text(Path(sys.argv[1]), 'x' * 5000)\nexcept Exception as error: print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, target], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "REPORT_NOT_WRITTEN\n"
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


@pytest.mark.skipif(ON_WINDOWS, reason="links need rights there")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    write_text(tmp_path / "link.md", "new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == "new"


@pytest.mark.skipif(ON_WINDOWS, reason="no such devices there")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    try:
        write_text(pipe, "through")
        assert pipe.is_fifo()
        assert reader.communicate(timeout=60)[0] == b"through"
    finally:
        reader.kill()
        reader.communicate()
