"""Records as JSON text, whatever is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


def as_json(record: BaseModel) -> str:
    """Indented. A file name that is no UTF-8 (half of a surrogate pair) is escaped; pydantic alone would give up."""
    from pydantic_core import PydanticSerializationError

    try:
        return record.model_dump_json(indent=2)
    except PydanticSerializationError:
        import json

        return json.dumps(record.model_dump(), indent=2, default=str)
