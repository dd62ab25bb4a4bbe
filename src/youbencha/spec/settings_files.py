"""Settings from their files: a project's over a person's over the defaults.

The person's file lies in the home directory. The project's lies in the current directory or, inside a git repository,
in the nearest one above it up to the repository's root. Outside of a repository nothing above is looked at: there it
would be somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from youbencha.errors import ConfigError, Problem
from youbencha.spec.gateway import GatewaySpec
from youbencha.spec.settings import Settings

NAMES = (
    ".youbencharc",
    ".youbencharc.yaml",
    ".youbencharc.yml",
    ".youbencharc.json",
    ".youbencha.yaml",
    ".youbencha.yml",
    ".youbencha.json",
)
"""If a directory holds several, the first of these counts."""

CODE, WHAT = "SETTINGS_INVALID", "The settings file"


class Found(NamedTuple):
    """Which files there are; None where there is none."""

    user: Path | None
    project: Path | None
    warnings: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The stronger ones last."""
        return tuple(file for file in (self.user, self.project) if file is not None)


class LoadedSettings(NamedTuple):
    settings: Settings
    cwd: Path
    home: Path
    files: tuple[Path, ...] = ()
    """The stronger ones last."""
    origin: Mapping[str, Path] = MappingProxyType({})
    """Which file a value is from, by its key: `agent.model`. What is missing here is a default."""
    warnings: tuple[str, ...] = ()

    @property
    def workspace_dir(self) -> Path:
        return self._resolved("workspace_dir", self.settings.workspace_dir)

    @property
    def output_dir(self) -> Path:
        return self._resolved("output_dir", self.settings.output_dir)

    @property
    def cache_dir(self) -> Path | None:
        """None: the system's place for caches."""
        return self._resolved("cache_dir", self.settings.cache_dir) if self.settings.cache_dir else None

    @property
    def gateway(self) -> GatewaySpec:
        """As the settings have it, with absolute paths: a test case knows nothing of where they were written."""
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
        """Absolute. A relative path starts at the file that names it, a default one where we are."""
        start = self.origin[key].parent if key in self.origin else self.cwd
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return start / text


def load_settings(cwd: Path, home: Path) -> LoadedSettings:
    """What holds here. Everything that is wrong in any of the files is one ConfigError."""
    cwd, home = cwd.absolute(), home.absolute()
    found = find_settings(cwd, home)
    if not found.files:
        return LoadedSettings(Settings.model_construct(), cwd, home, warnings=found.warnings)
    written = _read_all(found.files)
    merged: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for file, values in written.items():
        merged = _merged(merged, values)
        origin |= dict.fromkeys(flat(values), file)
    return LoadedSettings(Settings.model_validate(merged), cwd, home, found.files, origin, found.warnings)


def find_settings(cwd: Path, home: Path) -> Found:
    warnings: list[str] = []
    user = settings_file_in(home, warnings)
    for directory in _project_directories(cwd, home):
        project = settings_file_in(directory, warnings)
        if project is not None and (directory == cwd or _is_trusted(project, cwd, warnings)):
            return Found(user, project, tuple(warnings))
    return Found(user, None, tuple(warnings))


def settings_file_in(directory: Path, warnings: list[str] | None = None) -> Path | None:
    present = [name for name in NAMES if os.path.lexists(directory / name)]
    if len(present) > 1 and warnings is not None:
        ignored = ", ".join(present[1:])
        warnings.append(f"{directory} holds more than one settings file: {present[0]} counts, not {ignored}")
    return directory / present[0] if present else None


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The dotted keys of everything in it that is not a mapping itself."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def _project_directories(cwd: Path, home: Path) -> list[Path]:
    """From here up to the root of the repository. The home directory is no project, even if it is a repository."""
    above: list[Path] = []
    for directory in (cwd, *cwd.parents):
        if directory == home:
            break
        above.append(directory)
        if (directory / ".git").exists():
            return above
    return above[:1]


def _is_trusted(file: Path, cwd: Path, warnings: list[str]) -> bool:
    """In a directory above, another user of this machine may have put it there, to have commands of theirs run."""
    if not hasattr(os, "geteuid") or file.lstat().st_uid in (os.geteuid(), cwd.stat().st_uid):
        return True
    warnings.append(f"{file} belongs to another user and is not read")
    return False


def _read_all(files: tuple[Path, ...]) -> dict[Path, dict[str, Any]]:
    written: dict[Path, dict[str, Any]] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            written[file] = read_settings(file)
        except ConfigError as error:
            problems += error.problems
    if problems:
        hint = "Mend them in the file, or one at a time with `yb config set` and `yb config unset`."
        raise ConfigError(CODE, "The settings", problems, hint=hint, verb="have")
    return written


def read_settings(file: Path) -> dict[str, Any]:
    """What one file says, checked. One that says nothing, or only comments, is a good one."""
    from youbencha.spec.source import read_source

    source = read_source(file, code=CODE, what=WHAT)
    if source.data is None:
        return {}
    return source.validated(Settings).model_dump(exclude_unset=True)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings key by key, everything else whole."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
