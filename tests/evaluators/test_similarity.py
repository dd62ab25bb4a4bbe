"""The similarity of two texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from youbencha.evaluators import expected_diff
from youbencha.evaluators.expected_diff import text_similarity

TEXTS = st.text("ab \n", max_size=40) | st.text(max_size=40)


def edit_distance(one: str, other: str) -> int:
    """By the book."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


@given(TEXTS, TEXTS)
def test_short_texts_by_edit_distance(one: str, other: str) -> None:
    found = text_similarity(one, other)
    longer = max(len(one), len(other))
    assert found.similarity == (pytest.approx(1 - edit_distance(one, other) / longer) if longer else 1.0)
    assert found.method == "exact"


@given(TEXTS, TEXTS)
@example("", "")
@example("", "a")
def test_similarity_is_one_only_for_identical_texts(one: str, other: str) -> None:
    found = text_similarity(one, other)
    assert 0.0 <= found.similarity <= 1.0
    assert (found.similarity == 1.0) == (one == other)
    assert found == text_similarity(other, one)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat texts as long that are short enough to know the truth."""
    monkeypatch.setattr(expected_diff, "MAX_CELLS", 9)
    monkeypatch.setattr(expected_diff, "MAX_NEAR_DISTANCE", 2)


@pytest.mark.usefixtures("impatient")
def test_similarity_by_lines_is_a_lower_bound() -> None:
    @settings(max_examples=2 * settings().max_examples)
    @example("caa aab\na\n\n bba \nabab\ncc ", "bcb\n\na\na")  # each way, other anchors would be chosen
    @given(st.text("abc \n", max_size=80), st.text("abc \n", max_size=80))
    def holds(one: str, other: str) -> None:
        found = text_similarity(one, other)
        exact = 1 - edit_distance(one, other) / max(len(one), len(other), 1)
        assert 0.0 <= found.similarity <= exact + 1e-12
        assert (found.similarity == 1.0) == (one == other)
        assert found == text_similarity(other, one)
        if found.method == "exact":
            assert found.similarity == pytest.approx(exact)

    holds()


def lines(rng: random.Random, number: int) -> list[str]:
    return [" ".join(rng.choices(("alpha", "beta", "gamma", "delta"), k=6)) + f" {n}\n" for n in range(number)]


def test_a_long_text_with_scattered_changes() -> None:
    """1 MB, of which every tenth line is another: lines show exactly how much that is."""
    rng = random.Random(1)
    before = lines(rng, 28_000)
    after = [line if n % 10 else line.replace("a", "o") for n, line in enumerate(before)]
    replaced = sum(line.count("a") for line in before[::10])
    found = text_similarity("".join(before), "".join(after))
    assert found.method == "by_lines"
    assert found.similarity == pytest.approx(1 - replaced / len("".join(before)))


def test_a_long_text_with_few_changes_is_exact() -> None:
    text = "".join(lines(random.Random(2), 28_000))
    changed = text[:300_000] + "X" + text[300_000:600_000] + text[600_100:]
    found = text_similarity(text, changed)
    assert found.method == "exact"
    assert found.similarity == pytest.approx(1 - 101 / len(text))
    assert found.similarity < 1.0


def test_one_long_line_is_aligned_by_words() -> None:
    words = [f"w{n}=f({n});" for n in range(30_000)]
    changed = [word if n % 5 else word.upper() for n, word in enumerate(words)]
    found = text_similarity("".join(words), "".join(changed))
    assert found.method == "by_lines"
    letters = sum(word.count("w") + word.count("f") for word in words[::5])
    assert found.similarity == pytest.approx(1 - letters / len("".join(words)), abs=0.001)


HOSTILE = {
    "all lines alike": ("x\n" * 200_000, "x\n" * 150_000),
    "no line alike": ("x\n" * 200_000, "y\n" * 200_000),
    "no space at all": ("ab" * 200_000, "ba" * 190_000 + "c" * 9_000),
    "nothing in common": ("a" * 400_000, "b" * 400_000),
    "few against many": ("a\n" * 5, "b\n" * 300_000),
    "in reverse": ("\n".join(map(str, range(60_000))), "\n".join(map(str, range(60_000, 0, -1)))),
    "one more anchor each time": (
        "\n".join(f"{n + 2}\n{n}" for n in range(30_000)),
        "\n".join(f"{n + 2}\n{n} " for n in range(30_000)),
    ),
    "not for the eyes": (
        random.Random(3).randbytes(400_000).decode("latin-1"),
        random.Random(4).randbytes(400_000).decode("latin-1"),
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_texts_are_compared_in_bounded_time(what: str) -> None:
    """By the full distance, the slowest of these take half a minute, and alignments by difflib hours."""
    one, other = HOSTILE[what]
    assert 0.0 <= text_similarity(one, other).similarity < 1.0
