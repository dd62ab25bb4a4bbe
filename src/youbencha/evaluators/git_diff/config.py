"""What a person may write under `config` of git-diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from youbencha.errors import Problem
from youbencha.evaluators.globs import GlobList
from youbencha.spec import Written

Lines = Annotated[int, Field(ge=0)]
Bits = Annotated[float, Field(ge=0, allow_inf_nan=False)]

MEASURES = ("files_changed", "lines_added", "lines_removed", "total_changes", "change_entropy")
LIMITS = tuple(f"{end}_{measure}" for measure in MEASURES for end in ("min", "max"))


class DiffLimits(Written):
    """The least and the most of each measure. Zero is a limit like any other."""

    min_files_changed: Lines | None = None
    max_files_changed: Lines | None = None
    min_lines_added: Lines | None = None
    max_lines_added: Lines | None = None
    min_lines_removed: Lines | None = None
    max_lines_removed: Lines | None = None
    min_total_changes: Lines | None = None
    max_total_changes: Annotated[
        Lines | None, Field(validation_alias=AliasChoices("max_total_changes", "max_lines_changed"))
    ] = None
    min_change_entropy: Bits | None = None
    max_change_entropy: Bits | None = None

    def given(self) -> dict[str, float]:
        values = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in values.items() if value is not None}


class GitDiffConfig(DiffLimits):
    """The limits may also stand beside `assertions`, as older files have them."""

    assertions: DiffLimits = DiffLimits.unwritten()
    required_paths: GlobList = ()
    """Of each pattern, something must have been changed, added or deleted."""
    forbidden_paths: GlobList = ()
    """Nothing that matches may have been changed, added or deleted."""
    include_paths: GlobList = ()
    """Count only changes to these. `required_paths` and `forbidden_paths` look at all changes all the same."""
    exclude_paths: GlobList = ()
    base_commit: str | None = None
    """Older files name it. Changes are always counted from where the agent started, so it can only be that."""
    include_entropy: bool = True
    """Older files have it. The entropy is always there."""

    @field_validator("base_commit")
    @classmethod
    def _the_start(cls, commit: str | None) -> str | None:
        is_id = commit is not None and 4 <= len(commit) <= 64 and not set(commit.lower()) - set("0123456789abcdef")
        if commit in (None, "", "HEAD") or is_id:
            return commit or None
        raise ValueError(
            "can only be HEAD or the id of the commit that the agent started from: "
            "changes are counted from there, whatever the agent commits; best leave it out"
        )

    def limits(self) -> dict[str, float]:
        together = {**self.given(), **self.assertions.given()}
        return {name: together[name] for name in LIMITS if name in together}


def contradictions(config: GitDiffConfig) -> Iterator[Problem]:
    here, below = config.given(), config.assertions.given()
    for name in here:
        if name in below:
            yield Problem(name, f"is given twice: here, and as `assertions.{name}`")
    limits = config.limits()
    for measure in MEASURES:
        least, most = f"min_{measure}", f"max_{measure}"
        if least in limits and most in limits and limits[least] > limits[most]:
            where = least if least in here else f"assertions.{least}"
            yield Problem(where, f"must not be more than {most}: nothing could pass")
