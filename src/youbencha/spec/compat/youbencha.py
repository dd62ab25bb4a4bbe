"""Spellings of the original youBencha in test cases and eval configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.errors import KeyPath
from youbencha.spec.compat import Translation, drop, find

OLDER_KEYS: Mapping[KeyPath, KeyPath | None] = {("post_evaluators",): ("post_evaluation",), ("version",): None}
"""Older keys, and where their values belong. None: the key, here the format's version, is ignored."""


def translate(given: Any) -> Translation:
    """Return a test case or an eval configuration without older names."""
    if not isinstance(given, Mapping):
        return Translation(given)
    result = Translation(dict(given))
    for older, place in OLDER_KEYS.items():
        if any(find(given, older)):
            value = drop(result.data, older)
            if place is not None:
                result.move(older, place, value)
    return result
