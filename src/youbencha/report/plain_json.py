"""The bundle itself, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youbencha.log import ResultsBundle


def render_json(bundle: ResultsBundle) -> str:
    from pydantic_core import PydanticSerializationError

    try:
        return bundle.model_dump_json(indent=2) + "\n"
    except PydanticSerializationError:  # a file name that is no UTF-8: pydantic gives up, an escape does not
        import json

        return json.dumps(bundle.model_dump(), indent=2, default=str) + "\n"
