"""Files beside the results: read if they exist, and only inside the directory."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample

from systems import ON_WINDOWS
from youbencha.report import html
from youbencha.report.html import read_attachments
from youbencha.store.bundle import ArtifactManifest, ResultsBundle


def naming(diff: str) -> ResultsBundle:
    return sample.bundle(artifacts=ArtifactManifest(diff=diff))


def test_missing_files_are_not_an_error(tmp_path: Path) -> None:
    assert read_attachments(tmp_path, sample.bundle()) == html.Attachments()


def test_existing_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "git-diff.patch").write_text(sample.PATCH, encoding="utf-8")
    (tmp_path / "youbencha-log.json").write_text(sample.log().model_dump_json(), encoding="utf-8")
    found = read_attachments(tmp_path, sample.bundle())
    assert found.diff == sample.PATCH
    assert found.diff_file == "git-diff.patch"
    assert found.log == sample.log()
    assert (found.diff_left_out, found.log_note) == (0, None)


@pytest.mark.parametrize("name", ["../secret.patch", "{outside}", "a/../../secret.patch", "nul\0", ".", "link.patch"])
def test_paths_out_of_the_directory_are_refused(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret.patch"
    secret.write_text("diff --git a/secret b/secret\n")
    directory = tmp_path / "artifacts"
    directory.mkdir()
    if name == "link.patch":
        if ON_WINDOWS:
            pytest.skip("links need rights there")
        (directory / name).symlink_to(secret)
    assert read_attachments(directory, naming(name.format(outside=secret))).diff is None


def test_a_large_patch_is_cut_at_a_line_end(tmp_path: Path) -> None:
    text = sample.big_patch(10, 30_000)
    (tmp_path / "git-diff.patch").write_text(text, newline="\n")
    found = read_attachments(tmp_path, sample.bundle())
    assert found.diff is not None
    assert text.startswith(found.diff)
    assert found.diff.endswith("\n")
    assert len(text) - 5 * 1024**2 < found.diff_left_out < len(text)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"agent_info": 3}', "[" * 100_000])
def test_a_broken_log_is_named_not_raised(tmp_path: Path, content: str) -> None:
    (tmp_path / "youbencha-log.json").write_text(content)
    found = read_attachments(tmp_path, sample.bundle())
    assert found.log is None
    assert "could not be read" in (found.log_note or "")
