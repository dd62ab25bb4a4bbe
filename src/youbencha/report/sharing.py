"""Prepare results for reports that can be shared: they name the trial, and have no absolute paths of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from youbencha.log.masking import masked
from youbencha.store.layout import ATTEMPTS_DIR, TRIALS_DIR
from youbencha.store.read import prefix_replacer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from youbencha.store.bundle import ResultsBundle

    Model = TypeVar("Model", bound=BaseModel)


class TrialName(NamedTuple):
    """The trial that a result belongs to."""

    orchestrator: str
    """With the variant: `claude-code+skills`."""
    task: str
    directory: str
    """`trial-1`."""

    def __str__(self) -> str:
        return f"{self.orchestrator} · {self.task} · {self.directory.replace('-', ' ')}"


def find_trial_name(artifacts: Path) -> TrialName | None:
    """Return the trial that a directory of artifacts belongs to: `trials/AGENT/TASK/trial-N/attempts/M/artifacts`."""
    parts = artifacts.absolute().parts[-7:]
    if len(parts) < 7 or (parts[0], parts[4]) != (TRIALS_DIR, ATTEMPTS_DIR):
        return None
    return TrialName(*parts[1:4])


def make_shareable(bundle: ResultsBundle, artifacts: Path) -> ResultsBundle:
    """Return the results as reports show them: named after their trial, if any, and without absolute paths."""
    trial = find_trial_name(artifacts)
    case = bundle.test_case.model_copy(update={"name": str(trial)}) if trial else bundle.test_case
    executable = bundle.identity.agent_executable
    identity = bundle.identity.model_copy(update={"agent_executable": executable and PurePath(executable).name})
    bundle = bundle.model_copy(update={"test_case": case, "identity": identity})
    return replace_texts(bundle, path_shortener(bundle))


def replace_texts(record: Model, change: Callable[[str], str]) -> Model:
    """Apply `change` to every free-form text in a record."""
    return type(record).model_validate(masked(record.model_dump(), change))


def path_shortener(bundle: ResultsBundle) -> Callable[[str], str]:
    """Return a function that shortens the paths in a text.

    Paths in the run's directory then start with the run's name, and those next to the test case are relative.
    """
    case = bundle.test_case
    known = {bundle.execution.environment.workspace_dir: bundle.identity.run_id}
    if case.config_file:
        known[str(PurePath(case.config_file).parent)] = ""
    for path in (case.repo, case.directory, case.expected_directory):
        if path:
            known[path.removeprefix("file://")] = PurePath(path).name
    shorten = prefix_replacer(known)
    # Without a container, the agent worked in a directory of the cache whose name starts with the run's.
    private_dir = rf"{re.escape(bundle.identity.run_id)}-[0-9a-f]+\b"
    parents = re.compile(rf"(?<![\w.~+-])(?:[/\\][^\s/\\'\"`]+)*[/\\](?={private_dir})")
    return lambda text: parents.sub("", shorten(text))
