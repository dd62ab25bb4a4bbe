"""The similarity of two texts, 1 - edit distance / longer length, in time proportional to the length.

The edit distance itself is quadratic: 32 ms for two texts of 30 KB, half a minute for 1 MB, with the fastest code.
So it is computed in full only if that is cheap: for short texts, and for long ones that are nearly the same (a narrow
band along the diagonal is then enough). Other texts are aligned by their equal lines, then by their equal words, and
the distances between the differing parts are summed. That sum can be too large but never too small, so a similarity
`by_lines` is a lower bound of the exact one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Literal, NamedTuple

Method = Literal["exact", "by_lines", "by_bytes"]

SMALL_CELLS = 100_000_000
"""Length times length up to which texts are compared in full: 5 ms (10,000 characters each)."""

HUNK_CELLS = 4_000_000
"""The same for the parts between equal lines, of which a megabyte may have hundreds."""

NEAR = 1_000
"""The distance up to which long texts are compared in full: 3 ms for 30 KB, 80 ms for 1 MB."""

_STRIPE = 2_000
"""If nothing can be aligned, texts are cut into stripes of this many characters, which are compared one by one."""

_MOST_CUT = 8_000_000
"""Texts longer than this are not cut into lines and words: the pieces would take too much memory."""

_WORD = re.compile(r"\w+\W*|\W+")
"""A word and the separators after it: fewer pieces, and more of them unique."""

_CUTS: tuple[Callable[[str], list[str]], ...] = (partial(str.splitlines, keepends=True), _WORD.findall)
"""Into lines first, then into words."""


_VISITS = 3
"""How often each piece is visited on average. A hostile text could yield one more anchor each time; an ordinary one has
nearly all of them after two."""


class Similarity(NamedTuple):
    similarity: float
    """From 0 to 1; 1 only for identical texts."""
    method: Method


def text_similarity(one: str, other: str) -> Similarity:
    if one == other:
        return Similarity(1.0, "exact")
    first, second = sorted((one, other))  # so that the result is symmetric
    longer = max(len(one), len(other))
    first, second = _without_equal_ends(first, second)
    distance = _in_full(first, second, SMALL_CELLS)
    if distance is not None:
        return Similarity(1 - distance / longer, "exact")
    return Similarity(1 - _by_pieces(first, second, 0) / longer, "by_lines")


def _in_full(one: str, other: str, cells: int) -> int | None:
    """The edit distance, if it is cheap to compute."""
    if not one or not other:
        return len(one) + len(other)
    if len(one) * len(other) <= cells:
        return _levenshtein()(one, other)
    distance = _levenshtein()(one, other, score_cutoff=NEAR, score_hint=32)
    return distance if distance <= NEAR else None


@cache
def _levenshtein() -> Callable[..., int]:
    from rapidfuzz.distance import Levenshtein  # takes 10 ms to load

    return Levenshtein.distance


def _bound(one: str, other: str, level: int) -> int:
    if len(one) * len(other) > HUNK_CELLS:
        one, other = _without_equal_ends(one, other)
    distance = _in_full(one, other, HUNK_CELLS)
    return _by_pieces(one, other, level) if distance is None else distance


def _by_pieces(one: str, other: str, level: int) -> int:
    """An upper bound of the edit distance: equal pieces are aligned, and the rest is compared part by part."""
    longer = max(len(one), len(other))
    aligned = _aligned(one, other, level) if longer <= _MOST_CUT else longer
    if aligned <= longer // 2:
        return aligned
    # Little is equal, so the alignment may not help: any two texts have letters in common.
    return min(aligned, longer, sum(_bound(*part, len(_CUTS)) for part in _stripes(one, other)))


def _aligned(one: str, other: str, level: int) -> int:
    for next_level, cut in enumerate(_CUTS[level:], level + 1):
        left, right = cut(one), cut(other)
        parts = list(hunks(left, right))
        if len(parts) > 1:
            return sum(_bound(_joined(left, part.left), _joined(right, part.right), next_level) for part in parts)
    return len(one) + len(other)


def _joined(pieces: Sequence[str], indexes: range) -> str:
    return "".join(pieces[indexes.start : indexes.stop])


def _stripes(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Cut both texts into the same number of equal parts."""
    number = -(-max(len(one), len(other)) // _STRIPE)
    for index in range(number):
        yield _share(one, index, number), _share(other, index, number)


def _share(text: str, index: int, number: int) -> str:
    return text[len(text) * index // number : len(text) * (index + 1) // number]


def _without_equal_ends(one: str, other: str) -> tuple[str, str]:
    start = _common_start(one, other)
    one, other = one[start:], other[start:]
    end = _common_start(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _common_start(one: str, other: str) -> int:
    """The length of the common prefix, by bisection: comparing slices runs at memory speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Hunk(NamedTuple):
    """Pieces of the left text that correspond to different pieces of the right one."""

    left: range
    right: range


def hunks(left: Sequence[str], right: Sequence[str]) -> Iterator[Hunk]:
    """Yield the parts that differ, in any order, in nearly linear time for any input. The rest is equal and in order.

    Pieces that occur once on either side are anchors, if they are in the same order. The search is repeated between
    anchors, where other pieces may be unique.
    """
    numbers: dict[str, int] = {}  # counted and compared three times faster than texts
    left_numbers = [numbers.setdefault(piece, len(numbers)) for piece in left]
    right_numbers = [numbers.setdefault(piece, len(numbers)) for piece in right]
    return _hunks(left_numbers, right_numbers)


def _hunks(left: Sequence[int], right: Sequence[int]) -> Iterator[Hunk]:
    allowance = _VISITS * (len(left) + len(right))
    waiting = [Hunk(range(len(left)), range(len(right)))]
    while waiting:
        hunk = _trim_hunk(left, right, waiting.pop())
        if not hunk.left and not hunk.right:
            continue
        allowance -= len(hunk.left) + len(hunk.right)
        anchors = _anchors(left, right, hunk) if allowance > 0 and hunk.left and hunk.right else []
        if anchors:
            waiting += _between(hunk, anchors)
        else:
            yield hunk


def _trim_hunk(left: Sequence[int], right: Sequence[int], hunk: Hunk) -> Hunk:
    (first, last), (other_first, other_last) = (hunk.left.start, hunk.left.stop), (hunk.right.start, hunk.right.stop)
    while first < last and other_first < other_last and left[first] == right[other_first]:
        first, other_first = first + 1, other_first + 1
    while first < last and other_first < other_last and left[last - 1] == right[other_last - 1]:
        last, other_last = last - 1, other_last - 1
    return Hunk(range(first, last), range(other_first, other_last))


def _anchors(left: Sequence[int], right: Sequence[int], hunk: Hunk) -> list[tuple[int, int]]:
    left_part, right_part = left[hunk.left.start : hunk.left.stop], right[hunk.right.start : hunk.right.stop]
    shared = _unique(left_part) & _unique(right_part)
    if not shared:
        return []
    right_index = {piece: index for index, piece in enumerate(right_part, hunk.right.start) if piece in shared}
    pairs = [(index, right_index[piece]) for index, piece in enumerate(left_part, hunk.left.start) if piece in shared]
    return _longest_increasing(pairs)


def _unique(pieces: Sequence[int]) -> set[int]:
    return {piece for piece, times in Counter(pieces).items() if times == 1}


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs that is increasing in their second, too. They are sorted by their first."""
    ends: list[int] = []
    tops: list[int] = []
    before: list[int | None] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(tops[length - 1] if length else None)
        ends[length : length + 1] = [second]
        tops[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    at = tops[-1] if tops else None
    while at is not None:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _between(hunk: Hunk, anchors: Sequence[tuple[int, int]]) -> Iterator[Hunk]:
    left, right = hunk.left.start, hunk.right.start
    for at, other in (*anchors, (hunk.left.stop, hunk.right.stop)):
        yield Hunk(range(left, at), range(right, other))
        left, right = at + 1, other + 1
