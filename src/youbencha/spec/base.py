"""Building blocks of the models: strictness, short forms, common types, and what counts for identity."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic_core import CoreSchema, core_schema


class StrictModel(BaseModel):
    """An immutable model that refuses unknown keys and does not convert values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def added(default: Any) -> Any:
    """A field that came after the first release: dumps, and so hashes, omit it while it has its default.

    Otherwise a new field would change the hash of every existing file.
    """
    return Field(default=default, exclude_if=lambda value: value == default)


class RunWide:
    """Marks a field about a whole run, which does not change what a single trial does."""


RUN_WIDE = RunWide()


def trial_identity(model: BaseModel, *, exclude: Iterable[str] = ()) -> dict[str, Any]:
    """Dump the fields that a trial's identity consists of: two trials are only comparable if these are equal."""
    run_wide = {name for name, field in type(model).model_fields.items() if RUN_WIDE in field.metadata}
    return model.model_dump(mode="json", exclude_none=True, exclude={*exclude, *run_wide})


class ShortForm:
    """Lets text stand for a mapping with one key: `gateway: none` for `gateway: {type: none}`."""

    def __init__(self, key: str, json_schema: Mapping[str, Any]) -> None:
        self._key = key
        self._json_schema = json_schema

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._in_full, handler(kind))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", **self._json_schema}, handler(schema)]}

    def _in_full(self, value: object) -> object:
        return {self._key: value} if isinstance(value, str) else value


def _whole_to_float(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Non-empty text, without the white space around it."""

Milliseconds = Annotated[int, Field(gt=0)]
INT_AS_FLOAT = BeforeValidator(_whole_to_float)
"""For a float that may be written without a fraction. It must follow the field's constraints."""

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
