"""The configuration of an agentic-judge. Keys that are not known here are options of its agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError, field_validator

from youbencha.errors import Problem
from youbencha.evaluators.judge.answer import normalized_name
from youbencha.files import PathNotAllowed, read_within
from youbencha.spec import StrictModel, list_problems
from youbencha.spec.base import Line, Milliseconds

RESERVED = frozenset(
    {"asked_again", "judge", "judge_status", "overall_score", "reasons", "severity", "spread", "votes"}
)
"""Names of the judge's own metrics. Assertions are metrics too, so they must not have these names."""

_LONGEST_SLUG = 40
Score = Annotated[float, Field(ge=0.0, le=1.0)]


DEFAULT_THRESHOLD = 0.7
"""A score with a small doubt passes; a half ("0.5 if partial") does not."""

_GUIDANCE_FILES = ("prompt_file", "instructions-file", "instructions_file")
_GUIDANCE = ("prompt", *_GUIDANCE_FILES)
_MAX_GUIDANCE_CHARS = 200_000
Votes = Annotated[int, Field(ge=1, le=9)]


class MappedAssertion(StrictModel):
    """An assertion as the value of its name. A text is its description."""

    description: Line
    threshold: Score | None = None
    weight: Annotated[float, Field(gt=0.0)] = 1.0
    severity: Any = None
    """For older test cases: copied to the result, without effect."""


class ListedAssertion(MappedAssertion):
    """An assertion in a list. Its name defaults to the first words of the description."""

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


def resolve(configured: Mapping[str, MappedAssertion] | Iterable[ListedAssertion], threshold: float) -> list[Assertion]:
    """All assertions with their names, in the order of the configuration."""
    if not isinstance(configured, Mapping):
        configured = _named(tuple(configured))
    return [
        Assertion(
            name=name,
            text=each.description,
            threshold=threshold if each.threshold is None else each.threshold,
            weight=each.weight,
            severity=each.severity,
        )
        for name, each in configured.items()
    ]


def check_names(configured: Mapping[str, Any] | Iterable[ListedAssertion]) -> None:
    """Raise ValueError if two names could not be distinguished in a judge's answer, or one is reserved."""
    names = configured if isinstance(configured, Mapping) else [each.name for each in configured if each.name]
    seen: set[str] = set()
    for name in names:
        normalized = normalized_name(name)
        if not normalized:
            raise ValueError(f"the name {name!r} has no letter or digit")
        if name in RESERVED:
            raise ValueError(f"{name!r} is a built-in metric of the judge: choose another name")
        if normalized in seen:
            raise ValueError(f"the name {name!r} is used twice: hyphens, underscores and capitals are ignored")
        seen.add(normalized)


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


class JudgeConfig(StrictModel):
    """`config` of an agentic-judge."""

    type: Line | None = None
    """The agent that judges. Defaults to the test case's agent."""
    agent_name: Line | None = None
    """A custom agent; `agentic-judge` is youBencha's."""
    model: Line | None = None
    version: Line | None = None
    timeout: Milliseconds = 300_000
    """Of each vote, in milliseconds."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent that judges. They may also be next to the keys here."""
    env: dict[str, str] = Field(default_factory=dict)
    """Overrides the environment of the test case's agent."""
    prompt: Line | None = None
    """Guidance for the judge, before the assertions."""
    prompt_file: Line | None = None
    """A file with guidance, relative to the configuration file."""
    instructions_file: Line | None = Field(
        default=None, validation_alias=AliasChoices("instructions-file", "instructions_file")
    )
    """`prompt_file` in older test cases. `{{ASSERTIONS}}` in the file is replaced by the assertions."""
    assertions: Assertions | None = None
    """Name -> what must be true, or -> {description, threshold, weight}; or a list."""
    criteria: Assertions | None = None
    """`assertions` in older test cases."""
    threshold: Score = DEFAULT_THRESHOLD
    """The default for the least score with which an assertion passes."""
    votes: Votes = 1
    """The number of independent judgements. The median of their scores counts."""
    max_concurrent_votes: Votes = 3
    judge_failed_runs: bool = False
    """Judge also the work of an agent that failed or timed out. The run fails in any case."""
    advisory: bool = False
    """Report the verdict, but let it decide nothing: neither whether the run passes, nor whether it is valid."""

    @field_validator("assertions", "criteria")
    @classmethod
    def _names_are_distinct(cls, configured: Any) -> Any:
        if configured is not None:
            check_names(configured)
        return configured

    def asked(self) -> list[Assertion]:
        return resolve(self.assertions or self.criteria or {}, self.threshold)


OWN_KEYS = frozenset({*JudgeConfig.model_fields, "instructions-file"})


def read_config(raw: Mapping[str, Any]) -> tuple[JudgeConfig | None, list[Problem]]:
    """Validate a configuration; None if a field is invalid.

    Checks across fields are made here: pydantic skips its own if a field is invalid.
    """
    problems = [*_one_guidance(raw), *_one_list(raw)]
    try:
        judge = JudgeConfig.model_validate({key: value for key, value in raw.items() if key in OWN_KEYS})
    except ValidationError as error:
        return None, [*list_problems(error, JudgeConfig, raw), *problems]
    return judge, problems


def _one_guidance(raw: Mapping[str, Any]) -> list[Problem]:
    first, *others = [key for key in _GUIDANCE if raw.get(key) is not None] or [""]
    return [Problem(key, f"cannot be combined with `{first}`") for key in others]


def _one_list(raw: Mapping[str, Any]) -> list[Problem]:
    present = [key for key in ("assertions", "criteria") if raw.get(key) is not None]
    if len(present) > 1:
        return [Problem("criteria", "cannot be combined with `assertions`, its newer name")]
    return [] if present else [Problem("assertions", "is required", "list what must be true, each with a name")]


def read_guidance(raw: Mapping[str, Any], config_dir: Path) -> str | Problem:
    """The user's guidance for the judge, from the configuration or a file; empty if there is none."""
    for key in _GUIDANCE_FILES:
        if isinstance(name := raw.get(key), str):
            return _read(key, name.strip(), config_dir)
    prompt = raw.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""


def _read(key: str, name: str, base: Path) -> str | Problem:
    try:
        text = read_within(base, name, 4 * _MAX_GUIDANCE_CHARS).decode("utf-8-sig").strip()
    except PathNotAllowed as error:
        return Problem(key, error.message, error.hint)
    except FileNotFoundError:
        return Problem(key, f"{name} does not exist in {base}")
    except UnicodeDecodeError:
        return Problem(key, f"{name} is not UTF-8 text")
    except OSError as error:
        return Problem(key, f"{name} {error.strerror}")
    if not text:
        return Problem(key, f"{name} is empty")
    if len(text) > _MAX_GUIDANCE_CHARS:
        return Problem(key, f"{name} is longer than {_MAX_GUIDANCE_CHARS:,} characters")
    return text
