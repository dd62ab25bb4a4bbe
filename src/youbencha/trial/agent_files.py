"""The files that an agent gets besides those of its task: check them, hash them, give them to it, take them away.

Instructions, skills and plugins are copied to where the agent reads them in its home, which is always a new one then.
`files` are copied into the checkout after the snapshot that the diff starts from, and removed before the diff is made;
`without` takes files out of it for the same time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from youbencha.adapters.base import BaseAdapter, FilePlaces, InstalledFiles
from youbencha.adapters.cli_agent.environment import fresh_home_for
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import in_thread
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local import HostSandbox
from youbencha.spec.agent_files import AgentFiles
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.testcase import AgentSpec
from youbencha.text import first_few
from youbencha.trial.context import TrialContext
from youbencha.workspace import Repository
from youbencha.workspace.overlay import GivenFile, Overlay, copy_given, given_file, given_files, hash_given, invalid

if TYPE_CHECKING:
    from youbencha.trial.plan import Plan  # a cycle

SKILL_FILE = "SKILL.md"
_NAMES_A_FILE = ("mcp_config",)
"""Options of adapters: a file next to the test case, or its content."""
_NAMED = ("skills", "plugins")
_IN_HOME = ("instructions", "skills", "plugins", "home")
_OWN_DIRECTORIES = frozenset({"HOME", "USERPROFILE", "XDG_CONFIG_HOME"})


class Given(NamedTuple):
    """One entry of `AgentFiles`."""

    key: tuple[str | int, ...]
    """`("skills", 0)`."""
    source: Path

    @property
    def kind(self) -> str:
        return str(self.key[0])

    @property
    def name(self) -> str:
        """The name of a skill or a plugin; empty for other files."""
        # Not resolved: a link to a directory has a name of its own.
        return Path(os.path.normpath(self.source.absolute())).name if self.kind in _NAMED else ""

    def files(self) -> list[GivenFile]:
        """Its files, in the order of their paths. Raises `AGENT_FILES_INVALID`."""
        if self.kind == "instructions":
            return [given_file(self.source, "instructions")]
        return given_files(self.source, git_refused=self.kind == "files")


def entries(agent: AgentFiles, directory: Path) -> Iterator[Given]:
    """What the agent gets. Relative paths start at `directory`."""
    for kind in AgentFiles.model_fields:
        value: str | tuple[str, ...] | None = getattr(agent, kind)
        if isinstance(value, str):
            yield Given((kind,), _source(value, directory))
        else:
            for number, path in enumerate(value or ()):
                yield Given((kind, number), _source(path, directory))


def _source(path: str, directory: Path) -> Path:
    return directory / os.path.expanduser(path)  # noqa: PTH111 - of an unknown user, it stays as it is


def files_digest(agent: AgentSpec, directory: Path) -> str | None:
    """Hash the contents of all files that an agent gets; None if it gets none. The same on every machine."""
    lines = [f"{entry.kind} {entry.name} {hash_given(entry.files())}\n" for entry in entries(agent, directory)]
    for option, name in named_files(agent):
        if os.path.isfile(file := _source(name, directory)):  # noqa: PTH113 - of any text
            lines.append(f"{option} {hash_given([given_file(file, option)])}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest() if lines else None


def repository_files(agent: AgentSpec, directory: Path) -> Iterator[tuple[str, str]]:
    """The options that name a file which must be in the repository: it is neither in `directory` nor in `files`."""
    places = [directory, *([_source(agent.files, directory)] if agent.files else [])]
    for option, name in named_files(agent):
        found = any(os.path.isfile(_source(name, place)) for place in places)  # noqa: PTH113 - of any text
        if not found and not Path(name).is_absolute():
            yield option, name


def named_files(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    """The options of the agent that name a file, with its path."""
    for option in _NAMES_A_FILE:
        named = agent.config.get(option)
        if isinstance(named, str) and not named.lstrip().startswith("{"):
            yield option, named


async def commit_files(agent: AgentSpec, adapter: BaseAdapter, repository: Repository) -> tuple[str, ...]:
    """The files of the commit that the agent reads on its own, as `files_read`."""
    if not adapter.file_places.in_repository:
        return ()
    return files_read(await repository.paths(), agent, adapter.file_places)


async def custom_agent_problems(plan: Plan, adapter: BaseAdapter, repository: Repository) -> Sequence[Problem]:
    """Check the custom agent that a plan names. The keys of the problems are relative to `agent.config`."""
    name, agent = plan.agent_config.get("agent_name"), plan.case.agent
    if not isinstance(name, str) or not adapter.agent_definitions:
        return ()
    place = (adapter.agent_definitions,)
    paths = [path for path in await repository.paths() if _is_in(path, place) and not _is_in(path, agent.without)]
    env = plan.env if agent.home is None else {**plan.env, "HOME": str(_source(agent.home, plan.config_dir))}
    with TemporaryDirectory(prefix="youbencha-agents-") as temporary:
        tree = Path(temporary)
        await repository.write_files(repository.commit, paths, tree)
        for entry in entries(agent, plan.config_dir):
            if entry.kind == "files":
                copy_given([file for file in entry.files() if _is_in(file.path, place)], tree)
        return adapter.check_custom_agent(name, workspace=tree, config_dir=plan.config_dir, env=env)


def files_read(paths: Iterable[str], agent: AgentSpec, places: FilePlaces) -> tuple[str, ...]:
    """Those of a commit's files that an agent reads on its own: instructions, skills and settings of the repository.

    Of a skill, only its SKILL.md is returned.
    """
    if places.repository_option is not None:
        option, value = places.repository_option
        sources = agent.config.get(option)
        if isinstance(sources, list | tuple) and value not in sources:
            return ()
    names = {place for place in places.in_repository if "/" not in place}
    tops = [place.strip("/") for place in places.in_repository if "/" in place]
    read = [path for path in paths if path.rpartition("/")[2] in names or _is_in(path, tops)]
    given = [path for path in read if not _is_in(path, agent.without)]
    return tuple(sorted(path for path in given if "/skills/" not in path or path.endswith(f"/{SKILL_FILE}")))


def _is_in(path: str, places: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{place}/") for place in places)


# Before anything is cloned or run.


def files_problems(agent: Mapping[str, Any], adapter: BaseAdapter, directory: Path) -> Iterator[Problem]:
    """Every problem of an agent's files; paths are relative to `agent`. `agent` need not be valid otherwise."""
    try:
        given = AgentFiles.model_validate({key: agent[key] for key in AgentFiles.model_fields if key in agent})
    except ValidationError:
        return  # the model reports this
    places = adapter.file_places
    seen: set[tuple[str, str]] = set()
    for entry in entries(given, directory):
        if problem := _unsupported(entry, adapter, places) or _unusable(entry, places):
            yield Problem(entry.key, *problem)
        elif (entry.kind, entry.name) in seen:
            yield Problem(
                entry.key, f"has the same name as another of the {entry.kind}", "rename one of the directories"
            )
        seen.add((entry.kind, entry.name))
    yield from _hidden(agent, given, places)


def _unsupported(entry: Given, adapter: BaseAdapter, places: FilePlaces) -> tuple[str, str] | None:
    if entry.kind in ("files", "home") or getattr(places, entry.kind) is not None:
        return None
    return f"{adapter.name} cannot be given {entry.kind}", "put what its program reads into `home` or `files`"


def _unusable(entry: Given, places: FilePlaces) -> tuple[str, str | None] | None:
    parts = {"skills": (SKILL_FILE,), "plugins": places.plugin_parts}.get(entry.kind, ())
    try:
        files = entry.files()
    except YouBenchaError as error:
        return error.message, error.hint
    if parts and not any(f"{file.path}/".startswith(f"{part}/") for file in files for part in parts):
        return f"there is no {' or '.join(parts)} in {entry.source}", "name the directory that contains it"
    return None


def _hidden(agent: Mapping[str, Any], given: AgentFiles, places: FilePlaces) -> Iterator[Problem]:
    """Variables and options with which the agent would not read the files."""
    first = next((key for key in _IN_HOME if getattr(given, key)), None)
    if first is None:
        return
    env, config = agent.get("env"), agent.get("config")
    for name in sorted(env) if isinstance(env, Mapping) else ():
        if name in places.relocating_env | _OWN_DIRECTORIES:
            yield Problem(("env", name), f"cannot be combined with `{first}`, which is in the agent's new home")
    if places.required_source is None or not isinstance(config, Mapping):
        return
    option, value = places.required_source
    if isinstance(sources := config.get(option), list | tuple) and value not in sources:
        yield Problem(("config", option), f"hides `{first}`: the agent would not read it", f"add {value!r}")


def home_problem(
    agent: AgentFiles,
    adapter: BaseAdapter,
    sandbox: SandboxSpec,
    *,
    harness_env: Mapping[str, str],
    agent_env: Mapping[str, str],
    behind_gateway: bool,
) -> Problem | None:
    """Why an agent cannot have a new home, if it needs one for its files."""
    key = next((key for key in _IN_HOME if getattr(agent, key)), None)
    if key is None or sandbox.type == "docker":
        return None
    if fresh_home_for(
        adapter, sandbox.home, harness_env=harness_env, agent_env=agent_env, behind_gateway=behind_gateway
    ):
        return None
    if sandbox.home == "own":
        return Problem(("agent", key), "needs a new home, but the sandbox has `home: own`", "remove `home: own`")
    return Problem(
        ("agent", key),
        f"needs a new home, but {adapter.name} may need the login that is stored in yours",
        "set an API key, or use a gateway or a container",
    )


# Around the agent's work.


async def give_files(context: TrialContext) -> None:
    """Copy and lay the agent's files, and take out those that it does not get, right before it starts."""
    agent = context.plan.case.agent
    given = list(entries(agent, context.plan.config_dir))
    if any(entry.kind != "files" for entry in given):
        places = context.adapter.file_places
        home = _find_home(context.sandbox, context.host.env)
        context.installed = await in_thread(lambda _: _install(given, places, home))
    laid = [entry for entry in given if entry.kind == "files"]
    if laid or agent.without:
        context.overlay = overlay = Overlay(context.directory.modified, context.directory.private / "overlaid")
        await in_thread(lambda _: overlay.remove(agent.without))
        for entry in laid:
            await in_thread(partial(_lay, overlay, entry))
        await overlay.hide_from_git(context.repository.commit)


async def take_files_away(context: TrialContext, overlay: Overlay) -> None:
    """Restore the checkout, after the agent's processes have ended and before it is looked at."""
    if replaced := await in_thread(lambda _: overlay.revert()):
        message = f"The agent replaced files from `files` with directories, which were removed: {first_few(replaced)}"
        context.warn("WORKSPACE_TAMPERED", message)


def _lay(overlay: Overlay, entry: Given, _: object) -> None:
    overlay.apply(entry.files())


def _find_home(sandbox: Sandbox, harness_env: Mapping[str, str]) -> Path:
    env = sandbox.environment(harness_env)
    home = sandbox.outside(env.get("HOME") or env["USERPROFILE"])
    if isinstance(sandbox, HostSandbox) and not sandbox.has_fresh_home:
        raise invalid("the agent has no new home for its files")  # planned with another environment
    assert home is not None, "a container's home is a directory of the host"
    return home


def _install(given: list[Given], places: FilePlaces, home: Path) -> InstalledFiles:
    """Copy what belongs into the home; instructions, skills and plugins come over `home`."""
    installed: dict[str, list[Path]] = {kind: [] for kind in _IN_HOME}
    for entry in sorted(given, key=lambda entry: entry.kind != "home"):
        if entry.kind == "home":
            copy_given(entry.files(), home)
        elif entry.kind == "instructions":
            assert places.instructions is not None, "this was planned"
            copy_given([given_file(entry.source, places.instructions)], home)
            installed[entry.kind].append(home / places.instructions)
        elif entry.kind != "files":
            copy = home / getattr(places, entry.kind) / entry.name
            copy_given(entry.files(), copy)
            installed[entry.kind].append(copy)
    return InstalledFiles(
        instructions=next(iter(installed["instructions"]), None),
        skills=tuple(installed["skills"]),
        plugins=tuple(installed["plugins"]),
    )
