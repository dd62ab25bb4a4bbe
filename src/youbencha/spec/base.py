"""What all models of what people write have in common."""

from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)


class Written(BaseModel):
    """Immutable, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text where white space around it means nothing."""

Milliseconds = Annotated[int, Field(gt=0)]
