"""What is left of a run that came to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from youbencha.workspace import RunDirectory

if TYPE_CHECKING:
    from youbencha.log import ResultsBundle


class Finished(NamedTuple):
    bundle: ResultsBundle
    directory: RunDirectory
