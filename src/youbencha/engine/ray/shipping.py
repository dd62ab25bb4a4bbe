"""Send a trial to another machine, and its files back.

Its plan is sent without secrets, with its repository and the files that the plan names.

Never sent: the file with the secrets, results, and anything else in the directory of the configuration.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.environment import is_model_credential
from youbencha.errors import YouBenchaError
from youbencha.evaluators.judge.setup import JUDGE_NAME
from youbencha.files import PathNotAllowed, check_relative, nofollow_directory, open_file, open_nofollow, walk
from youbencha.spec.variables import list_names
from youbencha.store.layout import RESULTS_FILE
from youbencha.trial.agent_files import entries
from youbencha.trial.plan import Plan
from youbencha.trial.remote_gateways import has_gateway_secret, portable
from youbencha.workspace import Repository
from youbencha.workspace.repository import pack_name, unpack_commits
from youbencha.workspace.run_dir import ARTIFACTS
from youbencha.workspace.source import RemoteUrl, read_source

_IN_CONFIG_DIR = re.compile(r"\{config_dir\}/(\S+)")
_FILE_OPTIONS = ("prompt_file", "instructions_file", "instructions-file", "mcp_config", "command", "executable")
"""Options of agents and evaluators whose values may be paths."""

_COMMITS = ("validation_tag", "reference_tag")
_MAX_SENT_BYTES = 512 * 1024**2
PART_BYTES = 1024**2
MAX_BYTES = 4 * 1024**3
MAX_FILES = 200_000
_MAX_NAME_CHARS = 4096
_ARTIFACTS = f"{ARTIFACTS}/"
_RESULTS = f"{ARTIFACTS}/{RESULTS_FILE}"


@dataclass(frozen=True, kw_only=True)
class PortablePlan:
    """What the attempts of a plan need on a node, besides its files and commits. Plain data: it can be pickled."""

    plan: Plan
    """Without secrets."""
    repo: str
    """The name of the repository in results."""
    commits: tuple[str, ...]
    """The commits that are sent. If there are none, the node fetches the repository from its address."""
    env: Mapping[str, str]
    """The variables that evaluators and hooks refer to."""


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
    """Return the variables that evaluators and hooks refer to, without the API keys of models, which stay here."""
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
                hint="Move it there, next to the configuration or below.",
            )


def collect_files(plan: Plan, never: Sequence[Path] = ()) -> tuple[FilePart, ...]:
    """Read the files that a plan names, without those in the files and directories `never`."""
    parts, size = [], 0
    base, excluded = plan.config_dir, [path.resolve() for path in never]
    for part in read_user_files(base, _below(base, sorted(set(_paths_in(plan))))):
        if any((base / part.name).resolve().is_relative_to(path) for path in excluded):
            continue
        parts.append(part)
        size += len(part.data)
        if size > _MAX_SENT_BYTES:
            raise YouBenchaError(
                "FILES_TOO_LARGE",
                f"The files of {plan.case.agent.type} are more than {_MAX_SENT_BYTES // 1024**2} MiB.",
                hint="They are copied to each node. Name smaller directories.",
            )
    return tuple(parts)


def _below(base: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield what exists below the configuration. The agent reports what is missing."""
    for written in paths:
        path = Path(os.path.normpath((base / Path(written).expanduser()).absolute()))
        if path.is_relative_to(base.absolute()) and path.exists() and path != base.absolute():
            yield path.relative_to(base.absolute()).as_posix()


def _paths_in(plan: Plan) -> Iterator[str]:
    agent = plan.case.agent
    yield from (path for path in (agent.instructions, agent.files, agent.home) if path)
    yield from (*agent.skills, *agent.plugins)
    for config in (dict(plan.agent_config), *(dict(evaluator.config) for evaluator in plan.evaluators)):
        yield from _options_in(config)
    if agent.agent_name is not None:
        judges = (evaluator.config.get("type") for evaluator in plan.evaluators if evaluator.name == JUDGE_NAME)
        for kind in (agent.type, *(kind for kind in judges if isinstance(kind, str))):
            yield from filter(None, (get_adapter(kind).agent_definitions,))


def _options_in(config: Mapping[str, Any]) -> Iterator[str]:
    for word in _words(config):
        for path in _IN_CONFIG_DIR.findall(word):
            yield path if "/" not in path else str(Path(path).parent)  # with the files next to a script
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


# Files in parts that fit into a message.


class FilePart(NamedTuple):
    """A file, or a part of it."""

    name: str
    """Relative, with slashes."""
    data: bytes
    executable: bool = False
    first: bool = True
    """Whether the file begins with it. Otherwise, it continues the file of that name."""


def read_user_files(base: Path, names: Iterable[str]) -> Iterator[FilePart]:
    """Yield files of a user, and all files in directories. Names are relative to `base`; links are followed."""
    for name in names:
        if (base / name).is_file():
            yield from _parts(open_file(base / name), name)
        for directory, directories, files in os.walk(base / name, followlinks=True):
            directories[:] = sorted(name for name in directories if not _leads_back(directory, name))
            for file in sorted(files):
                path = Path(directory, file)
                if path.is_file():
                    yield from _parts(open_file(path), path.relative_to(base).as_posix())


def _leads_back(directory: str, name: str) -> bool:
    """Whether a link leads to the directory that it is in, or to one above: it would be followed again and again."""
    return Path(directory).resolve().is_relative_to(Path(directory, name).resolve())


def read_agent_files(root: Path) -> Iterator[FilePart]:
    """Yield the regular files below a directory in which an agent could have written, the artifacts first.

    Links are left out, and so are the largest files of more than a trial may have: no agent prevents its results.
    """
    room = MAX_BYTES
    files = sorted(_files_in(root), key=lambda file: (file[0] != _RESULTS, not file[0].startswith(_ARTIFACTS), file[1]))
    for name, size in files[: MAX_FILES // 2]:
        if size <= room:
            room -= size
            with suppress(PermissionError):  # the agent took it away
                yield from _parts(open_nofollow(root, name), name)


def read_results(root: Path) -> Iterator[FilePart]:
    """Yield only the parts of the results file; nothing if there is none yet."""
    if (root / _RESULTS).is_file():
        yield from _parts(open_nofollow(root, _RESULTS), _RESULTS)


def _files_in(root: Path) -> Iterator[tuple[str, int]]:
    """Yield names and sizes, without files whose paths are too long."""

    def check(error: OSError) -> None:
        if error.errno != errno.ENAMETOOLONG:
            raise error

    for entry in walk(root, on_error=check):
        if entry.is_file(follow_symlinks=False):
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except OSError as error:
                check(error)
            else:
                yield Path(entry.path).relative_to(root).as_posix(), size


def _parts(file: BufferedReader, name: str) -> Iterator[FilePart]:
    with file:
        executable, first = bool(os.fstat(file.fileno()).st_mode & 0o100), True
        while (data := file.read(PART_BYTES)) or first:
            yield FilePart(name, data, executable, first)
            first = False


def batches(parts: Iterable[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """Put small files together, so that each batch has about as many bytes as a part may have."""
    batch: list[FilePart] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part.data) + len(part.name) + 100
        if size >= PART_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


class PartsWriter:
    """Writes parts below a directory. They are not trusted: nothing is written elsewhere, nor without bounds."""

    def __init__(self, root: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> None:
        self._root = root
        self._bytes = max_bytes
        self._files = max_files

    def write(self, parts: Iterable[FilePart]) -> None:
        """Write parts. Raises `FILES_HOSTILE` or `FILES_TOO_LARGE`, or OSError."""
        for part in parts:
            self._count(part)
            try:
                check_relative(part.name)
                if len(part.name) > _MAX_NAME_CHARS:
                    raise PathNotAllowed(f"{part.name[:100]}… is too long")
            except PathNotAllowed as error:
                raise YouBenchaError("FILES_HOSTILE", f"Rejected an invalid file from a node: {error}") from error
            self._write(part)

    def _count(self, part: FilePart) -> None:
        self._bytes -= len(part.data)
        self._files -= 1  # any part can begin a file
        if self._bytes < 0 or self._files < 0:
            raise YouBenchaError(
                "FILES_TOO_LARGE",
                f"A trial's files exceed {MAX_BYTES // 1024**3} GiB or {MAX_FILES:,} files.",
                hint="Turn `results.keep_workspaces` off, or make the agent's output smaller.",
            )

    def _write(self, part: FilePart) -> None:
        path = PurePosixPath(part.name)
        flags = os.O_WRONLY | (os.O_TRUNC if part.first else os.O_APPEND)
        with (
            nofollow_directory(self._root, str(path.parent)) as directory,
            os.fdopen(directory.open(path.name, flags), "wb") as file,
        ):
            file.write(part.data)
            if part.executable and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o755)
