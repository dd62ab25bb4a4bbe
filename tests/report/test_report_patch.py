"""Patches as git writes them: read by file and line, up to what a page can show."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import sample

from youbencha.report.patch import MAX_FILE_LINES, MAX_FILES, MAX_LINE, MAX_LINES, read_patch


def test_files_of_a_patch() -> None:
    patch = read_patch(sample.PATCH)
    assert [(file.path, file.state, file.additions, file.deletions) for file in patch.files] == [
        ("src/pricing.py", "modified", 3, 2),
        ("tests/test_pricing.py", "added", 3, 0),
        ("new name.txt", "renamed", 0, 0),
        ("run.sh", "modified", 0, 0),
        ("docs/größe.png", "added", 0, 0),
        ("gone.txt", "deleted", 0, 1),
    ]
    assert (patch.additions, patch.deletions, patch.files_left_out) == (6, 3, 0)
    assert patch.files[2].old_path == "old name.txt"
    assert patch.files[3].notes == ["old mode 100644", "new mode 100755"]
    assert [file.binary for file in patch.files] == [False, False, False, False, True, False]


def test_lines_have_their_numbers() -> None:
    rows = read_patch(sample.PATCH).files[0].rows
    assert [(row.kind, row.old, row.new) for row in rows[:8]] == [
        ("hunk", None, None),
        ("same", 1, 1),
        ("same", 2, 2),
        ("add", None, 3),
        ("add", None, 4),
        ("same", 3, 5),
        ("same", 4, 6),
        ("del", 5, None),
    ]
    assert rows[7].text == "    return round(price, 2)"
    assert (rows[-1].old, rows[-1].new) == (23, 24)


def test_a_patch_written_by_git(tmp_path: Path) -> None:
    """Names and lines that look like headers, and characters that other splitters take for line ends."""

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, check=True, timeout=60)
        return done.stdout.decode("utf-8", "surrogateescape")

    git("init", "-q")
    (tmp_path / "a b c").write_text("one\n-- a/fake\n\x0c\u2028two\n", encoding="utf-8", newline="\n")
    (tmp_path / "tab\tund größe").write_text("x\n")
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    git("add", ".")
    git("commit", "-q", "-m", "start")
    (tmp_path / "a b c").write_text("one\n++ b/fake\ndiff --git a/x b/x\n\x0c\u2028two", encoding="utf-8", newline="\n")
    (tmp_path / "tab\tund größe").unlink()
    (tmp_path / "bin").write_bytes(b"\0\1\3")
    patch = read_patch(git("diff", "--binary", "--full-index", "--no-renames"))
    assert [(file.path, file.state, file.additions, file.deletions, file.binary) for file in patch.files] == [
        ("a b c", "modified", 3, 2, False),
        ("bin", "modified", 0, 0, True),
        ("tab\tund größe", "deleted", 0, 1, False),
    ]
    assert "-- a/fake" in [row.text for row in patch.files[0].rows]
    assert "diff --git a/x b/x" in [row.text for row in patch.files[0].rows]


def test_a_copied_file() -> None:
    (file,) = read_patch("diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n").files
    assert (file.path, file.old_path, file.state) == ("y", "x", "copied")


def test_an_empty_file_and_one_with_spaces_in_its_name() -> None:
    patch = read_patch("diff --git a/x y b/x y\nnew file mode 100644\nindex 000..e69\n")
    assert [(file.path, file.state) for file in patch.files] == [("x y", "added")]


def test_many_lines() -> None:
    patch = read_patch(sample.big_patch(8, 1500))
    assert patch.additions == 12_000
    assert len(patch.files[0].rows) == MAX_FILE_LINES
    assert patch.files[0].left_out == 1501 - MAX_FILE_LINES
    assert sum(len(file.rows) for file in patch.files) == MAX_LINES
    assert (patch.files[-1].rows, patch.files[-1].left_out) == ([], 1500)


def test_many_files() -> None:
    patch = read_patch(sample.big_patch(MAX_FILES + 7, 1))
    assert (len(patch.files), patch.files_left_out, patch.additions) == (MAX_FILES, 7, MAX_FILES + 7)


def test_a_long_line_is_cut() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "x" * 100_000 + "\n"
    assert len(read_patch(text).files[0].rows[1].text) == MAX_LINE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "no patch at all",
        "@@ -1 +1 @@\n+x",
        "diff --git ",
        "diff --git a\n@@ -x +y @@\n+",
        'diff --git "a\n--- "\n',
    ],
)
def test_text_that_is_not_a_patch(text: str) -> None:
    assert read_patch(text).additions == 0
