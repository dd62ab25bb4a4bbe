"""What the models of all files have in common."""

from collections.abc import Mapping
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


def _float(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that is not empty, without the white space around it."""

Milliseconds = Annotated[int, Field(gt=0)]
INT_AS_FLOAT = BeforeValidator(_float)
"""For a float that may be written without a fraction. Comes after the field's constraints."""

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
