"""From pydantic's list of errors to the list of problems that a person can mend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from youbencha.errors import Problem
from youbencha.spec import messages
from youbencha.spec.shape import Path, Place, place, valid_keys


class ProblemAt(ValueError):
    """Raised by a model's validator to say which of its keys is wrong: the problem stands there."""

    def __init__(self, key: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.hint = hint


class Spot(Enum):
    """Which end of a mapping's entry a problem is about."""

    KEY = "key"
    VALUE = "value"


class Position(NamedTuple):
    """1-based."""

    line: int
    column: int


Locate = Callable[[Path, Spot], Position | None]


class _Found(NamedTuple):
    order: int
    error: Mapping[str, Any]
    place: Place
    wanted: tuple[str, ...] = ()
    """What each member of a union would have taken, when none of them takes this kind of value."""


def problems_of(exc: ValidationError, model: type[BaseModel], *, locate: Locate | None = None) -> list[Problem]:
    """Every problem, in document order if `locate` knows positions, else in pydantic's order."""
    errors: list[Mapping[str, Any]] = [dict(error) for error in exc.errors(include_url=False)]
    found = [_Found(order, error, place(error["loc"], model)) for order, error in enumerate(errors)]
    settled = sorted(_settle_unions(found), key=lambda item: item.order)
    problems = [_problem(item, locate) for item in settled]
    far = float("inf")
    return sorted(problems, key=lambda p: (p.line or far, p.column or far))


def dotted(path: Path) -> str:
    return ".".join(str(step) for step in path)


def _problem(found: _Found, locate: Locate | None) -> Problem:
    error, where = found.error, found.place
    path, spot, hint = where.path, Spot.VALUE, None
    raised = error.get("ctx", {}).get("error")
    match error["type"]:
        case "extra_forbidden":
            spot, hint = Spot.KEY, messages.hint_for_key(str(path[-1]), valid_keys(where.parent))
        case "union_tag_not_found" | "union_tag_invalid":
            path = (*path, error["ctx"]["discriminator"].strip("'"))
            hint = messages.hint_for_value(error)
        case "invalid_key":
            spot = Spot.KEY
        case _ if isinstance(raised, ProblemAt):
            path, spot, hint = (*path, raised.key), Spot.KEY, raised.hint
        case _:
            spot = Spot.KEY if where.at_key else Spot.VALUE
            hint = messages.hint_for_value(error)
    message = messages.wrong_kind(found.wanted, error["input"]) if found.wanted else messages.sentence(error)
    at = locate(path, spot) if locate else None
    return Problem(dotted(path), message, hint, at.line if at else None, at.column if at else None)


def _settle_unions(found: Sequence[_Found], depth: int = 0) -> list[_Found]:
    """Pydantic tells what is wrong with every member of a union; keep the one that was most likely meant."""
    kept: list[_Found] = []
    unions: dict[Path, list[_Found]] = {}
    for item in found:
        if len(item.place.forks) <= depth:
            kept.append(item)
        else:
            unions.setdefault(item.place.forks[depth].at, []).append(item)
    for at, group in unions.items():
        kept += _settle_unions(_likely_member(group, at, depth), depth + 1)
    return kept


def _likely_member(group: Sequence[_Found], at: Path, depth: int) -> list[_Found]:
    branches: dict[Any, list[_Found]] = {}
    for item in group:
        branches.setdefault(item.place.forks[depth].member, []).append(item)
    kinds = {name: wanted for name, branch in branches.items() if (wanted := _kind_only(branch, at))}
    possible = [branch for name, branch in branches.items() if name not in kinds]
    if possible:
        return min(possible, key=_unlikely)
    return [group[0]._replace(wanted=tuple(kinds.values()))]


def _kind_only(branch: Sequence[_Found], at: Path) -> str | None:
    """The kind of value that this member takes, if all that is wrong is that the value is of another kind."""
    first = branch[0].error
    at_union_itself = len(branch) == 1 and len(first["loc"]) == len(at) + 1
    return messages.kind_wanted(first) if at_union_itself else None


def _unlikely(branch: Sequence[_Found]) -> tuple[bool, int]:
    """A member whose constant (`type: a`) differs was not meant; else the fewer errors, the likelier."""
    return any(item.error["type"] == "literal_error" for item in branch), len(branch)
