"""command: the copy of the tree, and reports of hostile code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.evaluators.command import copying
from youbencha.evaluators.command.copying import copy_tree
from youbencha.evaluators.command.junit import TestCounts, Unusable, count_in, count_tests, reports


def no_hurry() -> None: ...


@posix_only("modes, links and pipes")
def test_a_copy_has_everything_but_special_files(tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    (tree / ".git").mkdir(parents=True)
    (tree / ".git" / "HEAD").write_text("ref")
    (tree / "empty").mkdir()
    (tree / "closed").mkdir()
    (tree / "closed" / "run.sh").write_text("#!/bin/sh\n")
    (tree / "closed" / "run.sh").chmod(0o4755)
    (tree / os.fsdecode(b"\xff")).write_bytes(bytes(range(256)))
    os.utime(tree / "closed" / "run.sh", (1_000_000_000, 1_000_000_000))
    os.mkfifo(tree / "pipe")
    (tree / "out").symlink_to("/nowhere/at/all")
    (tree / "relative").symlink_to("closed/run.sh")
    (tree / "absolute").symlink_to(tree / "closed" / "run.sh")
    (tree / "beside").symlink_to(f"{tree}-2/x")
    (tree / "closed").chmod(0o555)
    copy_tree(tree, copy, no_hurry)
    assert {path.relative_to(copy).as_posix() for path in copy.rglob("*")} == {
        ".git", ".git/HEAD", "empty", "closed", "closed/run.sh", "\udcff", "out", "relative", "absolute", "beside",
    }  # fmt: skip
    assert (copy / "\udcff").read_bytes() == bytes(range(256))
    assert (copy / "closed/run.sh").stat().st_mode & 0o7777 == 0o755
    assert (copy / "closed/run.sh").stat().st_mtime == 1_000_000_000
    assert (copy / "out").readlink() == Path("/nowhere/at/all")
    assert (copy / "relative").readlink() == Path("closed/run.sh")
    assert (copy / "absolute").readlink() == copy / "closed" / "run.sh"
    assert (copy / "beside").readlink() == Path(f"{tree}-2/x")
    (copy / "closed" / "new").write_text("ours to write to")
    (copy / "closed" / "run.sh").write_text("changed")
    assert (tree / "closed" / "run.sh").read_text() == "#!/bin/sh\n"


@posix_only("files of holes")
def test_a_file_of_holes_does_not_fill_the_disk(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    with (tree / "huge").open("wb") as file:
        file.truncate(8 * 1024**4)
    with pytest.raises(YouBenchaError, match="more than there is room for"):
        copy_tree(tree, tmp_path / "copy", no_hurry)
    assert not (tmp_path / "copy" / "huge").exists()


def test_a_copy_goes_where_nothing_is(tmp_path: Path) -> None:
    for name in ("tree", "copy"):
        (tmp_path / name).mkdir()
    with pytest.raises(YouBenchaError, match="Cannot copy the tree"):
        copy_tree(tmp_path / "tree", tmp_path / "copy", no_hurry)


def test_copying_ends_when_nobody_wants_it(tmp_path: Path) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b").write_text("b")
    asked = iter([None])

    def twice() -> None:
        next(asked)

    with pytest.raises(StopIteration):
        copy_tree(tmp_path / "tree", tmp_path / "copy", twice)
    assert not (tmp_path / "copy" / "a" / "b").exists()


def test_without_shared_blocks_bytes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_FICLONE", 0)
    (tmp_path / "tree").mkdir()
    for name in "ab":
        (tmp_path / "tree" / name).write_text(name * 100_000)
    copy_tree(tmp_path / "tree", tmp_path / "copy", no_hurry)
    assert (tmp_path / "copy" / "b").read_text() == "b" * 100_000


def counted(xml: str | bytes) -> TestCounts:
    counts = TestCounts()
    count_in(xml.encode() if isinstance(xml, str) else xml, counts)
    return counts


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ("", (0, 0, 0, 0)),
        ("<testcase/><testcase><system-out>x</system-out></testcase>", (2, 0, 0, 0)),
        ("<testcase><failure/><error/></testcase>", (1, 1, 0, 0)),
        ("<testcase><error/></testcase><testcase><skipped/></testcase>", (2, 0, 1, 1)),
        ('<testcase status="notrun"/>', (1, 0, 0, 1)),
        ("<testcase><properties><failure/></properties></testcase><failure/>", (1, 0, 0, 0)),
        ("<testsuite><testcase><failure/></testcase></testsuite><testcase/>", (2, 1, 0, 0)),
        ("<testcase><testcase><failure/></testcase></testcase>", (1, 0, 0, 0)),
    ],
)
def test_test_cases_are_counted(cases: str, expected: tuple[int, ...]) -> None:
    counts = counted(f"<testsuite tests='77' failures='0'>{cases}</testsuite>")
    assert (counts.tests, counts.failures, counts.errors, counts.skipped) == expected


def test_a_pass_rate_is_of_what_ran() -> None:
    assert TestCounts(tests=4, failures=1, errors=0, skipped=2).pass_rate == 0.5
    assert TestCounts(tests=2, skipped=2).pass_rate is None
    assert TestCounts().pass_rate is None


BOMB = '<!DOCTYPE b [<!ENTITY a "ha">' + "".join(f'<!ENTITY a{n} "&a{n - 1};&a{n - 1};">' for n in range(1, 40)) + "]>"


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (BOMB.replace("&a0;", "&a;") + "<testsuite>&a39;</testsuite>", "declares a document type"),
        (
            '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><testsuite>&f;</testsuite>',
            "declares a document type",
        ),
        ("<!DOCTYPE x><testsuite/>".encode("utf-16"), "declares a document type"),
        ("<testsuite>&undefined;</testsuite>", "is not XML"),
        ("<testsuite>", "is not XML"),
        ("", "is not XML"),
        ("<html/>", "is no JUnit report"),
        (b'<?xml version="1.0" encoding="no-such-thing"?><testsuite/>', "is not XML"),
        (b'<?xml version="1.0" encoding="utf-7"?><testsuite/>', "is not XML"),
        (b"<testsuite>\xff</testsuite>", "is not XML"),
    ],
)
def test_reports_that_say_nothing(xml: str | bytes, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        counted(xml)


def test_a_report_nested_as_deep_as_one_likes() -> None:
    assert counted("<testsuite>" * 50_000 + "<testcase/>" + "</testsuite>" * 50_000).tests == 1


def test_several_reports_are_summed_up(tmp_path: Path) -> None:
    (tmp_path / "old.xml").write_text("<testsuite><testcase/></testsuite>")
    before = reports(tmp_path, ["**/*.xml"])
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "r.xml").write_text("<testsuite><testcase/><testcase><error/></testcase></testsuite>")
    counts = count_tests(tmp_path, ["**/*.xml"], before)
    assert (counts.tests, counts.errors) == (4, 2)


@posix_only("links need rights there")
def test_a_report_by_a_link_is_none(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "r.xml").write_text("<testsuite><testcase/></testsuite>")
    (tmp_path / "tree" / "r.xml").symlink_to(tmp_path / "r.xml")
    (tmp_path / "tree" / "d").symlink_to(tmp_path)
    assert reports(tmp_path / "tree", ["**/*.xml"]) == {}
