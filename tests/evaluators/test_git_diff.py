"""git-diff: the agent's changes against the allowed limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from evaluating import NOW, START, OverRun, binary, changed, problems
from hypothesis import given
from hypothesis import strategies as st

from youbencha.errors import YouBenchaError
from youbencha.evaluators.git_diff import MAX_LISTED, change_entropy, change_metrics


async def test_everything_is_counted(over: OverRun) -> None:
    changes = over.changes(
        changed("a.py", 3, 1), changed("b/c.py", 4, 0, "added"), changed("d.txt", 0, 4, "deleted"), binary("e.png")
    )
    result = await over.evaluate("git-diff", changes=changes)
    assert result.status == "passed"
    assert result.message == "4 files changed, 1 of them binary: 7 lines added, 5 removed."
    metrics = result.metrics
    assert metrics["files_changed"] == 4
    assert (metrics["lines_added"], metrics["lines_removed"], metrics["total_changes"]) == (7, 5, 12)
    assert metrics["change_entropy"] == pytest.approx(math.log2(3))
    assert metrics["binary_files"] == 1
    assert (metrics["base_commit"], metrics["current_commit"]) == (START, NOW)
    assert metrics["violations"] == []
    assert metrics["changed_files"][1] == {
        "path": "b/c.py", "additions": 4, "deletions": 0, "changes": 4, "kind": "added", "binary": False,
    }  # fmt: skip
    assert metrics["changed_files"][3]["additions"] is None
    assert [artifact.path for artifact in result.artifacts] == ["git-diff.patch"]


async def test_no_changes_pass_with_a_message(over: OverRun) -> None:
    result = await over.evaluate("git-diff", changes=over.changes())
    assert (result.status, result.message) == ("passed", "There are no changes.")
    assert result.metrics["change_entropy"] == 0.0
    result = await over.evaluate("git-diff", {"assertions": {"min_files_changed": 1}}, changes=over.changes())
    assert (result.status, result.message) == ("failed", "There are no changes, but files_changed is 0, less than 1.")


async def test_without_a_baseline_it_is_skipped(over: OverRun) -> None:
    result = await over.evaluate("git-diff")
    assert result.status == "skipped"
    assert "nothing to compare with" in result.message


# Of the changes below: 2 files, 10 lines added, 6 removed, 16 in all, 8 each, so an entropy of 1 bit.
LIMITS = {"files_changed": 2, "lines_added": 10, "lines_removed": 6, "total_changes": 16, "change_entropy": 1.0}


@pytest.mark.parametrize("where", ["assertions", "config"])
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("measure", LIMITS)
async def test_each_limit_holds_exactly(over: OverRun, measure: str, end: str, where: str) -> None:
    changes = over.changes(changed("a", 5, 3), changed("b", 5, 3))
    name, actual = f"{end}_{measure}", LIMITS[measure]

    async def verdict(limit: float) -> Any:
        config = {name: limit} if where == "config" else {"assertions": {name: limit}}
        return await over.evaluate("git-diff", config, changes=changes)

    just_right = await verdict(actual)
    assert just_right.status == "passed"
    assert [(a.name, a.passed, a.expected, a.actual) for a in just_right.assertions] == [(name, True, actual, actual)]
    too_far = await verdict(actual + 1 if end == "min" else actual - 1)
    assert too_far.status == "failed"
    assert too_far.metrics["violations"] == [too_far.assertions[0].message]
    assert measure in too_far.message


async def test_zero_is_a_limit(over: OverRun) -> None:
    result = await over.evaluate(
        "git-diff", {"assertions": {"max_lines_removed": 0}}, changes=over.changes(changed("a", 5, 1))
    )
    assert result.status == "failed"
    assert "lines_removed is 1, more than 0" in result.message


async def test_all_violations_are_named(over: OverRun) -> None:
    config = {
        "assertions": {"max_files_changed": 1, "min_lines_added": 5},
        "required_paths": ["docs/**", "**/*.py"],
        "forbidden_paths": ["tests", ".github/**"],
    }
    changes = over.changes(changed("a.py"), changed("tests/t.py"), changed("tests/u.py"))
    result = await over.evaluate("git-diff", config, changes=changes)
    assert result.metrics["violations"] == [
        "files_changed is 3, more than 1 (a.py, tests/t.py, tests/u.py)",
        "lines_added is 3, less than 5",
        "no file that matches docs/** was changed",
        "tests/t.py and 1 other must not be changed (tests)",
    ]
    assert all(violation in result.message for violation in result.metrics["violations"])
    by_paths = [(a.name, a.expected, a.passed, a.actual) for a in result.assertions[2:]]
    assert by_paths == [
        ("required_paths", "docs/**", False, []),
        ("required_paths", "**/*.py", True, ["a.py", "tests/t.py", "tests/u.py"]),
        ("forbidden_paths", "tests", False, ["tests/t.py", "tests/u.py"]),
        ("forbidden_paths", ".github/**", True, []),
    ]


async def test_filters_select_what_is_counted_but_do_not_hide_forbidden_paths(over: OverRun) -> None:
    changes = over.changes(changed("package-lock.json", 5000), changed("src/a.ts", 2), changed("src/gen/b.ts", 9))
    config = {"include_paths": ["src"], "exclude_paths": ["**/gen/**"], "forbidden_paths": ["package-lock.json"]}
    result = await over.evaluate("git-diff", config, changes=changes)
    assert (result.metrics["files_changed"], result.metrics["lines_added"]) == (1, 2)
    assert result.metrics["violations"] == ["package-lock.json must not be changed (package-lock.json)"]


async def test_a_path_that_is_not_utf_8_can_be_reported(over: OverRun) -> None:
    result = await over.evaluate("git-diff", {"forbidden_paths": ["*"]}, changes=over.changes(changed("a\udcff.py")))
    assert result.metrics["changed_files"][0]["path"] == r"a\xff.py"
    assert r"a\xff.py" in result.message


def test_of_very_many_files_the_largest_are_listed() -> None:
    files = [changed(f"f{n:05}", n % 7) for n in range(MAX_LISTED + 500)]
    metrics = change_metrics(files)
    assert metrics["files_changed"] == MAX_LISTED + 500
    assert metrics["changed_files_omitted"] == 500
    listed = metrics["changed_files"]
    assert [file["path"] for file in listed] == sorted(file["path"] for file in listed)
    assert min(file["changes"] for file in listed) >= 2


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_entropy_is_between_zero_and_its_maximum(counts: list[int]) -> None:
    entropy = change_entropy(counts)
    real = [count for count in counts if count]
    assert 0 <= entropy <= (math.log2(len(real)) + 1e-9 if real else 0)
    if len(real) < 2:
        assert entropy == 0.0


def test_entropy_examples() -> None:
    assert change_entropy([1, 1]) == pytest.approx(1.0)
    assert change_entropy([1, 3]) == pytest.approx(0.811278, abs=1e-6)
    assert change_entropy([5, 0]) == 0.0


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"assertions": {"max_files_changed": 5, "max_lines_added": 0, "min_change_entropy": 0.5}},
        {"max_files_changed": 5, "max_lines_changed": 100, "include_entropy": True},
        {"base_commit": "HEAD", "assertions": {"max_change_entropy": 2}},
        {"base_commit": START[:7]},
    ],
)
def test_options_of_the_original_are_accepted(config: dict[str, Any]) -> None:
    assert problems("git-diff", **config) == []


async def test_lines_changed_is_total_changes(over: OverRun) -> None:
    result = await over.evaluate("git-diff", {"max_lines_changed": 3}, changes=over.changes(changed("a", 3, 1)))
    assert [(a.name, a.passed) for a in result.assertions] == [("max_total_changes", False)]


@pytest.mark.parametrize("base", ["HEAD", START, START[:8]])
async def test_the_start_may_be_named(over: OverRun, base: str) -> None:
    assert (await over.evaluate("git-diff", {"base_commit": base}, changes=over.changes())).status == "passed"


@pytest.mark.parametrize("start", [START, None])
async def test_another_start_is_refused(over: OverRun, start: str | None) -> None:
    with pytest.raises(YouBenchaError) as caught:
        await over.evaluate("git-diff", {"base_commit": "abcd" * 10}, changes=over.changes(base=start))
    assert caught.value.code == "GIT_DIFF_OTHER_BASE"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"assertions": {"max_file_changed": 1}}, "assertions.max_file_changed: unknown key (did you mean 'max_files"),
        ({"max_filez_changed": 1}, "max_filez_changed: unknown key (did you mean 'max_files_changed'?)"),
        ({"forbiden_paths": []}, "did you mean 'forbidden_paths'?"),
        ({"assertions": {"max_files_changed": "5"}}, "assertions.max_files_changed: must be a whole number, not text"),
        ({"assertions": {"max_files_changed": -1}}, "must be at least 0"),
        ({"assertions": {"max_change_entropy": float("nan")}}, "assertions.max_change_entropy"),
        ({"assertions": {"min_lines_added": 5, "max_lines_added": 4}}, "assertions.min_lines_added: must not be more"),
        ({"min_lines_added": 5, "assertions": {"max_lines_added": 4}}, "min_lines_added: must not be more"),
        ({"max_lines_added": 5, "assertions": {"max_lines_added": 5}}, "max_lines_added: is set twice"),
        ({"base_commit": "main"}, "base_commit: must be HEAD"),
        ({"base_commit": "HEAD~1"}, "base_commit: must be HEAD"),
        ({"required_paths": "src"}, "required_paths: must be a list, not text"),
        ({"forbidden_paths": ["../x"]}, "forbidden_paths.0: must not contain `..`"),
        ({"exclude_paths": ["src/**.py"]}, "exclude_paths.0: `**` must stand alone"),
    ],
)
def test_problems_are_reported_before_the_run(config: dict[str, Any], expected: str) -> None:
    found = problems("git-diff", **config)
    assert len(found) == 1
    assert expected in found[0]


async def test_an_unchecked_configuration_is_an_error(over: OverRun) -> None:
    with pytest.raises(YouBenchaError, match="2 problems"):
        await over.evaluate("git-diff", {"a": 1, "b": 2}, changes=over.changes())


async def test_a_missing_patch_is_not_listed(over: OverRun) -> None:
    changes = over.changes()
    Path(changes.patch_file).unlink()
    assert (await over.evaluate("git-diff", changes=changes)).artifacts == ()
