"""What a trial needs on another machine: its plan without secrets, its repository, and the files that the plan names.

Never sent: the file with the secrets, results, and anything else in the directory of the configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.engine.file_parts import FilePart, PartsWriter, parts_of_user
from youbencha.errors import YouBenchaError
from youbencha.evaluators.judge.setup import JUDGE_NAME
from youbencha.spec.variables import list_names
from youbencha.trial.agent_files import entries
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import has_gateway_secret, portable
from youbencha.workspace import Repository
from youbencha.workspace.repository import pack_name, unpack_commits
from youbencha.workspace.source import RemoteUrl, read_source

_IN_CONFIG_DIR = re.compile(r"\{config_dir\}/(\S+)")
_FILE_OPTIONS = ("prompt_file", "instructions_file", "instructions-file", "mcp_config", "command", "executable")
"""Options of agents and evaluators whose values may be paths."""

_COMMITS = ("validation_tag", "reference_tag")
_MOST_SENT = 512 * 1024**2


@dataclass(frozen=True, kw_only=True)
class PortablePlan:
    """What the attempts of a plan need on a node, besides its files and commits. Plain data: it can be pickled."""

    plan: Plan
    """Without secrets."""
    repo: str
    """How the repository is called in results."""
    commits: tuple[str, ...]
    """Those that are sent. Empty: the node fetches the repository from its address."""
    env: Mapping[str, str]
    """Variables that evaluators and hooks refer to."""


def make_portable_plan(plan: Plan, repository: Repository, env: Mapping[str, str]) -> PortablePlan:
    """Prepare a plan for other machines. `env` is the harness's."""
    remote = isinstance(read_source(plan.case.repo, plan.config_dir), RemoteUrl)
    case = plan.case.model_copy(update={"commit": repository.commit})
    return PortablePlan(
        plan=portable(replace(plan, case=case)),
        repo=repository.public_url,
        commits=() if remote else tuple(dict.fromkeys([repository.commit, *_commits_in(plan)])),
        env={
            name: env[name] for name in _variables_in(plan) if name in env and not has_gateway_secret(plan, env[name])
        },
    )


async def unpack_plan(
    portable_plan: PortablePlan, files: Sequence[FilePart], pack: Callable[[], bytes], directory: Path, cache_dir: Path
) -> Plan:
    """Write the files into `directory`, and the commits into the cache. Returns the plan for this machine."""
    directory.mkdir()
    PartsWriter(directory).write(files)
    case = portable_plan.plan.case
    if portable_plan.commits:
        home = cache_dir.absolute() / "sent"
        home.mkdir(parents=True, exist_ok=True)
        git_dir = home / f"{pack_name(portable_plan.commits)}.git"
        if not git_dir.exists():
            await unpack_commits(pack(), portable_plan.commits, git_dir)
        case = case.model_copy(update={"repo": str(git_dir)})
    return replace(portable_plan.plan, case=case, config_dir=directory)


def _commits_in(plan: Plan) -> Iterator[str]:
    for evaluator in plan.evaluators:
        yield from (evaluator.config[name] for name in _COMMITS if evaluator.config.get(name))


def _variables_in(plan: Plan) -> set[str]:
    """The variables that evaluators and hooks refer to, without keys of models: those stay here."""
    hooks = [hook.config.model_dump(mode="json") for hook in (*plan.case.pre_execution, *plan.case.post_evaluation)]
    settings = [*(dict(evaluator.config) for evaluator in plan.evaluators), *hooks]
    return {name for name in list_names(settings) if not is_model_credential(name)}


def check_files(plan: Plan) -> None:
    """Raise if the agent has files that are not sent: a node may have others at the same place."""
    base = plan.config_dir.absolute()
    for entry in entries(plan.case.agent, base):
        if not (source := Path(os.path.normpath(entry.source))).is_relative_to(base):
            raise YouBenchaError(
                "AGENT_FILES_UNSUPPORTED",
                f"{entry.kind}: {source} cannot be sent to nodes, because it is not in {base}.",
                hint="Put it there, next to the configuration or below.",
            )


def files_of(plan: Plan, never: Sequence[Path] = ()) -> tuple[FilePart, ...]:
    """The files that a plan names, as they are now, without those in the files and directories `never`."""
    parts, size = [], 0
    base, excluded = plan.config_dir, [path.resolve() for path in never]
    for part in parts_of_user(base, _below(base, sorted(set(_paths_in(plan))))):
        if any((base / part.name).resolve().is_relative_to(path) for path in excluded):
            continue
        parts.append(part)
        size += len(part.data)
        if size > _MOST_SENT:
            raise YouBenchaError(
                "FILES_TOO_LARGE",
                f"The files of {plan.case.agent.type} are more than {_MOST_SENT // 1024**2} MiB.",
                hint="They are sent to each node: name smaller directories.",
            )
    return tuple(parts)


def _below(base: Path, paths: Sequence[str]) -> Iterator[str]:
    """Only what exists below the configuration; the agent's own error says what is missing."""
    for written in paths:
        path = Path(os.path.normpath((base / Path(written).expanduser()).absolute()))
        if path.is_relative_to(base.absolute()) and path.exists() and path != base.absolute():
            yield path.relative_to(base.absolute()).as_posix()


def _paths_in(plan: Plan) -> Iterator[str]:
    agent = plan.case.agent
    yield from (path for path in (agent.instructions, agent.files, agent.home) if path)
    yield from (*agent.skills, *agent.plugins)
    for config in (dict(plan.agent_config), *(dict(each.config) for each in plan.evaluators)):
        yield from _options_in(config)
    if agent.agent_name is not None:
        judges = (each.config.get("type") for each in plan.evaluators if each.name == JUDGE_NAME)
        for kind in (agent.type, *(kind for kind in judges if isinstance(kind, str))):
            yield from filter(None, (get_adapter(kind).agent_definitions,))


def _options_in(config: Mapping[str, Any]) -> Iterator[str]:
    for word in _words(config):
        for found in _IN_CONFIG_DIR.findall(word):
            yield found if "/" not in found else str(Path(found).parent)  # with the files next to a script
    for name in _FILE_OPTIONS:
        if isinstance(value := config.get(name), str) and "\n" not in value and len(value) < 1000:
            yield value


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _words(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _words(item)
