"""Pydantic's errors as plain messages, without a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    field_validator,
    model_validator,
)

from youbencha.spec import ProblemAt, list_problems


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Script(Strict):
    kind: Literal["script"]
    command: str


class Webhook(Strict):
    kind: Literal["webhook"]
    url: str
    retries: int = 0


class Named(Strict):
    name: str
    config: dict[str, Any] = {}


class FromFile(Strict):
    file: str


class Wrapped(RootModel[list[Named]]):
    pass


class Everything(Strict):
    text: str | list[str] = ""
    times: Annotated[int, Field(ge=1)] | Literal["forever"] = 1
    mode: Literal["auto", "plan", "bypass"] = "auto"
    steps: list[Annotated[Script | Webhook, Field(discriminator="kind")]] = []
    judge: Named | FromFile | None = None
    hook: Script | Webhook | None = None
    wrapped: Wrapped | None = None
    pair: tuple[int, Named] | None = None
    table: dict[str, Named] = {}
    max_turns: int | None = Field(None, alias="maxTurns")
    short: str = Field("", max_length=3)
    ratio: float = Field(0.5, gt=0, lt=1)
    clean: str = ""
    both: bool = False

    @field_validator("clean")
    @classmethod
    def _clean(cls, value: str) -> str:
        if "!" in value:
            raise ValueError("must not shout")
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Everything:
        if self.both and self.text:
            raise ProblemAt("both", "cannot be combined with 'text'", hint="remove one")
        return self


def problems_in(data: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        Everything.model_validate(data)
    return [str(problem) for problem in list_problems(caught.value, Everything, data)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"txt": "a"}, "txt: unknown key (did you mean 'text'?)"),
        ({"max-turns": 3}, "max-turns: unknown key (did you mean 'maxTurns'?)"),
        ({"text": 5}, "text: must be text or a list, not a number (put it in quotes)"),
        ({"text": ["a", None]}, "text.1: must be text, not empty"),
        ({"times": 0}, "times: must be at least 1"),
        ({"times": "often"}, "times: must be a whole number or 'forever'"),
        ({"mode": "plam"}, "mode: must be one of 'auto', 'plan' or 'bypass' (did you mean 'plan'?)"),
        ({"mode": "zzz"}, "mode: must be one of 'auto', 'plan' or 'bypass'"),
        ({"steps": [{"kind": "script"}]}, "steps.0.command: is required"),
        ({"steps": [{"command": "x"}]}, "steps.0.kind: is required"),
        (
            {"steps": [{"kind": "scrpt"}]},
            "steps.0.kind: must be one of 'script', 'webhook' (did you mean 'script'?)",
        ),
        ({"steps": ["script"]}, "steps.0: must be a mapping, not text"),
        (
            {"steps": [{"kind": "webhook", "url": "x", "retires": 1}]},
            "steps.0.retires: unknown key (did you mean 'retries'?)",
        ),
        (
            {"judge": {"name": "a", "confg": {}}},
            "judge.confg: unknown key (did you mean 'config'?)",
        ),
        ({"judge": 3}, "judge: must be a mapping, not a number"),
        ({"wrapped": [{"nme": "a", "name": "b"}]}, "wrapped.0.nme: unknown key (did you mean 'name'?)"),
        ({"pair": [1, {"name": 2}]}, "pair.1.name: must be text, not a number (put it in quotes)"),
        ({"table": {"a": {}}}, "table.a.name: is required"),
        ({"table": {1: {"name": "x"}}}, "table.1: must be text, not a number (put it in quotes)"),
        ({"maxTurns": "many"}, "maxTurns: must be a whole number, not text"),
        ({"both": "maybe"}, "both: must be true or false, not text"),
        ({"short": "long"}, "short: must have at most 3 characters"),
        ({"ratio": 1}, "ratio: must be less than 1.0"),
        ({"clean": "hey!"}, "clean: must not shout"),
        ({"both": True, "text": "x"}, "both: cannot be combined with 'text' (remove one)"),
        ({"judge": {"zzz": 1, "file": "f"}}, "judge.zzz: unknown key (known keys: file)"),
        ([], "must be a mapping, not a list"),
    ],
)
def test_one_problem(data: Any, problem: str) -> None:
    assert problems_in(data) == [problem]


def test_several_problems_keep_their_order_and_have_no_position() -> None:
    data = {"steps": [{"kind": "script"}], "short": "long", "oops": 1}
    with pytest.raises(ValidationError) as caught:
        Everything.model_validate(data)
    problems = list_problems(caught.value, Everything, data)
    assert [problem.path for problem in problems] == ["steps.0.command", "short", "oops"]
    assert {(problem.line, problem.column, problem.file) for problem in problems} == {(None, None, None)}


def test_a_constant_tells_which_member_of_a_union_was_meant() -> None:
    """To take it for a script with a wrong kind would be the shorter list, and the wrong one."""
    assert problems_in({"hook": {"kind": "webhook", "command": "x"}}) == [
        "hook.url: is required",
        "hook.command: unknown key (known keys: kind, url, retries)",
    ]


def test_a_value_is_never_quoted() -> None:
    secret = "sk-ant-very-secret"
    data = {"mode": secret, "times": secret, "ratio": secret, "steps": [{"kind": secret}], "judge": secret}
    assert secret not in "\n".join(problems_in(data))
