"""Turn an arena into a matrix of plans: one test case for each orchestrator and task.

Everything is checked, every tag is resolved and every task is read before anything runs.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters import get_adapter
from youbencha.engine.matrix import Cell, Matrix, agent_hash, validation_hash
from youbencha.engine.selection import Selection, select
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators.base import VALIDATION
from youbencha.events import StepProgress
from youbencha.gateway.upstreams import read_secrets
from youbencha.spec.agent_files import AgentFiles
from youbencha.spec.arena import BudgetSpec, OrchestratorSpec, TaskSpec
from youbencha.spec.arena_loader import Arena, ArenaProblems, load_arena_file
from youbencha.spec.gateway import GatewaySpec
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.testcase import AgentSpec, EvaluatorEntry, TestCase
from youbencha.spec.variables import list_names
from youbencha.text import first_few, plural
from youbencha.trial.agent_files import commit_files, files_digest, repository_files
from youbencha.trial.context import Host
from youbencha.trial.plan import Plan, PlanOptions, plan_trial
from youbencha.workspace import Repository
from youbencha.workspace.repository import COMMIT_ID
from youbencha.workspace.source import read_source

RUBRIC = "agentic-judge:rubric"
_MAX_TASK_CHARS = 1_000_000
_TASK_BYTES = 4 * _MAX_TASK_CHARS
_MAX_NAMED_FILE_BYTES = 1_000_000
_PLACEHOLDER = "The task."
"""Its text, until it is read."""


class PlanChoices(NamedTuple):
    """Options of the command line, which override the arena."""

    trials: int | None = None
    budget: BudgetSpec | None = None
    resolve_env: bool = True
    """False if the plans will not be run: then variables and keys need not be set."""
    require_scripts: bool = True
    """Whether the scripts of adapters must exist."""


class FoundTask(NamedTuple):
    """A task as it is in its repository."""

    spec: TaskSpec
    text: str = _PLACEHOLDER
    commit: str | None = None
    validation_commit: str | None = None
    reference_commit: str | None = None
    repository: Repository | None = None


def load_arena(file: Path | str, host: Host, *, resolve_env: bool = True) -> Arena:
    """Read and check an arena. Its secrets become variables of the host, for references, the gateway and redaction.

    Without `resolve_env`, the file with the secrets may be missing.
    """
    arena = load_arena_file(file)
    if arena.spec.secrets.env_file is not None:
        path = arena.directory / Path(arena.spec.secrets.env_file).expanduser()
        if resolve_env or path.exists():
            host.env = {**host.env, **_secrets(arena, path)}
    check_arena(arena, host)
    return arena


def _secrets(arena: Arena, path: Path) -> dict[str, str]:
    try:
        return read_secrets(path)
    except YouBenchaError as error:
        hint = error.hint if path.exists() else "the path is relative to the arena's file"
        problem = arena.document.problem(("secrets", "env_file"), error.message, hint)
        raise arena.document.error([problem]) from error


def check_arena(arena: Arena, host: Host) -> None:
    """Check every orchestrator and task, but not whether repositories and scripts exist. Raises one ConfigError."""
    spec, choices = arena.spec, PlanChoices(resolve_env=False, require_scripts=False)
    pairs = [(orchestrator, spec.tasks[0]) for orchestrator in arena.orchestrators]
    pairs += [(arena.orchestrators[0], task) for task in spec.tasks]
    problems = ArenaProblems(arena)
    for orchestrator, task in pairs:
        _plan_trial(arena, host, orchestrator, FoundTask(task), choices, problems)
    problems.raise_if_any()


def missing_prerequisites(arena: Arena) -> list[Problem]:
    """Return the files and repositories that a run of everything would need, and that this machine does not have."""
    directory, problem = arena.directory, arena.document.problem
    scripts = dict.fromkeys(agent.adapter for agent in arena.orchestrators if agent.adapter)
    missing_scripts = [path for path in scripts if not (directory / Path(path).expanduser()).is_file()]
    sources = {task.repo: read_source(task.repo, directory) for task in arena.spec.tasks}
    missing_repos = [repo for repo, source in sources.items() if isinstance(source, Path) and not source.is_dir()]
    hint = "a run only needs those of the orchestrators and tasks that it selects"
    problems = []
    if missing_scripts:
        names = first_few(missing_scripts)
        message = f"{plural(len(missing_scripts), 'adapter script')} of {len(scripts)} cannot be found: {names}"
        problems.append(problem(("orchestrators",), message, hint))
    if missing_repos:
        message = f"there is no repository at {first_few(missing_repos)}"
        problems.append(problem(("tasks",), message, hint))
    if (secrets := arena.spec.secrets.env_file) and not (file := directory / Path(secrets).expanduser()).is_file():
        problems.append(problem(("secrets", "env_file"), f"there is no file {file}", "a run needs it"))
    return problems


async def plan_arena(
    arena: Arena,
    host: Host,
    selection: Selection = Selection(),  # noqa: B008 - immutable
    choices: PlanChoices = PlanChoices(),  # noqa: B008 - immutable
    progress: StepProgress = lambda _step, _detail="", /: None,
) -> Matrix:
    """Plan the selected orchestrators and tasks. Problems of the same kind are one error."""
    chosen = select(arena.orchestrators, arena.spec.tasks, selection)
    if choices.resolve_env:
        _check_variables(arena, host.env, [*chosen.orchestrators, *chosen.tasks])
    tasks = await _find_tasks(arena, host, chosen.tasks, progress)
    problems = ArenaProblems(arena)
    cells: list[Cell] = []
    digests: dict[str, str | None] = {}
    for task in tasks:
        for orchestrator in chosen.orchestrators:
            plan = _plan_trial(arena, host, orchestrator, task, choices, problems)
            if plan is None:
                continue
            await _check_repository_files(arena, orchestrator, task, plan, problems)
            if orchestrator.name not in digests:
                files = await asyncio.to_thread(files_digest, plan.case.agent, arena.directory)
                digests[orchestrator.name] = files
            cell = _cell(arena, orchestrator, task, plan, digests[orchestrator.name])
            assert task.repository is not None
            files_read = await commit_files(plan.case.agent, get_adapter(plan.case.agent.type), task.repository)
            cells.append(replace(cell, commit_files=files_read))
    problems.raise_if_any()
    trials = choices.trials or arena.spec.trials
    names = {orchestrator.name for orchestrator in chosen.orchestrators}
    baselines = {name: baseline for name, baseline in arena.baselines().items() if {name, baseline} <= names}
    return Matrix(cells=tuple(cells), trials=trials, baselines=baselines)


def _cell(arena: Arena, orchestrator: OrchestratorSpec, task: FoundTask, plan: Plan, files: str | None) -> Cell:
    script = arena.directory / Path(orchestrator.adapter).expanduser() if orchestrator.adapter else None
    if script is not None and not script.exists():
        script = None  # the plan is only for validation
    variant = arena.entry(orchestrator).variant
    return Cell(
        orchestrator=orchestrator.name,
        task=task.spec.key,
        plan=plan,
        task_text=task.text,
        agent_hash=agent_hash(plan, files, script),
        validation_hash=validation_hash(plan),
        files=files,
        category=task.spec.category,
        changes=tuple(variant.changed_keys) if variant else (),
    )


def _check_variables(arena: Arena, env: Mapping[str, str], entries: Sequence[OrchestratorSpec | TaskSpec]) -> None:
    problems = ArenaProblems(arena)
    for entry in entries:
        for name, text in entry.env.items():
            for variable in list_names(text):
                if variable not in env:
                    message = f"${{{variable}}} is set neither in `secrets.env_file` nor in the environment"
                    problems.add_at(arena.path_to(entry, "env", name), message, f"export {variable} first")
    problems.raise_if_any()


async def _find_tasks(arena: Arena, host: Host, tasks: Sequence[TaskSpec], progress: StepProgress) -> list[FoundTask]:
    """Resolve the tags of all tasks and read their descriptions."""
    problems: list[Problem] = []
    resolved = await asyncio.gather(*(_find_task(arena, host, task, progress, problems) for task in tasks))
    if problems:
        raise ConfigError("TASK_UNUSABLE", "The tasks", arena.document.error(problems).problems, verb="have")
    return [task for task in resolved if task is not None]


async def _find_task(
    arena: Arena, host: Host, task: TaskSpec, progress: StepProgress, problems: list[Problem]
) -> FoundTask | None:
    key = "tag"
    try:
        repository = await _open(arena, host, task, progress)
        commits: dict[str, str | None] = {}
        for key in ("validation_tag", "reference_tag"):
            tag = getattr(task, key)
            commits[key] = await repository.find(tag) if tag else None
        key = "prompt_file"
        text = task.prompt or _decode_task(await repository.read_file(task.prompt_file, _TASK_BYTES), task.prompt_file)
    except YouBenchaError as error:
        message = f"task {task.key}, tag {task.tag}: {error.message}"
        problems.append(arena.document.problem(arena.path_to(task, key), message, error.hint))
        return None
    resolved = FoundTask(task, text, repository.commit, commits["validation_tag"], commits["reference_tag"])
    return resolved._replace(repository=repository)


async def _check_repository_files(
    arena: Arena, orchestrator: OrchestratorSpec, task: FoundTask, plan: Plan, problems: ArenaProblems
) -> None:
    """Add a problem for each file that an option names and that is neither here nor in the task's repository."""
    assert task.repository is not None
    for option, name in repository_files(plan.case.agent, arena.directory):
        try:
            await task.repository.read_file(name, _MAX_NAMED_FILE_BYTES)
        except YouBenchaError as error:
            message = f"there is no file {arena.directory / name}, and none for task {task.spec.key}: {error.message}"
            problems.add_at(arena.path_to(orchestrator, "config", option), message, error.hint)


async def _open(arena: Arena, host: Host, task: TaskSpec, progress: StepProgress) -> Repository:
    """Open a repository at a branch or tag of that name, or else at a commit."""
    opened = partial(host.open_repository, task.repo, base=arena.directory, progress=progress)
    try:
        return await opened(branch=task.tag, commit=None)
    except YouBenchaError as error:
        if error.code != "REPO_BRANCH_UNKNOWN" or not COMMIT_ID.fullmatch(task.tag):
            raise
    return await opened(branch=None, commit=task.tag)


def _decode_task(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YouBenchaError("TASK_UNUSABLE", f"{name} is not UTF-8 at byte {error.start}.") from error
    if not text.strip() or len(text) > _MAX_TASK_CHARS:
        fault = "contains only white space" if not text.strip() else f"is longer than {_MAX_TASK_CHARS:,} characters"
        raise YouBenchaError("TASK_UNUSABLE", f"{name} {fault}.")
    return text


def _plan_trial(
    arena: Arena,
    host: Host,
    orchestrator: OrchestratorSpec,
    task: FoundTask,
    choices: PlanChoices,
    problems: ArenaProblems,
) -> Plan | None:
    """Plan a trial. Returns None if there are problems, which are added."""
    try:
        case = _test_case(arena, host, orchestrator, task, choices)
        options = PlanOptions(resolve_env=choices.resolve_env)
        plan = plan_trial(case, host, directory=arena.directory, options=options)
        return replace(plan, config_file=arena.file)
    except YouBenchaError as error:
        problems.add(error, orchestrator, task.spec)
        return None


def _test_case(
    arena: Arena, host: Host, orchestrator: OrchestratorSpec, task: FoundTask, choices: PlanChoices
) -> TestCase:
    sandbox = _sandbox(arena, orchestrator, task.spec)
    return TestCase(
        name=task.spec.key,
        description=task.spec.name or "",
        repo=task.spec.repo,
        branch=task.spec.tag,
        commit=task.commit,
        agent=_agent(arena, orchestrator, task, choices),
        gateway=_gateway(arena, host, orchestrator, task.spec, choices, sandbox),
        sandbox=sandbox,
        evaluators=tuple(_evaluators(arena, task)),
        timeout=round(task.spec.time_limit_minutes * 60_000),
    )


def _agent(arena: Arena, orchestrator: OrchestratorSpec, task: FoundTask, choices: PlanChoices) -> AgentSpec:
    config: dict[str, Any] = {**orchestrator.config, "prompt": task.text}
    kind = orchestrator.agent or orchestrator.name
    if orchestrator.does_nothing:
        kind, config = "command", {**config, "command": ["true"], "prompt_by": "none"}
    elif orchestrator.adapter is not None:
        script = _script(arena, orchestrator, orchestrator.adapter, choices)
        kind, config = "command", {**config, "command": ["bash", f"{{config_dir}}/{script}"], "prompt_by": "file"}
    return AgentSpec(
        type=kind,
        model=orchestrator.model,
        version=orchestrator.version,
        config=config,
        env={**task.spec.env, **orchestrator.env},
        without=tuple(dict.fromkeys((*task.spec.without, *orchestrator.without))),
        **{name: getattr(orchestrator, name) for name in AgentFiles.model_fields},
    )


def _script(arena: Arena, orchestrator: OrchestratorSpec, written: str, choices: PlanChoices) -> str:
    """The path of an adapter script, relative to the arena."""
    path = arena.directory / Path(written).expanduser()
    relative = Path(os.path.relpath(path, arena.directory)).as_posix()
    fault = hint = None
    if choices.require_scripts and not path.is_file():
        fault = f"there is no file {path}"
    elif relative.startswith("../") or re.search(r"\s", relative):
        fault, hint = "must be below the arena's directory, without white space in its path", "move it"
    if fault:
        raise arena.document.error([arena.document.problem(arena.path_to(orchestrator, "adapter"), fault, hint)])
    return relative


def _sandbox(arena: Arena, orchestrator: OrchestratorSpec, task: TaskSpec) -> SandboxSpec:
    given: dict[str, Any] = {
        **task.resources.model_dump(),
        "image": orchestrator.image,
        "allowlist": arena.spec.network.allowlist or None,
    }
    sandbox = arena.spec.sandbox or SandboxSpec(type="docker")
    return sandbox.model_copy(update={name: value for name, value in given.items() if value is not None})


def _gateway(
    arena: Arena,
    host: Host,
    orchestrator: OrchestratorSpec,
    task: TaskSpec,
    choices: PlanChoices,
    sandbox: SandboxSpec,
) -> GatewaySpec:
    """The gateway with its budgets: those of the command line come before the orchestrator's and the arena's."""
    if orchestrator.needs_no_model and task.rubric is None:
        return GatewaySpec(type="none")  # it needs no model, and so no key
    spec = arena.spec.gateway or GatewaySpec()
    spec = spec.merged_over(host.settings.gateway)
    for budget in (arena.spec.budgets, orchestrator.budget, choices.budget):
        spec = budget.merged_over(spec) if budget else spec
    kind = "command" if orchestrator.adapter else orchestrator.agent or orchestrator.name
    adapter = get_adapter(kind, host.env)
    behind_gateway = sandbox.type == "docker" and sandbox.network == "gateway"
    if spec.type == "auto" and behind_gateway and adapter.credentials_in(orchestrator.env):
        # Such a container reaches only the gateway: the key is for the gateway, and the agent gets a virtual one.
        return spec.model_copy(update={"type": "builtin"})
    return spec


_VALIDATION_KEYS = {"install_cmd", "build_cmd", "test_cmd", "lint_cmd", "greenfield", "reward", "canary"}
"""Keys that a task has in common with the evaluator."""


def _evaluators(arena: Arena, task: FoundTask) -> Iterator[EvaluatorEntry]:
    spec = task.spec
    rules = arena.spec.validation
    if spec.validation is not None:
        given = {name: getattr(spec.validation, name) for name in spec.validation.model_fields_set}
        rules = rules.model_copy(update=given)
    weights = "green_weights" if spec.greenfield else "weights"
    config = {
        **rules.model_dump(mode="json"),
        **spec.model_dump(mode="json", include=_VALIDATION_KEYS),
        "image": spec.validation_image,
        "validation_tag": task.validation_commit,
        "reference_tag": task.reference_commit,
        "env": dict(spec.env),
        "protected": list(spec.protected),
        weights: getattr(spec, weights).model_dump(mode="json"),
    }
    yield EvaluatorEntry(name=VALIDATION, config={name: value for name, value in config.items() if value is not None})
    if spec.rubric is not None:
        judge = {
            "type": spec.rubric.agent,
            "model": spec.rubric.model,
            "votes": spec.rubric.votes,
            "assertions": spec.rubric.model_dump(mode="json")["criteria"],
            "threshold": spec.rubric.threshold,
            "advisory": getattr(spec, weights).rubric == 0 or None,  # without a weight, it decides nothing
            "judge_failed_runs": True,  # the rubric is a part of the score, which such runs have, too
        }
        yield EvaluatorEntry(name=RUBRIC, config={name: value for name, value in judge.items() if value is not None})
