"""What all models of what people write have in common."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
)
from pydantic_core import CoreSchema, core_schema


class Written(BaseModel):
    """Immutable, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def unwritten(cls) -> Self:
        """All defaults. They need no check, and so nothing need be built that would check them."""
        return super().model_construct()


class Seldom:
    """Marks what few people write: what checks it takes milliseconds to build, and is built when somebody wrote it."""

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        adapter: Callable[[], TypeAdapter[Any]] = cache(lambda: TypeAdapter(kind, config=ConfigDict(strict=False)))
        return core_schema.no_info_plain_validator_function(
            lambda value: adapter().validate_python(value), metadata={"adapter": adapter}
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema["metadata"]["adapter"]().core_schema)


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text where white space around it means nothing."""

Milliseconds = Annotated[int, Field(gt=0)]
