"""What all models of what people write have in common."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Written(BaseModel):
    """Immutable, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


Line = Annotated[str, Field(min_length=1), BeforeValidator(_stripped)]
"""Text where white space around it means nothing."""

Milliseconds = Annotated[int, Field(gt=0)]
