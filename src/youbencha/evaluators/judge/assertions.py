"""What a judge is asked, in every form that people write it in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from youbencha.evaluators.judge.answer import folded
from youbencha.spec import Written
from youbencha.spec.base import Line

RESERVED = frozenset(
    {"asked_again", "judge", "judge_status", "overall_score", "reasons", "severity", "spread", "votes"}
)
"""What the judge's own metrics are called; each assertion is a metric beside them."""

_LONGEST_SLUG = 40

Score = Annotated[float, Field(ge=0.0, le=1.0)]


class MappedAssertion(Written):
    """As the value of its name; the description alone may be written as plain text."""

    description: Line
    threshold: Score | None = None
    weight: Annotated[float, Field(gt=0.0)] = 1.0
    severity: Any = None
    """Older test cases have it. It is passed on in the result, and decides nothing."""


class ListedAssertion(MappedAssertion):
    """As an item of a list. Without a name, it gets one from its first words."""

    name: Line | None = None


def _described(value: object) -> object:
    return {"description": value} if isinstance(value, str) else value


MappedAssertions = dict[Line, Annotated[MappedAssertion, BeforeValidator(_described)]]
ListedAssertions = Annotated[tuple[Annotated[ListedAssertion, BeforeValidator(_described)], ...], Field(strict=False)]
Assertions = Annotated[MappedAssertions | ListedAssertions, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Assertion:
    name: str
    text: str
    threshold: float
    weight: float
    severity: Any = None


def resolve(written: Mapping[str, MappedAssertion] | Iterable[ListedAssertion], threshold: float) -> list[Assertion]:
    """All assertions with their names, in the order in which they were written."""
    if not isinstance(written, Mapping):
        written = _named(tuple(written))
    return [
        Assertion(
            name=name,
            text=each.description,
            threshold=threshold if each.threshold is None else each.threshold,
            weight=each.weight,
            severity=each.severity,
        )
        for name, each in written.items()
    ]


def check_names(written: Mapping[str, Any] | Iterable[ListedAssertion]) -> None:
    """Raises if two names would be one in a judge's answer, or one of them is a metric of our own."""
    names = list(written) if isinstance(written, Mapping) else [each.name for each in written if each.name is not None]
    for name in names:
        if not folded(name):
            raise ValueError(f"the name {name!r} has no letter or digit in it")
        if name in RESERVED:
            raise ValueError(f"{name!r} is a metric of the judge itself: choose another name")
    if twice := _first_twice(names):
        raise ValueError(f"the name {twice!r} is given twice: hyphens, underscores and capitals make no difference")


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if folded(name) in seen:
            return name
        seen.add(folded(name))
    return None


def _named(listed: tuple[ListedAssertion, ...]) -> dict[str, ListedAssertion]:
    taken = {folded(name) for name in RESERVED} | {folded(each.name) for each in listed if each.name is not None}
    named: dict[str, ListedAssertion] = {}
    for number, each in enumerate(listed, start=1):
        name = each.name or next(slug for slug in _slugs(each.description, number) if slug not in taken)
        taken.add(folded(name))
        named[name] = each
    return named


def _slugs(text: str, number: int) -> Iterator[str]:
    """`tests_were_added`, then `tests_were_added_2` …"""
    words = re.sub(r"[\W_]+", " ", text.casefold()).split()
    slug = ""
    for word in words:
        if len(slug) + len(word) >= _LONGEST_SLUG:
            break
        slug = f"{slug}_{word}" if slug else word
    slug = slug or f"assertion_{number}"
    yield slug
    for suffix in range(2, 10_000):
        yield f"{slug}_{suffix}"
