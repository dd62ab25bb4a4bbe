"""The bundle itself, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youbencha.log import ResultsBundle


def render_json(bundle: ResultsBundle) -> str:
    from youbencha.log import as_json

    return as_json(bundle) + "\n"
