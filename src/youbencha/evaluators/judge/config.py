"""What a person may write under `config` of an agentic-judge. Whatever is not known here is an option of its agent."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError, field_validator

from youbencha.errors import Problem
from youbencha.evaluators.judge.answer import normalized_name
from youbencha.files import PathNotAllowed, confined
from youbencha.spec import StrictModel, problems_of
from youbencha.spec.base import Line, Milliseconds

RESERVED = frozenset(
    {"asked_again", "judge", "judge_status", "overall_score", "reasons", "severity", "spread", "votes"}
)
"""What the judge's own metrics are called; each assertion is a metric beside them."""

_LONGEST_SLUG = 40

Score = Annotated[float, Field(ge=0.0, le=1.0)]


class MappedAssertion(StrictModel):
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
        if not normalized_name(name):
            raise ValueError(f"the name {name!r} has no letter or digit in it")
        if name in RESERVED:
            raise ValueError(f"{name!r} is a metric of the judge itself: choose another name")
    if twice := _first_twice(names):
        raise ValueError(f"the name {twice!r} is given twice: hyphens, underscores and capitals make no difference")


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if normalized_name(name) in seen:
            return name
        seen.add(normalized_name(name))
    return None


def _named(listed: tuple[ListedAssertion, ...]) -> dict[str, ListedAssertion]:
    taken = {normalized_name(name) for name in RESERVED} | {
        normalized_name(each.name) for each in listed if each.name is not None
    }
    named: dict[str, ListedAssertion] = {}
    for number, each in enumerate(listed, start=1):
        name = each.name or next(slug for slug in _slugs(each.description, number) if slug not in taken)
        taken.add(normalized_name(name))
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


DEFAULT_THRESHOLD = 0.7
"""A full score passes, and so does one with a small doubt; a half ("0.5 if partial") does not."""

_GUIDANCE = ("prompt", "prompt_file", "instructions-file", "instructions_file")

_ASKED = ("assertions", "criteria")

Votes = Annotated[int, Field(ge=1, le=9)]


class JudgeConfig(StrictModel):
    """`config` of an agentic-judge."""

    type: Line | None = None
    """Which agent judges. By default, the test case's own."""
    agent_name: Line | None = None
    """A custom agent; `agentic-judge` is ours."""
    model: Line | None = None
    version: Line | None = None
    timeout: Milliseconds = 300_000
    """Of each vote, in milliseconds."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent that judges. They may also stand beside the keys here."""
    env: dict[str, str] = Field(default_factory=dict)
    """Over what the test case gives its agent."""
    prompt: Line | None = None
    """Guidance for the judge, before the assertions."""
    prompt_file: Line | None = None
    """The same in a file, relative to the one that names it."""
    instructions_file: Line | None = Field(
        default=None, validation_alias=AliasChoices("instructions-file", "instructions_file")
    )
    """The same; older test cases call it so. `{{ASSERTIONS}}` in it is replaced by the assertions."""
    assertions: Assertions | None = None
    """Name -> what must hold, or -> {description, threshold, weight}; or a list."""
    criteria: Assertions | None = None
    """What older test cases call the assertions."""
    threshold: Score = DEFAULT_THRESHOLD
    """The least score with which an assertion holds, where it has none of its own."""
    votes: Votes = 1
    """How many judges are asked, each on its own. The median of their scores counts."""
    max_concurrent_votes: Votes = 3
    judge_failed_runs: bool = False
    """Judge also what an agent left behind that failed or ran out of time. It cannot pass any more."""

    @field_validator("assertions", "criteria")
    @classmethod
    def _names_are_told_apart(cls, written: Any) -> Any:
        if written is not None:
            check_names(written)
        return written

    def asked(self) -> list[Assertion]:
        return resolve(self.assertions or self.criteria or {}, self.threshold)


OWN_KEYS = frozenset({*JudgeConfig.model_fields, "instructions-file"})


@dataclass(frozen=True)
class CheckedConfig:
    judge: JudgeConfig | None
    """None where a part of it is wrong."""
    problems: Sequence[Problem]


def read_config(raw: Mapping[str, Any]) -> CheckedConfig:
    """Pydantic does not come to look at the whole where a part is wrong, so the whole is looked at here."""
    problems = [*_one_guidance(raw), *_one_list(raw)]
    try:
        judge = JudgeConfig.model_validate({key: value for key, value in raw.items() if key in OWN_KEYS})
    except ValidationError as error:
        return CheckedConfig(None, [*problems_of(error, JudgeConfig), *problems])
    return CheckedConfig(judge, problems)


def _one_guidance(raw: Mapping[str, Any]) -> list[Problem]:
    first, *others = [key for key in _GUIDANCE if raw.get(key) is not None] or [""]
    return [Problem(key, f"must not stand beside `{first}`: one of them guides the judge") for key in others]


def _one_list(raw: Mapping[str, Any]) -> list[Problem]:
    given = [key for key in _ASKED if raw.get(key) is not None]
    if len(given) > 1:
        return [Problem("criteria", "must not stand beside `assertions`, which is its newer name")]
    return [] if given else [Problem("assertions", "is required", "say what must hold, each under a name of its own")]


# A person's own words to the judge, in place or from a file beside the test case.

_FILES = ("prompt_file", "instructions-file", "instructions_file")

MAX_LENGTH = 200_000
"""Characters: guidance, not a library."""


class BadGuidance(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_guidance(raw: Mapping[str, Any], config_dir: Path) -> str:
    """Empty if there is none."""
    for key in _FILES:
        if isinstance(name := raw.get(key), str):
            return _read(key, name.strip(), config_dir)
    prompt = raw.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""


def _read(key: str, name: str, base: Path) -> str:
    try:
        path = confined(base, name)
        if not stat.S_ISREG(path.stat().st_mode):
            raise _bad(key, f"{name} is not a regular file")  # a pipe would be waited on for ever
        with path.open("rb") as file:
            text = file.read(4 * MAX_LENGTH + 1).decode("utf-8-sig").strip()
    except PathNotAllowed as error:
        raise _bad(key, error.message, error.hint) from None
    except FileNotFoundError:
        raise _bad(key, f"{name} does not exist", f"it is looked for in {base}") from None
    except UnicodeDecodeError:
        raise _bad(key, f"{name} is not UTF-8 text") from None
    except OSError as error:
        raise _bad(key, f"{name} cannot be read: {error.strerror}") from None
    if not text:
        raise _bad(key, f"{name} is empty")
    if len(text) > MAX_LENGTH:
        raise _bad(key, f"{name} is longer than {MAX_LENGTH:,} characters")
    return text


def _bad(key: str, message: str, hint: str | None = None) -> BadGuidance:
    return BadGuidance(Problem(key, message, hint))
