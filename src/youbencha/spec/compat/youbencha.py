"""Spellings of the original youBencha in test cases and eval configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.errors import KeyPath
from youbencha.spec.compat import Translation, drop, find

MOVED_KEYS: Mapping[KeyPath, KeyPath] = {("post_evaluators",): ("post_evaluation",)}
"""Older keys, and where their values belong."""


def translate(given: Any) -> Translation:
    """Return a test case or an eval configuration without older names."""
    if not isinstance(given, Mapping):
        return Translation(given)
    result = Translation({key: value for key, value in given.items() if key != "version"})  # of the format
    for older, place in MOVED_KEYS.items():
        if any(find(given, older)):
            result.move(older, place, drop(result.data, older))
    return result
