"""A test case as YAML that reads as if a person had written it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

_HEADER = "# Suggested by `yb suggest-testcase`. Look it over, then: yb run -c {file}\n"


def as_yaml(case: Mapping[str, Any], file: str) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 10_000  # a folded text is hard to edit
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump(_readable(case), stream)
    return _HEADER.format(file=file) + stream.getvalue()


def _readable(value: Any) -> Any:
    """Texts of several lines as blocks. What was read from YAML keeps its own form and its comments."""
    from ruamel.yaml.comments import CommentedBase
    from ruamel.yaml.scalarstring import LiteralScalarString

    if isinstance(value, CommentedBase):
        return value
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    if isinstance(value, Mapping):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
