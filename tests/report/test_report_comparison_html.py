"""The page of a comparison: the verdict first, pictures with words, and links to what both did."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from pathlib import Path

import comparison_sample as sample
import pytest
from test_report_html import URL_ATTRIBUTES, Page

from youbencha.report.charts import Axis, Measured, intervals_picture, round_step, rounds_picture, task_picture
from youbencha.report.comparison_html import MAX_TASKS, MAX_TRIALS, render_comparison_html
from youbencha.report.comparison_model import ComparisonReport
from youbencha.stats.model import DifferenceInterval
from youbencha.text import visible

HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>\"'><img src=x onerror=x>{{ 7*7 }}"
RELATIVE = Path("results/runs")


def hostile() -> ComparisonReport:
    return sample.report(sample.pair(first=HOSTILE, warnings=(HOSTILE,), only_first=(HOSTILE,)), notes=(HOSTILE,))


REPORTS = {
    "six tasks": sample.report(sample.until_decided()),
    "one task": sample.report(sample.one_trial()),
    "200 tasks": sample.report(sample.pair(200, 3)),
    "several": sample.report(sample.pair(), sample.until_decided(first="claude-code+mcp")),
    "nothing known": sample.report(sample.nothing_known()),
    "hostile": hostile(),
    "several hostile": sample.report(sample.pair(), *hostile().comparisons),
}


@functools.cache
def page_of(name: str) -> Page:
    return Page(render_comparison_html(REPORTS[name], RELATIVE))


@pytest.mark.parametrize("name", REPORTS)
def test_a_well_formed_page_that_loads_nothing(name: str) -> None:
    page = page_of(name)
    assert (page.open, page.unbalanced) == ([], [])
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    urls = [value or "" for _, found in page.tags for name, value in found.items() if name in URL_ATTRIBUTES]
    assert all(url.startswith(("#", "./", "data:image/svg+xml,")) for url in urls)
    assert {url[1:] for url in urls if url.startswith("#")} <= set(identifiers)


@pytest.mark.parametrize("name", REPORTS)
def test_every_picture_has_words_and_stays_in_its_frame(name: str) -> None:
    page = page_of(name)
    pictures = [found for tag, found in page.tags if tag == "svg" and "plot" in (found.get("class") or "")]
    assert pictures
    assert all("aria-hidden" in picture or picture.get("role") == "img" for picture in pictures)
    assert len([tag for tag, _ in page.tags if tag == "title"]) > len(
        [picture for picture in pictures if "role" in picture]
    )
    places = [value for _, found in page.tags for name, value in found.items() if name in ("x", "x1", "x2", "cx")]
    shares = [float(place[:-1]) for place in places if place and place.endswith("%")]
    assert shares
    assert 0 <= min(shares) <= max(shares) <= 100


@pytest.mark.parametrize("name", ["hostile", "several hostile"])
def test_hostile_text_adds_no_tag_and_no_attribute(name: str) -> None:
    page = page_of(name)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "iframe", "form", "base"})
    assert not [name for _, found in page.tags for name in found if name.startswith("on") or name in ("style", "src")]
    assert visible(HOSTILE) in page.words


@pytest.mark.parametrize("name", ["six tasks", "one task", "hostile"])
def test_the_verdict_is_the_first_thing(name: str) -> None:
    words = page_of(name).words
    start = words.partition("Skip to the comparison ")[2]
    assert start.startswith((visible(REPORTS[name].comparisons[0].first.name)[:30], "Undecided: "))


def test_several_comparisons_begin_with_all_verdicts() -> None:
    words = page_of("several").words
    start = words.partition("Skip to the comparison ")[2].partition("All comparisons")[0]
    assert "2 comparisons better claude-code+skill is better than" in start
    assert "better claude-code+mcp is better than" in start


def test_both_intervals_are_named_and_on_one_axis_with_zero_and_the_margin() -> None:
    picture = intervals_picture(
        [
            Measured("these", 0.12, DifferenceInterval(0.04, 0.2), ""),
            Measured("like these", 0.12, DifferenceInterval(-0.08, 0.32), ""),
            Measured("unknown", None, None, ""),
        ],
        margin=0.05,
    )
    these, others, unknown = picture.lanes
    assert these.interval is not None
    assert others.interval is not None
    assert picture.margin is not None
    assert picture.margin.start + picture.margin.width / 2 == pytest.approx(picture.zero)
    assert others.interval.start < picture.zero < these.interval.start < these.estimate  # type: ignore[operator]
    assert others.interval.width == pytest.approx(2.5 * these.interval.width)
    assert (unknown.estimate, unknown.interval) == (None, None)
    assert "0" in {tick.label for tick in picture.ticks if tick.at == pytest.approx(picture.zero)}
    for words in ("On these tasks +0.12 [+0.04, +0.20] better", "On tasks like these +0.12 [-0.08, +0.32] undecided"):
        assert words in page_of("six tasks").words


def test_tasks_are_sorted_by_difference_and_flaky_ones_are_marked() -> None:
    page, pair = page_of("six tasks"), REPORTS["six tasks"].comparisons[0]
    expected = sorted(pair.tasks, key=lambda each: -each.difference)
    found = [page.words.index(f"{each.task} flaky" if each in pair.flaky else each.task) for each in expected]
    assert found == sorted(found)


def test_marks_differ_by_shape_and_dots_grow_with_the_number_of_trials() -> None:
    chance = random.Random(3)
    task = sample.task("task", 9, chance)
    picture = task_picture(task)
    counts = [float(dot.description.split()[0]) for dot in picture.first_dots]
    radii = [dot.radius for dot in picture.first_dots]
    assert sum(counts) == 9
    assert sorted(radii) == [radius for _, radius in sorted(zip(counts, radii, strict=True))]
    assert len(set(radii)) == len(set(counts)) > 1
    assert picture.first == pytest.approx(task.first.score * 100)
    assert picture.second == pytest.approx(task.second.score * 100)
    assert picture.description.count("0.25") + picture.description.count("0.60") + picture.description.count("1.00") > 5
    shapes = {
        (tag, found["class"]) for tag, found in page_of("six tasks").tags if found.get("class") in ("first", "second")
    }
    assert shapes == {("circle", "first"), ("path", "second")}


def test_trials_that_are_not_valid_are_no_dots() -> None:
    invalid = sample.trial("task", "skill", 2, 0.5, valid=False)
    result = sample.result("task", "skill", 1, random.Random(1))
    task = sample.task("task", 1, random.Random(1))
    task = replace(task, first=replace(result, trials=(*result.trials, invalid)))
    assert sum(int(dot.description.split()[0]) for dot in task_picture(task).first_dots) == 1


def test_of_many_tasks_those_with_small_differences_are_folded() -> None:
    page = page_of("200 tasks")
    assert len([each for each in page.all("details") if each.get("class") == "duel"]) == 200
    assert len([each for each in page.all("details") if each.get("class") == "between"]) == 1
    assert f"{200 - MAX_TASKS} tasks with differences from " in page.words
    assert not [each for each in page_of("six tasks").all("details") if each.get("class") == "between"]


def test_links_to_both_diffs_and_transcripts_relative_to_the_page() -> None:
    links = [each["href"] or "" for each in page_of("six tasks").all("a")]
    trial = "2026-01-02T03-00-00Z-0000aaaa/trials/{}/task-001/trial-1"
    for agent in ("skill", "plain"):
        assert f"./{trial.format(agent)}/diff.patch" in links
        assert f"./{trial.format(agent)}/attempts/1/artifacts/youbencha-log.json" in links


def test_only_the_first_of_many_trials_are_listed() -> None:
    page = Page(render_comparison_html(sample.report(sample.pair(1, MAX_TRIALS + 5)), RELATIVE))
    assert "10 more trials: in the format json" in page.words
    assert len([each for each in page.all("a") if (each["href"] or "").endswith("/diff.patch")]) == 2 * MAX_TRIALS


def test_the_confidence_sequence_is_shown_only_if_it_ended_the_run() -> None:
    assert "The confidence sequence over 24 rounds" in page_of("six tasks").words
    assert "Trials saved 912 of 1,200" in page_of("six tasks").words
    assert "confidence sequence" not in page_of("one task").words


@pytest.mark.parametrize("rounds", [1, 3, 12, 24, 5000])
def test_the_picture_of_the_rounds(rounds: int) -> None:
    intervals = sample.narrowing(rounds)
    picture = rounds_picture(intervals, 0.05)
    low, high = ([tuple(map(float, at.split(","))) for at in line.split()] for line in (picture.low, picture.high))
    assert len(low) == len(high) <= 402
    assert (low[0], high[0]) == ((0, 100), (0, 0))  # from -1 to 1; 0 is at the top
    assert low[-1] == pytest.approx((100, 50 - 50 * intervals[-1].low), abs=0.01)
    assert high[-1] == pytest.approx((100, 50 - 50 * intervals[-1].high), abs=0.01)
    widths = [below[1] - above[1] for below, above in zip(low, high, strict=True)]
    assert widths == sorted(widths, reverse=True)
    labels = [tick.label for tick in picture.x_ticks]
    assert len(set(labels)) == len(labels)
    assert all("." not in label for label in labels)


@pytest.mark.parametrize("value", [1e-6, 0.03, 0.7, 41.0, 3e6])
def test_axes_have_a_few_round_numbers_for_any_size(value: float) -> None:
    axis = Axis.around([value, -value / 3])
    labels = [tick.label for tick in axis.ticks(signed=True)]
    assert 3 <= len(labels) <= 8
    assert "0" in labels
    assert 0 < axis.at(-value / 3) < axis.at(value) < 100
    assert round_step(axis.high - axis.low, 6) <= axis.high - axis.low


def test_an_axis_of_nothing() -> None:
    assert Axis.around([]).at(0) == 50
