"""expected-diff: the agent's tree compared with a reference."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from evaluating import OverRun, problems

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.evaluators import expected_diff as comparing
from youbencha.evaluators.base import in_thread
from youbencha.evaluators.expected_diff import MAX_LISTED


def write(tree: Path, **files: str | bytes) -> None:
    """`a__b_txt` is a/b.txt."""
    for name, content in files.items():
        path = tree / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def similarities(metrics: dict[str, Any]) -> dict[str, tuple[float, str]]:
    return {file["path"]: (file["similarity"], file["status"]) for file in metrics["file_similarities"]}


async def test_matched_changed_added_removed(over: OverRun) -> None:
    write(over.tree, same_txt="same", d__changed_txt="abcdefghij", new_txt="new")
    write(over.expected, same_txt="same", d__changed_txt="abcdefghiX", gone_txt="gone", empty_txt="")
    write(over.tree, empty_txt="")
    result = await over.evaluate("expected-diff")
    metrics = result.metrics
    assert similarities(metrics) == {
        "same.txt": (1.0, "matched"),
        "empty.txt": (1.0, "matched"),
        "d/changed.txt": (0.9, "changed"),
        "new.txt": (0.0, "added"),
        "gone.txt": (0.0, "removed"),
    }
    counts = [metrics[f"files_{status}"] for status in ("matched", "changed", "added", "removed")]
    assert counts == [2, 1, 1, 1]
    assert metrics["aggregate_similarity"] == pytest.approx(2.9 / 3 - 2 / 5, abs=1e-6)
    assert (metrics["threshold"], metrics["method"], result.status) == (0.8, "exact", "failed")
    assert "is below the threshold of 0.8: 2 files identical, 1 changed, 1 added, 1 missing" in result.message


async def test_caches_of_tools_in_only_one_tree_do_not_count(over: OverRun) -> None:
    write(over.tree, a_txt="a")
    for tree, name in ((over.tree, ".mypy_cache/a"), (over.expected, ".mypy_cache/b"), (over.tree, "pkg/.tox/c")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("1")
    write(over.expected, a_txt="a")
    (over.expected / "pkg/.tox").mkdir(parents=True)
    (over.expected / "pkg/.tox/c").write_text("another")
    result = await over.evaluate("expected-diff")
    assert similarities(result.metrics).keys() == {"a.txt", "pkg/.tox/c"}


async def test_identical_trees_pass_at_one(over: OverRun) -> None:
    for tree in (over.tree, over.expected):
        write(tree, a_txt="a", b__c_bin=b"\0\1\2")
    result = await over.evaluate("expected-diff", {"threshold": 1.0})
    assert (result.status, result.metrics["aggregate_similarity"]) == ("passed", 1.0)


@pytest.mark.parametrize(
    ("threshold", "status"), [(0, "passed"), (0.5, "passed"), (0.9, "passed"), (0.91, "failed"), (1, "failed")]
)
async def test_the_threshold_is_exact(over: OverRun, threshold: float, status: str) -> None:
    write(over.tree, a_txt="abcdefghij")
    write(over.expected, a_txt="abcdefghiX")
    result = await over.evaluate("expected-diff", {"threshold": threshold})
    assert result.status == status
    assert [(a.name, a.passed, a.expected) for a in result.assertions] == [("threshold", status == "passed", threshold)]


async def test_empty_trees_and_trees_without_a_common_file(over: OverRun) -> None:
    assert (await over.evaluate("expected-diff")).metrics["aggregate_similarity"] == 1.0
    write(over.tree, a_txt="a")
    assert (await over.evaluate("expected-diff")).metrics["aggregate_similarity"] == 0.0
    write(over.expected, b_txt="b")
    result = await over.evaluate("expected-diff", {"threshold": 0})
    assert (result.metrics["aggregate_similarity"], result.status) == (0.0, "passed")


async def test_git_directories_do_not_count_at_any_depth(over: OverRun) -> None:
    write(over.tree, a_txt="a")
    write(over.expected, a_txt="a")
    for tree in (over.tree, over.expected / "sub"):
        (tree / ".git").mkdir(parents=True)
        (tree / ".git" / "HEAD").write_text("ref")
    (over.expected / ".git").write_text("gitdir: elsewhere")
    result = await over.evaluate("expected-diff")
    assert similarities(result.metrics) == {"a.txt": (1.0, "matched")}


async def test_our_own_files_do_not_count(over: OverRun) -> None:
    ours = over.tree / "deep" / ".youbencha-eval"
    (ours / "run-1" / "artifacts").mkdir(parents=True)
    (ours / "run-1" / "artifacts" / "results.json").write_text("{}")
    theirs = over.tree / "elsewhere" / ".youbencha-eval"
    theirs.mkdir(parents=True)
    (theirs / "kept").write_text("kept")
    result = await over.evaluate("expected-diff", left_out=(ours.resolve(),))
    assert [file["path"] for file in result.metrics["file_similarities"]] == ["elsewhere/.youbencha-eval/kept"]


async def test_paths_can_be_selected(over: OverRun) -> None:
    write(over.tree, src__a_py="a", src__gen__b_py="1", notes_md="x")
    write(over.expected, src__a_py="a", src__gen__b_py="2")
    config = {"include_paths": ["src"], "exclude_paths": ["src/gen"], "threshold": 1}
    result = await over.evaluate("expected-diff", config)
    assert similarities(result.metrics) == {"src/a.py": (1.0, "matched")}
    assert result.status == "passed"


async def test_patterns_that_match_nothing_are_an_error(over: OverRun) -> None:
    write(over.tree, a_py="a")
    with pytest.raises(YouBenchaError) as caught:
        await over.evaluate("expected-diff", {"include_paths": ["*.rs"]})
    assert caught.value.code == "EXPECTED_DIFF_NOTHING_TO_COMPARE"


async def test_binary_files_are_compared_by_bytes(over: OverRun) -> None:
    write(over.tree, nul_bin=b"\0" + b"x" * 99, latin_txt=b"caf\xe9", mixed_bin="é" * 50)
    write(
        over.expected, nul_bin=b"\0" + b"x" * 98 + b"y", latin_txt=b"caf\xe8", mixed_bin="é".encode() * 49 + b"\xff\0"
    )
    found = similarities((await over.evaluate("expected-diff")).metrics)
    assert found["nul.bin"] == (0.99, "changed")
    assert found["latin.txt"] == (0.75, "changed")
    assert found["mixed.bin"] == (0.98, "changed")


async def test_text_files_are_compared_by_characters(over: OverRun) -> None:
    write(over.tree, a_txt="äöü😀")
    write(over.expected, a_txt="äöüx")
    assert similarities((await over.evaluate("expected-diff")).metrics)["a.txt"] == (0.75, "changed")


@posix_only("links need rights there, and there are no pipes")
async def test_links_are_not_followed_and_special_files_not_opened(over: OverRun, tmp_path: Path) -> None:
    write(over.expected, secret="what is outside", file_txt="a")
    (tmp_path / "outside").write_text("what is outside")
    (over.tree / "secret").symlink_to(tmp_path / "outside")
    for tree, target in ((over.tree, "/dev/zero"), (over.expected, "/dev/zerO")):
        (tree / "link").symlink_to(target)
        (tree / "same").symlink_to("/dev/zero")
    (over.tree / "directory").symlink_to("/")
    write(over.tree, other="what is outside")
    (over.expected / "other").symlink_to(tmp_path / "outside")
    (over.tree / "file.txt").symlink_to("a")
    os.mkfifo(over.tree / "pipe")
    found = similarities((await over.evaluate("expected-diff")).metrics)
    assert found == {
        "secret": (0.0, "changed"),
        "other": (0.0, "changed"),
        "link": (pytest.approx(8 / 9, abs=1e-6), "changed"),
        "same": (1.0, "matched"),
        "directory": (0.0, "added"),
        "file.txt": (0.0, "changed"),
    }


async def test_huge_files_are_identical_or_not(over: OverRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MAX_MEASURED_BYTES", 10)
    monkeypatch.setattr(comparing, "_CHUNK_BYTES", 4)
    write(over.tree, same="x" * 11, other="x" * 11, longer="x" * 12)
    write(over.expected, same="x" * 11, other="x" * 10 + "y", longer="x" * 11)
    metrics = (await over.evaluate("expected-diff")).metrics
    assert similarities(metrics) == {"same": (1.0, "matched"), "other": (0.0, "changed"), "longer": (0.0, "changed")}
    assert metrics["method"] == "by_bytes"


async def test_the_report_has_every_file_and_the_result_the_least_similar(over: OverRun) -> None:
    for number in range(MAX_LISTED + 50):
        (over.tree / f"f{number:03}").write_text("x" * 100)
        (over.expected / f"f{number:03}").write_text("x" * 100 if number % 2 else "y" * 10 + "x" * 90)
    result = await over.evaluate("expected-diff")
    assert len(result.metrics["file_similarities"]) == MAX_LISTED
    assert result.metrics["file_similarities_omitted"] == 50
    assert [file["similarity"] for file in result.metrics["file_similarities"][:125]] == [0.9] * 125
    assert [artifact.path for artifact in result.artifacts] == ["expected-diff-report.json"]
    report = json.loads((over.artifacts / "expected-diff-report.json").read_text("utf-8"))
    assert len(report["file_similarities"]) == MAX_LISTED + 50
    assert report["aggregate_similarity"] == result.metrics["aggregate_similarity"]


async def test_named_evaluators_have_separate_reports(over: OverRun) -> None:
    result = await over.evaluate("expected-diff:docs")
    assert [artifact.path for artifact in result.artifacts] == [
        "evaluators/expected-diff-docs/expected-diff-report.json"
    ]


async def test_nearly_identical_never_reads_as_identical(over: OverRun) -> None:
    (over.tree / "a").write_text("x" * 9_999_999 + "y")
    (over.expected / "a").write_text("x" * 10_000_000)
    result = await over.evaluate("expected-diff", {"threshold": 1})
    assert result.status == "failed"
    assert result.metrics["aggregate_similarity"] == 0.999999
    assert "Similarity 1 " not in result.message


@posix_only("names there are text")
async def test_a_file_name_that_is_not_utf_8(over: OverRun) -> None:
    (over.tree / os.fsdecode(b"a\xff")).write_text("a")
    result = await over.evaluate("expected-diff")
    assert similarities(result.metrics) == {r"a\xff": (0.0, "added")}


async def test_without_a_reference_it_is_skipped_with_a_hint(over: OverRun) -> None:
    result = await over.evaluate("expected-diff", reference=False)
    assert result.status == "skipped"
    assert "expected_source" in result.message
    assert "expected_directory" in result.message


async def test_a_missing_reference_is_an_error(over: OverRun) -> None:
    over.expected.rmdir()
    with pytest.raises(YouBenchaError, match=r"The reference .* does not exist"):
        await over.evaluate("expected-diff")


async def test_a_tree_that_the_agent_removed_is_empty(over: OverRun) -> None:
    write(over.expected, a_txt="a")
    over.tree.rmdir()
    result = await over.evaluate("expected-diff")
    assert (result.status, result.metrics["files_removed"]) == ("failed", 1)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"threshold": 1.5}, "threshold: must be at most 1"),
        ({"threshold": -0.1}, "threshold: must be at least 0"),
        ({"threshold": "0.8"}, "threshold: must be a number, not text"),
        ({"treshold": 0.5}, "did you mean 'threshold'?"),
        ({"exclude_paths": [""]}, "exclude_paths.0: must name a path"),
    ],
)
def test_problems_are_reported_before_the_run(config: dict[str, Any], expected: str) -> None:
    found = problems("expected-diff", **config)
    assert len(found) == 1
    assert expected in found[0]


async def test_cancelled_work_ends() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(check_cancelled: Any) -> None:
        begun.set()
        try:
            while True:
                check_cancelled()
        finally:
            ended.set()

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
