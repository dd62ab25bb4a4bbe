"""Which evaluators judge a run: written in place, or kept in a file of their own."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from youbencha.spec.base import Line, Written
from youbencha.spec.problems import ProblemAt


class EvaluatorEntry(Written):
    """`{name, config}` or `{file}`. A name alone may be written as plain text."""

    name: Line | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    file: Line | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.file is not None:
            for key in ("name", "config"):
                if key in self.model_fields_set:
                    raise ProblemAt(key, "must not stand beside `file`: the file says it")
        elif self.name is None:
            raise ValueError("needs a `name`, or a `file` that holds one")
        return self


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class _OrName:
    """Tells editors, too, that a name alone will do."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


Evaluators = Annotated[
    tuple[Annotated[EvaluatorEntry, BeforeValidator(_named), _OrName()], ...], Field(min_length=1, strict=False)
]


class EvaluatorFile(Written):
    """An evaluator that several test cases share."""

    name: Line
    description: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
