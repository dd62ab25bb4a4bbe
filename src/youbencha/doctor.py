"""Check whether this machine has everything that a run needs, and suggest fixes.

All checks run in parallel, each with its own deadline: a program that hangs delays only its own line.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from youbencha.adapters import adapter_names, get_adapter
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.gateway.upstreams import find_upstreams, read_secrets
from youbencha.loop.backends import BACKENDS, how_to_install
from youbencha.loop.plan import LoopOverrides, find_loop_file, plan_loop, read_objective
from youbencha.process import ProcessStartError, find_executable
from youbencha.process.environment import HOME, PROGRAM, select
from youbencha.sandbox.docker.engine import connect, find_engine
from youbencha.sandbox.toolbox.catalogue import parse_request
from youbencha.sandbox.toolbox.installed import ask_version, sort_key
from youbencha.sandbox.toolbox.toolbox import Toolbox
from youbencha.spec.loop import LoopSpec
from youbencha.spec.loop_loader import LoopFile
from youbencha.spec.settings import LoadedSettings, Settings, load_settings
from youbencha.text import plural
from youbencha.trial.context import Host
from youbencha.user_dirs import default_cache_dir, toolbox_dir
from youbencha.workspace.git import ReadOnlyGit
from youbencha.workspace.working_tree import require_repository

__all__ = ["DEADLINE_S", "Diagnosis", "Finding", "State", "examine", "examine_loop"]


State = Literal["ok", "note", "failed"]
Group = Literal["system", "storage", "loop", "agents"]

DEADLINE_S = 30.0
"""For each check. The first start of a large CLI from a cold disk was seen to take 15 s."""

_ANY_PROGRAM = "command"
"""The agent that runs whatever the test case names, so that there is nothing to look for."""

_GB = 1_000_000_000

LOW_DISK_BYTES = 2 * _GB
"""Less than what two agents and a large repository take."""
MIN_DISK_BYTES = _GB // 5

MIN_GIT = Version("2.25")
"""The first version in which `git clone --filter` and partial checkouts work as needed."""
MIN_NODE = Version("20.0")


@dataclass(frozen=True, slots=True)
class Finding:
    group: Group
    name: str
    state: State
    """`note`: missing, but optional. `failed`: unusable."""
    detail: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    findings: tuple[Finding, ...]
    any_agent: bool = True
    """Whether one usable agent is enough. If not, none is needed: another finding is about the right one."""

    @property
    def usable_agents(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.findings if f.group == "agents" and f.state == "ok")

    @property
    def missing(self) -> tuple[str, ...]:
        """What prevents every run. One usable agent is enough."""
        broken = [f.name for f in self.findings if f.group != "agents" and f.state == "failed"]
        return (*broken, *(() if self.usable_agents or not self.any_agent else ("an agent that can be used",)))

    @property
    def ready(self) -> bool:
        return not self.missing


async def examine(directory: Path, home: Path, env: Mapping[str, str], *, deadline_s: float = DEADLINE_S) -> Diagnosis:
    """Check this computer for a run in `directory`."""

    def begin(group: Group, name: str, check: Coroutine[Any, Any, Finding]) -> asyncio.Task[Finding]:
        return asyncio.create_task(_in_time(group, name, check, deadline_s))

    system = [
        begin("system", "git", check_git(env)),
        begin("system", "node", check_node(env)),
        begin("system", "docker", check_docker(env)),
    ]
    agents = [begin("agents", name, check_agent(name, env)) for name in examined_agents()]
    checked, settings = check_settings(directory, home)
    here = (check_gateway(settings, env), checked, *check_storage(settings, env))
    return Diagnosis((check_python(), *await asyncio.gather(*system), *here, *await asyncio.gather(*agents)))


async def examine_loop(
    directory: Path,
    home: Path,
    env: Mapping[str, str],
    *,
    file: Path | None = None,
    hats: str | None = None,
    settings: Sequence[str] = (),
    deadline_s: float = DEADLINE_S,
) -> Diagnosis:
    """Check this computer for a loop in `directory`, by the given ralph.yml or the one in there."""

    def begin(group: Group, name: str, check: Coroutine[Any, Any, Finding]) -> asyncio.Task[Finding]:
        return asyncio.create_task(_in_time(group, name, check, deadline_s))

    checked, loaded_settings = check_settings(directory, home)
    agents = {name: begin("agents", name, check_backend(name, env)) for name in BACKENDS}
    git = begin("system", "git", check_git(env))
    configured, loaded = check_loop_file(directory, file, hats, settings)
    repository = begin("loop", "repository", check_repository(directory, loaded.spec if loaded else LoopSpec()))
    loop = [configured, check_prompt(directory, loaded)]
    system = [check_gateway(loaded_settings, env)]
    if loaded is not None and loaded.spec.sandbox is not None and loaded.spec.sandbox.type == "docker":
        docker = await begin("system", "docker", check_docker(env))
        system.append(docker if docker.state == "ok" else replace(docker, state="failed"))
    backends = {name: await task for name, task in agents.items()}
    if configured.state == "ok":
        loop.append(check_chosen_backend(loaded, Host(env, loaded_settings), directory, backends))
    return Diagnosis((await git, *system, checked, *loop, await repository, *backends.values()), any_agent=False)


async def check_backend(name: str, env: Mapping[str, str]) -> Finding:
    """Check a backend of loops: an agent with an adapter, or a program."""
    kind = BACKENDS[name]
    if kind.agent_type != _ANY_PROGRAM:
        return replace(await check_agent(kind.agent_type, env), name=name)
    program = find_executable(kind.program, env)
    if program is None:
        return Finding("agents", name, "note", "not installed", f"To use it: {how_to_install(kind)}")
    version = await _version(program, env)
    return Finding("agents", name, "ok", f"{version or 'unknown version'} on PATH ({program})")


def check_loop_file(
    directory: Path, config: Path | None, hats: str | None, settings: Sequence[str]
) -> tuple[Finding, LoopFile | None]:
    try:
        file = find_loop_file(directory, config, hats=hats, settings=settings)
    except ConfigError as error:
        detail = "; ".join(str(problem) for problem in error.problems)
        return Finding("loop", "configuration", "failed", detail, "`yb schema loop` describes every key."), None
    except YouBenchaError as error:
        return Finding("loop", "configuration", "failed", error.message, error.hint), None
    if file is None:
        fix = "`ralph init` writes one."
        return Finding("loop", "configuration", "ok", "there is no ralph.yml, so the defaults apply", fix), None
    if file.warnings:
        detail = "; ".join(f"{warning} ({warning.hint})" for warning in file.warnings)
        return Finding("loop", "configuration", "ok", detail), file
    return Finding("loop", "configuration", "ok", str(file.file or "given by options")), file


def check_prompt(directory: Path, file: LoopFile | None) -> Finding:
    try:
        text, source = read_objective(file.spec if file else LoopSpec(), directory, LoopOverrides())
    except YouBenchaError as error:
        state: State = "note" if error.code == "PROMPT_MISSING" else "failed"  # it may be given with `-p`
        return Finding("loop", "prompt", state, error.message, error.hint)
    return Finding("loop", "prompt", "ok", f"{len(text):,} characters in {source or 'the configuration'}")


async def check_repository(directory: Path, spec: LoopSpec) -> Finding:
    """Check that there is a repository, which checkpoints need, and warn about uncommitted files."""
    if not spec.event_loop.checkpoint_interval:
        return Finding("loop", "repository", "ok", "not needed: the loop takes no checkpoints")
    top = require_repository(directory).top
    git = await ReadOnlyGit.open(directory)
    changed = len((await git.ask("status", "--porcelain") or "").splitlines())
    if changed:
        fix = "The loop leaves them alone, but `ralph diff` shows the agent's changes among them. Commit first."
        return Finding("loop", "repository", "note", f"{top}, with {plural(changed, 'uncommitted file')}", fix)
    return Finding("loop", "repository", "ok", str(top))


def check_chosen_backend(
    file: LoopFile | None, host: Host, directory: Path, backends: Mapping[str, Finding]
) -> Finding:
    """Plan the loop, and look at the finding about its backend."""
    try:
        plan = plan_loop(file, host, directory, LoopOverrides(prompt="…"))
    except YouBenchaError as error:
        return Finding("loop", "backend", "failed", error.message, error.hint)
    backend = backends.get(plan.backend.name)
    if backend is not None and backend.state != "ok":
        return Finding("loop", "backend", "failed", f"{plan.backend.title}: {backend.detail}", backend.fix)
    how = "the first that is installed" if plan.detected else "as configured"
    return Finding("loop", "backend", "ok", f"{plan.backend.title}, {how}")


async def _in_time(group: Group, name: str, check: Coroutine[Any, Any, Finding], deadline_s: float) -> Finding:
    try:
        async with asyncio.timeout(deadline_s):
            return await check
    except TimeoutError:
        detail = f"gave no answer within {deadline_s:g} s"
        fix = f"Start {name} by hand to see what it waits for; `yb doctor --timeout SECONDS` waits longer."
    except YouBenchaError as error:
        detail, fix = error.message, error.hint or ""
    except Exception as error:  # noqa: BLE001 (an adapter of another package may raise anything)
        detail, fix = f"its check failed: {type(error).__name__}: {error}", ""
    return Finding(group, name, "failed", " ".join(detail.split()), fix or None)


def examined_agents() -> list[str]:
    return [name for name in adapter_names() if name != _ANY_PROGRAM]


async def check_agent(name: str, env: Mapping[str, str]) -> Finding:
    """Check one agent: a missing one is a note, an installed one that cannot be used is a failure."""
    where = await _locations(name, env)
    try:
        available = await get_adapter(name, env).check_availability()
    except YouBenchaError as error:
        detail = f"{where}: {error.message}" if where else error.message
        return Finding("agents", name, "failed", " ".join(detail.split()), error.hint or None)
    if not available:
        fix = f"To use it: yb agents install {name}" if _can_be_installed(name) else None
        return Finding("agents", name, "note", "not installed", fix)
    return Finding("agents", name, "ok", where or "ready")


async def _locations(name: str, env: Mapping[str, str]) -> str:
    """Describe where an agent is installed, in the order in which adapters look: PATH, then the toolbox."""
    if not _can_be_installed(name):
        return ""
    locations = []
    program = find_executable(parse_request(name).agent.command, env)
    if program is not None:
        version = None
        with suppress(ProcessStartError):
            version = await _version(program, env)
        locations.append(f"{version or 'unknown version'} on PATH ({program})")
    versions = [agent.version for agent in Toolbox(toolbox_dir(env)).installed(name)]
    if versions:
        locations.append(f"{', '.join(versions)} in the toolbox")
    return "; ".join(locations)


async def _version(program: Path, env: Mapping[str, str]) -> str | None:
    env = select(env, PROGRAM | HOME) | {"DISABLE_AUTOUPDATER": "1"}
    return (await ask_version((str(program),), cwd=Path(tempfile.gettempdir()), env=env)).version


def _can_be_installed(name: str) -> bool:
    try:
        parse_request(name)
    except YouBenchaError:
        return False
    return True


def check_gateway(settings: LoadedSettings, env: Mapping[str, str]) -> Finding:
    """Check which APIs a gateway has keys for."""
    spec = settings.gateway
    try:
        secrets = read_secrets(Path(spec.secrets_file)) if spec.secrets_file else {}
        keys = find_upstreams(spec, {**env, **secrets})
    except YouBenchaError as error:
        return Finding("system", "gateway", "failed", error.message, error.hint)
    if spec.type == "none":
        return Finding("system", "gateway", "ok", "none, as the settings say")
    if keys:
        served = ", ".join(f"{name} ({upstream.url})" for name, upstream in keys.items())
        return Finding("system", "gateway", "ok", f"{spec.type}; has keys for {served}")
    detail = f"{spec.type}; has no key, so agents reach their models directly"
    fix = "For budgets, exact counts and cassettes, export ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY."
    return Finding("system", "gateway", "note", detail, fix)


def check_settings(directory: Path, home: Path) -> tuple[Finding, LoadedSettings]:
    """Check the settings files, and return the settings; the defaults, if the files cannot be used."""
    try:
        loaded = load_settings(directory, home)
    except ConfigError as error:
        detail = "; ".join(str(problem) for problem in error.problems)
        finding = Finding("storage", "settings", "failed", detail, "Fix it, or `yb config unset` the key.")
        return finding, LoadedSettings(Settings(), directory, home)
    if loaded.warnings:
        return Finding("storage", "settings", "note", "; ".join(loaded.warnings)), loaded
    files = ", ".join(str(file) for file in loaded.files) or "none, so the defaults apply"
    return Finding("storage", "settings", "ok", files), loaded


def check_storage(settings: LoadedSettings, env: Mapping[str, str]) -> list[Finding]:
    """Check that the workspace can be written, and the free space of each disk."""
    cache = settings.cache_dir or default_cache_dir()
    directories = {"workspace": settings.workspace_dir, "cache": cache, "toolbox": toolbox_dir(env)}
    return [_check_writable(settings.workspace_dir), *_check_free_space(directories)]


def _check_writable(workspace: Path) -> Finding:
    """Check that the workspace could be created, without creating it."""
    existing = _nearest_existing(workspace)
    try:
        if not existing.is_dir():
            raise NotADirectoryError(20, f"{existing} is not a directory")
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        detail = f"{workspace} cannot be written: {error.strerror or error}"
        fix = "Choose another directory: `yb config set workspace_dir DIR`, or `workspace_dir` in the test case."
        return Finding("storage", "workspace", "failed", detail, fix)
    return Finding("storage", "workspace", "ok", str(workspace))


def _check_free_space(directories: dict[str, Path]) -> list[Finding]:
    """Check the free space of each disk once, not for each directory on it."""
    disks: dict[int, list[str]] = {}
    for name, directory in directories.items():
        disks.setdefault(_nearest_existing(directory).stat().st_dev, []).append(name)
    return [_free_space(names, _nearest_existing(directories[names[0]])) for names in disks.values()]


def _free_space(names: list[str], directory: Path) -> Finding:
    free = shutil.disk_usage(directory).free
    state: State = "ok" if free >= LOW_DISK_BYTES else "note" if free >= MIN_DISK_BYTES else "failed"
    detail = f"{free / _GB:.1f} GB free for {', '.join(names)}"
    fix = "Free some space: `yb prune` removes old runs, `yb agents remove` old agents."
    return Finding("storage", "disk", state, detail, None if state == "ok" else fix)


def _nearest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest directory above it that exists."""
    path = path.absolute()
    return next((parent for parent in (path, *path.parents) if os.path.lexists(parent)), Path(path.anchor))


def check_python() -> Finding:
    return Finding("system", "python", "ok", f"{platform.python_version()}  {sys.executable}")


async def check_git(env: Mapping[str, str]) -> Finding:
    fix = "Install git 2.25 or newer: https://git-scm.com/downloads"
    return await _check_program("git", env, MIN_GIT, missing="failed", fix=fix)


async def check_node(env: Mapping[str, str]) -> Finding:
    fix = "Only agents that come from npm need it: install Node.js 20 or newer."
    return await _check_program("node", env, MIN_NODE, missing="note", fix=fix)


async def check_docker(env: Mapping[str, str]) -> Finding:
    """Ask the engine's socket, as a run would. The command `docker` is not needed."""
    try:
        find_engine(env)
        await asyncio.to_thread(import_module, "aiodocker")  # takes half a second, and others have deadlines
        async with connect(env) as engine:
            detail = f"{engine.info.name} {engine.info.version}  {find_engine(env)}"
    except YouBenchaError as error:
        fix = f"Only runs with `sandbox: docker` need one. {error.hint or ''}".strip()
        return Finding("system", "docker", "note", error.message, fix)
    return Finding("system", "docker", "ok", detail)


async def _check_program(name: str, env: Mapping[str, str], oldest: Version, *, missing: State, fix: str) -> Finding:
    path = find_executable(name, env)
    if path is None:
        return Finding("system", name, missing, "not on PATH", fix)
    version = await _version(path, env)
    if version is None:
        return Finding("system", name, missing, f"{path} does not report its version", fix)
    if sort_key(version)[0] < oldest:
        return Finding("system", name, missing, f"{version} is too old  {path}", fix)
    return Finding("system", name, "ok", f"{version}  {path}")
