"""How alike two texts are: 1 - edit distance / longer length, in time proportional to the length. Pure.

The edit distance itself is quadratic: 32 ms for two texts of 30 KB, half a minute for 1 MB, with the fastest code
there is. So it is computed in full where that is cheap: for short texts, and for long ones that are nearly the same
(a narrow band along the diagonal is then enough). Other texts are laid side by side by their equal lines, then by
their equal words, and distances are summed up over what differs. That sum can be too large but never too small, so a
similarity `by_lines` is a lower bound of the exact one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal, NamedTuple

Method = Literal["exact", "by_lines", "by_bytes"]

SMALL_CELLS = 100_000_000
"""Length times length up to which whole texts are compared in full, for 5 ms (10,000 characters each)."""

HUNK_CELLS = 4_000_000
"""The same for what differs between equal lines; there may be hundreds of those in a megabyte."""

NEAR = 1_000
"""The distance up to which long texts are compared in full: 3 ms for 30 KB, 80 ms for 1 MB."""

_STRIPE = 2_000
"""Where nothing can be laid side by side, texts are cut into this many characters and compared stripe by stripe."""

_MOST_CUT = 8_000_000
"""Texts longer than this are not cut into lines and words: the pieces would take too much memory."""

_WORD = re.compile(r"\w+\W*|\W+")
"""With what follows it: fewer pieces, and more of them unique."""

_CUTS: tuple[Callable[[str], list[str]], ...] = (partial(str.splitlines, keepends=True), _WORD.findall)
"""Into lines first, then into words."""

_LOOKS = 3
"""How often each piece is looked at on average. A hostile text could yield one more anchor each time; an ordinary one
has nearly all of them after two."""


@dataclass(frozen=True, slots=True)
class Similarity:
    similarity: float
    """From 0 to 1, and 1 only for what is identical."""
    method: Method


def text_similarity(one: str, other: str) -> Similarity:
    if one == other:
        return Similarity(1.0, "exact")
    first, second = sorted((one, other))  # so that it makes no difference which is which
    longer = max(len(one), len(other))
    first, second = _without_equal_ends(first, second)
    distance = _in_full(first, second, SMALL_CELLS)
    if distance is not None:
        return Similarity(1 - distance / longer, "exact")
    return Similarity(1 - _by_pieces(first, second, 0) / longer, "by_lines")


def _in_full(one: str, other: str, cells: int) -> int | None:
    """The edit distance, if it can be had cheaply."""
    if not one or not other:
        return len(one) + len(other)
    if len(one) * len(other) <= cells:
        return _levenshtein()(one, other)
    distance = _levenshtein()(one, other, score_cutoff=NEAR, score_hint=32)
    return distance if distance <= NEAR else None


@cache
def _levenshtein() -> Callable[..., int]:
    from rapidfuzz.distance import Levenshtein  # 10 ms, that a run without this evaluator need not wait for

    return Levenshtein.distance


def _bound(one: str, other: str, level: int) -> int:
    if len(one) * len(other) > HUNK_CELLS:
        one, other = _without_equal_ends(one, other)
    distance = _in_full(one, other, HUNK_CELLS)
    return _by_pieces(one, other, level) if distance is None else distance


def _by_pieces(one: str, other: str, level: int) -> int:
    """At least the edit distance: what is equal is left where it is, and the rest is compared part by part."""
    longer = max(len(one), len(other))
    aligned = _aligned(one, other, level) if longer <= _MOST_CUT else longer
    if aligned <= longer // 2:
        return aligned
    # Little is equal, so nothing may be gained by its order: two texts on different things have letters in common.
    return min(aligned, longer, sum(_bound(*part, len(_CUTS)) for part in _stripes(one, other)))


def _aligned(one: str, other: str, level: int) -> int:
    for next_level, cut in enumerate(_CUTS[level:], level + 1):
        left, right = cut(one), cut(other)
        parts = list(hunks(left, right))
        if len(parts) > 1:
            return sum(_bound(_joined(left, part.left), _joined(right, part.right), next_level) for part in parts)
    return len(one) + len(other)


def _joined(pieces: Sequence[str], where: range) -> str:
    return "".join(pieces[where.start : where.stop])


def _stripes(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Cut both texts into the same number of stripes, each the same share of its text."""
    number = -(-max(len(one), len(other)) // _STRIPE)
    for index in range(number):
        yield _share(one, index, number), _share(other, index, number)


def _share(text: str, index: int, number: int) -> str:
    return text[len(text) * index // number : len(text) * (index + 1) // number]


def _without_equal_ends(one: str, other: str) -> tuple[str, str]:
    start = _common_start(one, other)
    one, other = one[start:], other[start:]
    end = _common_end(one, other)
    return one[: len(one) - end], other[: len(other) - end]


def _common_start(one: str, other: str) -> int:
    """Comparing halves runs at memory speed, comparing characters one by one does not."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


class Hunk(NamedTuple):
    """Pieces `left.start` to `left.stop` on the one side stand against those of `right` on the other."""

    left: range
    right: range


def hunks(left: Sequence[str], right: Sequence[str]) -> Iterator[Hunk]:
    """Return where the two differ, in no order. All outside of the hunks is equal, and in the same order.

    Pieces that occur once on either side are anchors, if they come in the same order. Between two anchors the same is
    done again: what is unique there may not have been so in the whole. Nothing here is quadratic, whatever the input.
    """
    numbers: dict[str, int] = {}  # counted and compared three times faster than texts
    here = [numbers.setdefault(piece, len(numbers)) for piece in left]
    there = [numbers.setdefault(piece, len(numbers)) for piece in right]
    return _hunks(here, there)


def _hunks(left: Sequence[int], right: Sequence[int]) -> Iterator[Hunk]:
    allowance = _LOOKS * (len(left) + len(right))
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
    here, there = left[hunk.left.start : hunk.left.stop], right[hunk.right.start : hunk.right.stop]
    shared = _once(here) & _once(there)
    if not shared:
        return []
    places = {piece: place for place, piece in enumerate(there, hunk.right.start) if piece in shared}
    pairs = [(place, places[piece]) for place, piece in enumerate(here, hunk.left.start) if piece in shared]
    return _longest_in_order(pairs)


def _once(pieces: Sequence[int]) -> set[int]:
    return {piece for piece, times in Counter(pieces).items() if times == 1}


def _longest_in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs, sorted by their first, that is also sorted by their second."""
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
