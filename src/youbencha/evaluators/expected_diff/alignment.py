"""Which pieces of two texts differ, in time that is nearly proportional to their length. Pure.

Pieces that occur once on either side are anchors, if they come in the same order. Between two anchors the same is
done again: what is unique there may not have been so in the whole. Nothing here is quadratic, whatever the input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LOOKS = 3
"""How often each piece is looked at on average. A hostile text could yield one more anchor each time; an ordinary one
has nearly all of them after two."""


class Hunk(NamedTuple):
    """Pieces `left.start` to `left.stop` on the one side stand against those of `right` on the other."""

    left: range
    right: range


def hunks(left: Sequence[str], right: Sequence[str]) -> Iterator[Hunk]:
    """Where the two differ, in no order. All outside of the hunks is equal, and in the same order."""
    numbers: dict[str, int] = {}  # counted and compared three times faster than texts
    here = [numbers.setdefault(piece, len(numbers)) for piece in left]
    there = [numbers.setdefault(piece, len(numbers)) for piece in right]
    return _hunks(here, there)


def _hunks(left: Sequence[int], right: Sequence[int]) -> Iterator[Hunk]:
    allowance = _LOOKS * (len(left) + len(right))
    waiting = [Hunk(range(len(left)), range(len(right)))]
    while waiting:
        hunk = _without_equal_ends(left, right, waiting.pop())
        if not hunk.left and not hunk.right:
            continue
        allowance -= len(hunk.left) + len(hunk.right)
        anchors = _anchors(left, right, hunk) if allowance > 0 and hunk.left and hunk.right else []
        if anchors:
            waiting += _between(hunk, anchors)
        else:
            yield hunk


def _without_equal_ends(left: Sequence[int], right: Sequence[int], hunk: Hunk) -> Hunk:
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
    """Of pairs in the order of their first, as many as possible that are in the order of their second too."""
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
