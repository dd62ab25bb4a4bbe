"""Settings (`.youbencharc`): their model, their files, and the template of a new file.

A project's settings override the user's, and both override the defaults. The user's file is in the home directory.
The project's is in the current directory or, inside a git repository, in the nearest directory above it up to the
repository's root. Outside of a repository, directories above are not searched: a file there could be another user's.

A project's file comes with its repository, so it may neither say where keys go nor weaken a sandbox.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.files import write_atomically
from youbencha.spec.base import Line, Milliseconds, StrictModel, VariableName
from youbencha.spec.document import read_document
from youbencha.spec.gateway import Gateway, GatewaySpec
from youbencha.spec.sandbox import Sandbox, SandboxSpec
from youbencha.user_dirs import project_directories

NAMES = (
    ".youbencharc",
    ".youbencharc.yaml",
    ".youbencharc.yml",
    ".youbencharc.json",
    ".youbencha.yaml",
    ".youbencha.yml",
    ".youbencha.json",
)
"""If a directory has several, the first of these is used."""

CODE, WHAT = "SETTINGS_INVALID", "The settings file"

USER_ONLY_KEYS = (
    "cache_dir",
    "gateway.upstreams",
    "gateway.secrets_file",
    "gateway.litellm",
    "gateway.cassette",
    "sandbox.allowlist",
)
"""Keys that a project's file cannot set, nor anything below them: where credentials are stored and sent, what a
container can reach, recordings (agents execute their answers), and the cache (its prices and mirrors are believed)."""

LIMIT_PREFIXES = (
    "gateway.budget_", "gateway.tokens_", "sandbox.cpus", "sandbox.memory", "sandbox.pids", "sandbox.disk",
)  # fmt: skip
"""Prefixes of keys of limits. A project's file can neither raise nor remove a limit of the user's file."""

LOCKED_BY_LIMITS = {"gateway.models": "gateway.models", "gateway.prices": "gateway.budget_"}
"""Keys that a project's file cannot set if the user's file has a key with this prefix: a price of 0 lifts a budget."""

STRICTEST_FIRST: Mapping[str, tuple[tuple[object, ...], ...]] = {
    "gateway.type": (("builtin", "litellm"), ("auto",), ("none",)),
    "sandbox.type": (("docker",), ("local",)),
    "sandbox.network": (("none",), ("gateway",), ("open",)),
    "sandbox.writable": ((False,), (True,)),
    "sandbox.home": (("fresh",), ("auto",), ("own",)),
}
"""The values of keys in groups, the strictest first. A project's value must not be weaker than the user's, or than the
default."""


class AgentSettings(StrictModel):
    """Defaults for every agent."""

    timeout_ms: Milliseconds | None = None
    """The agent's time limit in milliseconds; overrides the general `timeout_ms`."""
    model: Line | None = None
    """The model of every agent without one in its test case."""


class EvaluatorSettings(StrictModel):
    """Options for all evaluators."""

    max_concurrent: Annotated[int, Field(gt=0, le=64)] = 4
    """How many evaluators may run at the same time."""


class Settings(StrictModel):
    """Settings (`.youbencharc`), which test cases override."""

    workspace_dir: Line = ".youbencha-workspace"
    """Where runs and their results are stored."""
    output_dir: Line = ".youbencha-eval"
    """Where `yb eval` writes its results."""
    cache_dir: Line | None = None
    """Where mirrors of repositories are kept. Defaults to your cache directory. Only valid in your own settings."""
    timeout_ms: Milliseconds = 300_000
    """The agent's time limit in milliseconds."""
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    """How much youBencha prints. `warn` and `error` hide the progress of `yb run` and `yb eval`."""
    keep_workspace: bool = True
    """Keep the agent's files after a run. False removes them and keeps the results."""
    variables: dict[VariableName, str | int | float | bool] = Field(default_factory=dict)
    """Values for ${NAME} in a test case."""
    agent: AgentSettings = AgentSettings.model_construct()
    """Defaults for every agent."""
    evaluators: EvaluatorSettings = EvaluatorSettings.model_construct()
    """Options for all evaluators."""
    gateway: Gateway = GatewaySpec.model_construct()
    """How agents reach their models: the default for test cases."""
    sandbox: Sandbox = SandboxSpec.model_construct()
    """Where agents run: the default for test cases."""

    @property
    def agent_timeout_s(self) -> float:
        return (self.agent.timeout_ms or self.timeout_ms) / 1000


class SettingsFiles(NamedTuple):
    """The settings files that exist."""

    user: Path | None
    project: Path | None
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """A file overrides those before it."""
        return tuple(file for file in (self.user, self.project) if file is not None)


class LoadedSettings(NamedTuple):
    settings: Settings
    cwd: Path
    home: Path
    files: tuple[Path, ...] = ()
    """A file overrides those before it."""
    origin: Mapping[str, Path] = MappingProxyType({})
    """The file of each value that is set, by its key (`agent.model`)."""
    warnings: tuple[str, ...] = ()

    @property
    def workspace_dir(self) -> Path:
        return self._resolved("workspace_dir", self.settings.workspace_dir)

    @property
    def output_dir(self) -> Path:
        return self._resolved("output_dir", self.settings.output_dir)

    @property
    def cache_dir(self) -> Path | None:
        """None: the user's cache directory."""
        return self._resolved("cache_dir", self.settings.cache_dir) if self.settings.cache_dir else None

    @property
    def gateway(self) -> GatewaySpec:
        """The gateway's settings with absolute paths."""
        spec = self.settings.gateway
        changes: dict[str, object] = {}
        if spec.secrets_file:
            changes["secrets_file"] = str(self._resolved("gateway.secrets_file", spec.secrets_file))
        if spec.cassette:
            directory = self._resolved("gateway.cassette.dir", spec.cassette.dir)
            changes["cassette"] = spec.cassette.model_copy(update={"dir": str(directory)})
        if spec.litellm.config_file:
            file = self._resolved("gateway.litellm.config_file", spec.litellm.config_file)
            changes["litellm"] = spec.litellm.model_copy(update={"config_file": str(file)})
        return spec.model_copy(update=changes) if changes else spec

    def _resolved(self, key: str, text: str) -> Path:
        """An absolute path. A relative one starts at the file that names it, a default in the current directory."""
        start = self.origin[key].parent if key in self.origin else self.cwd
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return start / text


def load_settings(cwd: Path | str, home: Path | str) -> LoadedSettings:
    """Load the settings for a directory. All problems in all files are one ConfigError."""
    cwd, home = Path(cwd).absolute(), Path(home).absolute()
    present = find_settings(cwd, home)
    if not present.files:
        return LoadedSettings(Settings.model_construct(), cwd, home, warnings=present.warnings)
    written = _read_all(present)
    merged: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for file, values in written.items():
        merged = _merge(_without_replaced_types(merged, values), values)
        origin |= {key: file for key, _ in leaves(values)}
    return LoadedSettings(Settings.model_validate(merged), cwd, home, present.files, origin, present.warnings)


def find_settings(cwd: Path, home: Path) -> SettingsFiles:
    warnings: list[str] = []
    user = settings_file_in(home, warnings)
    for directory in _project_directories(cwd, home):
        project = settings_file_in(directory, warnings)
        if project is not None and (directory == cwd or _is_trusted(project, cwd, warnings)):
            return SettingsFiles(user, project, tuple(warnings))
    return SettingsFiles(user, None, tuple(warnings))


def settings_file_in(directory: Path, warnings: list[str] | None = None) -> Path | None:
    present = [name for name in NAMES if os.path.lexists(directory / name)]
    if len(present) > 1 and warnings is not None:
        ignored = ", ".join(present[1:])
        warnings.append(f"{directory} has more than one settings file: {present[0]} is used, {ignored} is ignored")
    return directory / present[0] if present else None


def leaves(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values that are not mappings, with their dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _project_directories(cwd: Path, home: Path) -> list[Path]:
    """The current directory and those above it in its repository, none of which is the home directory or above it."""
    directories = project_directories(cwd)
    if home in directories:
        return [] if cwd == home else directories[:1]
    return directories


def _is_trusted(file: Path, cwd: Path, warnings: list[str]) -> bool:
    """Whether the file is the user's own: another user could put one above to have their commands run."""
    if not hasattr(os, "geteuid") or file.lstat().st_uid in (os.geteuid(), cwd.stat().st_uid):
        return True
    warnings.append(f"{file} belongs to another user and is ignored")
    return False


def _read_all(present: SettingsFiles) -> dict[Path, dict[str, Any]]:
    written: dict[Path, dict[str, Any]] = {}
    problems: list[Problem] = []
    for file in present.files:
        user_values = None if file == present.user else written.get(present.user, {}) if present.user else {}
        try:
            written[file] = read_settings(file, user_values)
        except ConfigError as error:
            problems += error.problems
    if problems:
        hint = "Fix them in the file, or one at a time with `yb config set` and `yb config unset`."
        raise ConfigError(CODE, "The settings", problems, hint=hint, verb="have")
    return written


def read_settings(file: Path, user_values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the validated values of one file, which may be empty or have only comments.

    For a project's file, `user_values` are the values of the user's file; for the user's file, it is None.
    """
    document = read_document(file, code=CODE, what=WHAT)
    if document.data is None:
        return {}
    values = document.validate_or_raise(Settings).model_dump(exclude_unset=True)
    refusals = {} if user_values is None else project_refusals(values, user_values)
    if refusals:
        hint = "set it in your own settings with `yb config set --global`"
        problems = [document.problem(key.split("."), reason, hint, at_key=True) for key, reason in refusals.items()]
        raise document.error(problems)
    return values


def project_refusals(values: Mapping[str, Any], user_values: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that a project's file must not set, or not to these values, each with the reason."""
    users = dict(leaves(user_values))
    return dict(refusal for key, value in leaves(values) if (refusal := _refusal(key, value, users)) is not None)


def _refusal(key: str, value: Any, users: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the refused key, or the part of it that the tables name, and the reason. `users` are the user's leaves."""
    if (listed := _matching_prefix(key, USER_ONLY_KEYS)) is not None:
        return listed, "is only valid in your own settings, not in those of a project"
    if key in STRICTEST_FIRST:
        group, _, name = key.partition(".")
        limit = users.get(key, getattr(GatewaySpec() if group == "gateway" else SandboxSpec(), name))
        if _weakness(key, value) > _weakness(key, limit):
            return key, f"cannot be weaker in a project's settings than in your own ({json.dumps(limit)})"
    limit = users.get(key)
    if key.startswith(LIMIT_PREFIXES) and limit is not None and (value is None or value > limit):
        return key, f"cannot be higher in a project's settings than in your own ({json.dumps(limit)})"
    listed = _matching_prefix(key, LOCKED_BY_LIMITS)
    if listed is not None and _has_limit(users, LOCKED_BY_LIMITS[listed]):
        return listed, "cannot be set by a project, because your own settings limit what may be spent"
    return None


def _matching_prefix(key: str, prefixes: Iterable[str]) -> str | None:
    return next((prefix for prefix in prefixes if f"{key}.".startswith(f"{prefix}.")), None)


def _has_limit(users: Mapping[str, Any], prefix: str) -> bool:
    return any(key.startswith(prefix) and value not in (None, ()) for key, value in users.items())


def _weakness(key: str, value: Any) -> int:
    return next(rank for rank, values in enumerate(STRICTEST_FIRST[key]) if value in values)


def _without_replaced_types(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `under` without keys that are only valid with a type of gateway or sandbox that `over` replaces."""
    kept = {name: dict(value) if isinstance(value, dict) else value for name, value in under.items()}
    types = {name: over.get(name, {}).get("type") for name in ("gateway", "sandbox")}
    if types["sandbox"] not in (None, SandboxSpec.model_validate(kept.get("sandbox", {})).type):
        kept.pop("sandbox", None)
    if types["gateway"] not in (None, "litellm"):
        kept.get("gateway", {}).pop("litellm", None)
    return kept


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key; replace everything else."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def write_settings(file: Path, text: str) -> None:
    """Write a settings file, through a link if it is one; permissions and line ends stay as they were."""
    target = file.resolve()
    exists = target.exists()
    data = text.encode("utf-8")
    if exists and b"\r\n" in target.read_bytes():
        data = data.replace(b"\n", b"\r\n")
    try:
        write_atomically(target, data, mode=target.stat().st_mode & 0o7777 if exists else None)
    except YouBenchaError as error:
        hint = "Check the file, its permissions and free disk space."
        raise YouBenchaError("SETTINGS_NOT_WRITABLE", error.message, hint=hint) from error


def json_template() -> str:
    """`TEMPLATE` in JSON, which has no comments: the defaults are set."""
    defaults = Settings()
    shown = defaults.model_dump(exclude_none=True, exclude={"gateway", "sandbox"})
    kinds = {"gateway": {"type": defaults.gateway.type}, "sandbox": {"type": defaults.sandbox.type}}
    return json.dumps({**shown, **kinds}, indent=2) + "\n"


TEMPLATE = """\
# Settings of youBencha. Remove the `# ` before a key to set it, or use `yb config set KEY VALUE`.
# A project's settings override those in your home directory; a test case's own override both.
# Relative paths start at this file. Settings that decide where keys are sent, or that weaken a sandbox, are only valid
# in your home directory.

# Where mirrors of repositories are kept; by default in your cache directory. Only valid in your own settings.
# cache_dir: ~/.cache/youbencha

# Where runs and their results are stored.
# workspace_dir: .youbencha-workspace

# Where `yb eval` writes its results.
# output_dir: .youbencha-eval

# How long an agent may work, in milliseconds.
# timeout_ms: 300000

# debug, info, warn or error.
# log_level: info

# false: the agent's files are removed after a run; its results stay.
# keep_workspace: true

# Values for ${NAME} in a test case. Keep secrets in the environment instead.
# variables:
#   TEAM: platform

# For every agent, unless a test case says otherwise.
# agent:
#   timeout_ms: 300000
#   model: sonnet

# How many evaluators may run at the same time.
# evaluators:
#   max_concurrent: 4

# How agents reach their models: auto, builtin, litellm or none. What a trial may spend, prices of your own models,
# where the keys are kept and more: docs/gateway.md.
# gateway:
#   type: auto

# Where agents run: local or docker. Which image, with how much memory and more: docs/sandboxes.md.
# sandbox:
#   type: local
"""
"""The settings file that `yb config init` writes: every setting with its default, commented out.

A value set in a project's file would hide the one in the user's.
"""
