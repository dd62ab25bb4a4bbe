"""Prepare results for reports that are given to others: they name the trial, and have no paths of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from youbencha.log.arena import ATTEMPTS_DIR, TRIALS_DIR
from youbencha.log.masking import masked

if TYPE_CHECKING:
    from pydantic import BaseModel

    from youbencha.log.results import ResultsBundle

    Model = TypeVar("Model", bound=BaseModel)

_IS_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class TrialName(NamedTuple):
    """The trial of a run that results belong to."""

    orchestrator: str
    """With the variant: `claude-code+skills`."""
    task: str
    directory: str
    """`trial-1`."""

    def __str__(self) -> str:
        return f"{self.orchestrator} · {self.task} · {self.directory.replace('-', ' ')}"


def trial_at(artifacts: Path) -> TrialName | None:
    """The trial whose attempt has these artifacts: `trials/AGENT/TASK/trial-N/attempts/M/artifacts`."""
    parts = artifacts.absolute().parts[-7:]
    if len(parts) < 7 or (parts[0], parts[4]) != (TRIALS_DIR, ATTEMPTS_DIR):
        return None
    return TrialName(*parts[1:4])


def for_readers(bundle: ResultsBundle, artifacts: Path) -> ResultsBundle:
    """Results as reports show them: named after the trial, if they are of one, and without paths of this machine."""
    trial = trial_at(artifacts)
    case = bundle.test_case.model_copy(update={"name": str(trial)}) if trial else bundle.test_case
    executable = bundle.identity.agent_executable
    identity = bundle.identity.model_copy(update={"agent_executable": executable and PurePath(executable).name})
    bundle = bundle.model_copy(update={"test_case": case, "identity": identity})
    return with_texts(bundle, path_shortener(bundle))


def with_texts(record: Model, change: Callable[[str], str]) -> Model:
    return type(record).model_validate(masked(record.model_dump(), change))


def path_shortener(bundle: ResultsBundle) -> Callable[[str], str]:
    """Shorten the paths in a text: those of the run begin with its name, those beside the test case are relative."""
    case = bundle.test_case
    known = {bundle.execution.environment.workspace_dir: bundle.identity.run_id}
    if case.config_file:
        known[str(PurePath(case.config_file).parent)] = ""
    for path in (case.repo, case.directory, case.expected_directory):
        if path:
            known[path.removeprefix("file://")] = PurePath(path).name
    shorten = shortener(known)
    # An agent on the host worked in a private directory, wherever the cache is. Its name begins with that of the run.
    private = rf"{re.escape(bundle.identity.run_id)}-[0-9a-f]+\b"
    above = re.compile(rf"(?<![\w.~+-])(?:[/\\][^\s/\\'\"`]+)*[/\\](?={private})")
    return lambda text: above.sub("", shorten(text))


def shortener(known: Mapping[str, str]) -> Callable[[str], str]:
    """Replace the beginnings of paths, by nothing if they are to be relative, and the home directory by `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111 - there may be no home
    named = {home: "~", **known}.items()
    names = {path: name for path, name in named if _IS_ABSOLUTE.match(path) and len(PurePath(path).parts) > 1}
    if not names:
        return lambda text: text
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.~+-])({longest_first})(?![\w+-]|\.\w)([/\\]?)")

    def shortened(found: re.Match[str]) -> str:
        name, slash = names[found[1]], found[2]
        return name + slash if name else "" if slash else "."

    return lambda text: pattern.sub(shortened, text)
