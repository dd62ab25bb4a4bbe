"""Turn test cases into a matrix of plans: each agent on each test case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters import get_adapter
from youbencha.engine.matrix import Cell, Matrix, agent_hash, validation_hash
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.events import StepProgress
from youbencha.spec.document import read_document
from youbencha.spec.testcase import AgentOverride
from youbencha.trial.agent_files import commit_files, files_digest
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan, PlanOptions, load_plan
from youbencha.workspace import Repository

_SUFFIXES = (".yaml", ".yml", ".json")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@+-]+")
_MAX_NAME_CHARS = 100


class FoundCases(NamedTuple):
    files: tuple[Path, ...]
    skipped: tuple[Path, ...]
    """Files of a directory that are not test cases."""


def find_cases(given: Sequence[Path]) -> FoundCases:
    """Find the test cases: files, and all in directories, by name. A file that is named twice counts once."""
    files: dict[Path, Path] = {}
    skipped: list[Path] = []
    for path in given:
        inside = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
        for file in inside:
            if path.is_dir() and not _is_test_case(file):
                skipped.append(file)
            else:
                files.setdefault(file.resolve(), file)
    if not files:
        raise YouBenchaError(
            "NO_TEST_CASES",
            f"There is no test case in {', '.join(map(str, given))}.",
            hint="A test case is a YAML or JSON file with the keys `repo` and `agent`. `yb init` creates one.",
        )
    return FoundCases(tuple(files.values()), tuple(skipped))


def _is_test_case(file: Path) -> bool:
    data = read_document(file, code="TEST_CASE_INVALID", what="The test case").data
    return isinstance(data, Mapping) and "repo" in data and "agent" in data


async def plan_cases(
    files: Sequence[Path],
    agents: Sequence[AgentOverride],
    host: Host,
    *,
    trials: int,
    variables: Mapping[str, Any] | None = None,
    options: PlanOptions = PlanOptions(),  # noqa: B008 - immutable
    resolve_commits: bool = True,
    progress: StepProgress = lambda _step, _detail="", /: None,
) -> Matrix:
    """Plan each agent on each test case. All problems of all files are one ConfigError.

    With `resolve_commits`, repositories are opened, so that all trials start from the same commit, now and later.
    """
    plans = _load_plans(files, agents, host, variables, options)
    tasks = _task_names(plans)
    cells: dict[tuple[str, str], Cell] = {}
    for plan in plans:
        repository = await host.open_plan_repository(plan, progress) if resolve_commits else None
        located = _at_commit(plan, repository) if repository else plan
        cell = _cell(located, tasks[located.config_file])
        if repository is not None:
            agent = plan.case.agent
            cell = replace(cell, commit_files=await commit_files(agent, get_adapter(agent.type), repository))
        cells.setdefault((cell.orchestrator, cell.task), cell)  # `--model` may name the model of the test case
    return Matrix(cells=tuple(cells.values()), trials=trials)


def _load_plans(
    files: Sequence[Path],
    agents: Sequence[AgentOverride],
    host: Host,
    variables: Mapping[str, Any] | None,
    options: PlanOptions,
) -> list[Plan]:
    plans: list[Plan] = []
    problems: dict[str, Problem] = {}
    for file in files:
        for agent in agents:
            try:
                plans.append(load_plan(file, host, variables=variables, agent=agent, options=options))
            except ConfigError as error:
                problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise ConfigError("TEST_CASE_INVALID", "The test cases", tuple(problems.values()), verb="have")
    return plans


def _at_commit(plan: Plan, repository: Repository) -> Plan:
    return replace(plan, case=plan.case.model_copy(update={"commit": repository.commit}))


def _cell(plan: Plan, task: str) -> Cell:
    config = plan.case.agent.config
    file = plan.config_dir / str(config.get("prompt_file") or "")
    prompt = file if file.is_file() else None  # otherwise it is in the repository, at a commit
    text = prompt.read_text("utf-8", "replace") if prompt else config.get("prompt") or plan.case.description
    files = files_digest(plan.case.agent, plan.config_dir)
    return Cell(
        orchestrator=agent_name(plan),
        task=task,
        plan=plan,
        task_text=str(text),
        agent_hash=agent_hash(plan, files, prompt),
        validation_hash=validation_hash(plan),
        files=files,
    )


def agent_name(plan: Plan) -> str:
    """Return a name such as `claude-code@2.1.325+opus`."""
    agent = plan.case.agent
    version = f"@{agent.version}" if agent.version else ""
    model = plan.model or agent.config.get("model")
    return _as_name(f"{agent.type}{version}{f'+{model}' if model else ''}")


def _task_names(plans: Sequence[Plan]) -> dict[Path | None, str]:
    """Return a name for each file: that of the test case, as the name of a directory."""
    names: dict[Path | None, str] = {}
    given: dict[str, Path | None] = {}
    for plan in plans:
        if plan.config_file in names:
            continue
        if plan.name in given:
            raise YouBenchaError(
                "TEST_CASES_SAME_NAME",
                f"Two test cases have the name {plan.name}: {given[plan.name]} and {plan.config_file}.",
                hint="Give one of them another `name`.",
            )
        given[plan.name] = plan.config_file
        names[plan.config_file] = next(name for name in _candidates(plan.name) if name not in names.values())
    return names


def _candidates(name: str) -> Iterator[str]:
    plain = _as_name(name)
    yield plain
    for number in range(2, 1_000_000):
        yield f"{plain}-{number}"


def _as_name(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text).strip("-._@+")[:_MAX_NAME_CHARS] or "task"
