"""JUnit reports of hostile code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from systems import posix_only
from youbencha.evaluators.junit import UnusableReport, count_in, count_tests, find_reports
from youbencha.scoring.runner_results import TestCounts
from youbencha.workspace.trees import remove_tree


@posix_only("paths are others there")
def test_reports_with_too_long_paths_are_skipped(tmp_path: Path) -> None:
    nest(tmp_path, 60, "r" * 220)  # the last directory that can be listed has one that cannot be named
    try:
        found = find_reports(tmp_path, ["**/r*"])
        assert 0 < len(found) < 60
    finally:
        remove_tree(tmp_path / ("d" * 200))


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


def test_the_pass_rate_excludes_skipped_tests() -> None:
    assert TestCounts(tests=4, failures=1, errors=0, skipped=2).pass_rate == 0.5
    assert TestCounts(tests=2, skipped=2).pass_rate is None
    assert TestCounts().pass_rate is None


BOMB = '<!DOCTYPE b [<!ENTITY a "ha">' + "".join(f'<!ENTITY a{n} "&a{n - 1};&a{n - 1};">' for n in range(1, 40)) + "]>"


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (BOMB.replace("&a0;", "&a;") + "<testsuite>&a39;</testsuite>", "has a document type"),
        (
            '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><testsuite>&f;</testsuite>',
            "has a document type",
        ),
        ("<!DOCTYPE x><testsuite/>".encode("utf-16"), "has a document type"),
        ("<testsuite>&undefined;</testsuite>", "is not valid XML"),
        ("<testsuite>", "is not valid XML"),
        ("", "is not valid XML"),
        ("<html/>", "is not a JUnit report"),
        (b'<?xml version="1.0" encoding="no-such-thing"?><testsuite/>', "is not valid XML"),
        (b'<?xml version="1.0" encoding="utf-7"?><testsuite/>', "is not valid XML"),
        (b"<testsuite>\xff</testsuite>", "is not valid XML"),
    ],
)
def test_unusable_reports(xml: str | bytes, why: str) -> None:
    with pytest.raises(UnusableReport, match=why):
        counted(xml)


def test_a_deeply_nested_report() -> None:
    assert counted("<testsuite>" * 50_000 + "<testcase/>" + "</testsuite>" * 50_000).tests == 1


def test_several_reports_are_summed_up(tmp_path: Path) -> None:
    (tmp_path / "old.xml").write_text("<testsuite><testcase/></testsuite>")
    before = find_reports(tmp_path, ["**/*.xml"])
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "r.xml").write_text("<testsuite><testcase/><testcase><error/></testcase></testsuite>")
    counts = count_tests(tmp_path, ["**/*.xml"], before)
    assert (counts.tests, counts.errors) == (4, 2)


@posix_only("links need rights there")
def test_reports_behind_links_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "r.xml").write_text("<testsuite><testcase/></testsuite>")
    (tmp_path / "tree" / "r.xml").symlink_to(tmp_path / "r.xml")
    (tmp_path / "tree" / "d").symlink_to(tmp_path)
    assert find_reports(tmp_path / "tree", ["**/*.xml"]) == {}


def nest(tree: Path, depth: int, name: str = "file") -> None:
    """Directories in directories, each with a file: deeper than a path can name."""
    fd = os.open(tree, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir("d" * 200, dir_fd=fd)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
            with open(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd), "w") as file:
                file.write("deep")
    finally:
        os.close(fd)
