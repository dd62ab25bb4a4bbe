"""What a person may write under `config` of an agentic-judge. Whatever is not known here is an option of its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AliasChoices, Field, ValidationError, field_validator

from youbencha.errors import Problem
from youbencha.evaluators.judge.assertions import Assertion, Assertions, Score, check_names, resolve
from youbencha.spec import Written, problems_of
from youbencha.spec.base import Line, Milliseconds

DEFAULT_THRESHOLD = 0.7
"""A full score passes, and so does one with a small doubt; a half ("0.5 if partial") does not."""

_GUIDANCE = ("prompt", "prompt_file", "instructions-file", "instructions_file")
_ASKED = ("assertions", "criteria")

Votes = Annotated[int, Field(ge=1, le=9)]


class JudgeConfig(Written):
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
class Reading:
    judge: JudgeConfig | None
    """None where a part of it is wrong."""
    problems: Sequence[Problem]


def read_config(raw: Mapping[str, Any]) -> Reading:
    """Pydantic does not come to look at the whole where a part is wrong, so the whole is looked at here."""
    problems = [*_one_guidance(raw), *_one_list(raw)]
    try:
        judge = JudgeConfig.model_validate({key: value for key, value in raw.items() if key in OWN_KEYS})
    except ValidationError as error:
        return Reading(None, [*problems_of(error, JudgeConfig), *problems])
    return Reading(judge, problems)


def _one_guidance(raw: Mapping[str, Any]) -> list[Problem]:
    first, *others = [key for key in _GUIDANCE if raw.get(key) is not None] or [""]
    return [Problem(key, f"must not stand beside `{first}`: one of them guides the judge") for key in others]


def _one_list(raw: Mapping[str, Any]) -> list[Problem]:
    given = [key for key in _ASKED if raw.get(key) is not None]
    if len(given) > 1:
        return [Problem("criteria", "must not stand beside `assertions`, which is its newer name")]
    return [] if given else [Problem("assertions", "is required", "say what must hold, each under a name of its own")]
