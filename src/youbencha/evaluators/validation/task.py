"""The task that a validation is about: its commits, the files that decide about its tests, and the hidden tests."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, in_thread
from youbencha.evaluators.globs import Glob
from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.files import read_untrusted
from youbencha.scoring.code_metrics import is_test_configuration, is_test_file
from youbencha.workspace import FileChange, Repository
from youbencha.workspace.diff import Entry
from youbencha.workspace.trees import remove_tree

_SUBMODULE = "160000"
_LARGEST_CONFIGURATION = 1024 * 1024
VENDORED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "vendor", ".tox", ".nox"})
"""Directories of other people's code, which an installation writes."""

_CACHES = frozenset({"__pycache__", ".pytest_cache"})
"""May contain compiled tests that Python runs in place of the real ones."""

_HOOKS = frozenset({"conftest.py", "pytest.ini", "sitecustomize.py", "usercustomize.py"})
"""Loaded by a test run wherever they are found, and so not left if they are new."""

_RUNNERS = frozenset({"pytest", "_pytest", "unittest", "coverage"})
"""Python prefers a module of these names in the current directory to the real one."""


@dataclass(frozen=True, kw_only=True)
class ValidationTask:
    repository: Repository
    config: ValidationConfig
    validation: str | None
    """The commit with the hidden tests."""
    reference: str | None
    """The commit with a solution."""
    given: Mapping[str, Entry]
    """The files that the agent started from."""
    hidden: tuple[str, ...]

    @classmethod
    async def open(cls, context: EvaluationContext, config: ValidationConfig) -> ValidationTask:
        repository = context.repository
        if repository is None:
            raise YouBenchaError(
                "VALIDATION_WITHOUT_REPOSITORY",
                "The evaluator validation needs the repository that the agent started from.",
                hint="Use it in a test case; for a directory (`yb eval`), use the evaluator command.",
            )
        near = context.scratch_dir / "commits"
        validation = await repository.find(config.validation_tag) if config.validation_tag else None
        given = await repository.files_of(repository.commit, near)
        final = await repository.files_of(validation, near) if validation else {}
        return cls(
            repository=repository,
            config=config,
            validation=validation,
            reference=await repository.find(config.reference_tag) if config.reference_tag else None,
            given=given,
            hidden=tuple(
                path for path, entry in final.items() if entry != given.get(path) and entry.mode != _SUBMODULE
            ),
        )

    @property
    def has_given_tests(self) -> bool:
        """Whether there are tests besides the agent's own."""
        return self.validation is not None or not self.config.greenfield

    @property
    def protected(self) -> list[str]:
        """The given files that are restored before tests that count."""
        globs = tuple(map(Glob, self.config.protected))
        return [
            path
            for path, entry in self.given.items()
            if entry.mode != _SUBMODULE
            and (is_test_file(path) or is_test_configuration(path) or any(glob.matches(path) for glob in globs))
        ]

    async def prepare_counting(self, tree: Path, changes: Iterable[FileChange]) -> None:
        """Restore what decides about the tests, and add the hidden ones. Nothing may run in the tree meanwhile."""
        self._remove_added(tree, changes)
        restored = [*self.protected, *await self._reconfigured(tree)]
        await self.repository.write_files(self.repository.commit, restored, tree)
        if self.validation is not None:
            await self.repository.write_files(self.validation, self.hidden, tree)

    def _remove_added(self, tree: Path, changes: Iterable[FileChange]) -> None:
        for change in changes:
            if change.kind == "added" and self._is_agents_test(change.path):
                _remove_below(tree, change.path)
        for path in list(_planted(tree)):
            name = os.path.relpath(path, tree).replace(os.sep, "/")
            if Path(name).name in _CACHES or not self._is_given(name):
                remove_tree(path)

    async def _reconfigured(self, tree: Path) -> list[str]:
        """Given files of a project in which the configuration of its tests was changed."""
        paths = [path for path in self.given if Path(path).name in _SECTIONS]
        if not paths:
            return []
        original = tree.with_name("given")
        original.mkdir()
        await self.repository.write_files(self.repository.commit, paths, original)
        return await in_thread(lambda _: [path for path in paths if _sections(tree, path) != _sections(original, path)])

    def _is_agents_test(self, path: str) -> bool:
        """Whether an added file is a test. In a greenfield task, the agent chooses the tools and configures them."""
        return is_test_file(path) or (is_test_configuration(path) and not self.config.greenfield)

    def _is_given(self, name: str) -> bool:
        return any(path == name or path.startswith(f"{name}/") for path in self.given)


def _pyproject(text: str) -> object:
    tools = tomllib.loads(text).get("tool")
    return {name: tools.get(name) for name in ("pytest", "coverage", "tox")} if isinstance(tools, dict) else None


def _package(text: str) -> object:
    package = json.loads(text)
    scripts = package.get("scripts") or {}
    tools = [package.get(name) for name in ("jest", "vitest", "mocha", "ava", "nyc", "c8", "tap")]
    return tools, {name: line for name, line in scripts.items() if "test" in name}


def _setup(text: str) -> object:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections() if name.startswith(("tool:pytest", "coverage:"))}


_SECTIONS: Mapping[str, Callable[[str], object]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "setup.cfg": _setup,
}
"""What files of a project say about its tests. They are restored only if that was changed: they have more in them."""


def _sections(tree: Path, path: str) -> object:
    try:
        text = read_untrusted(tree, path, _LARGEST_CONFIGURATION).decode()
        return _SECTIONS[Path(path).name](text)
    except (OSError, ValueError, ConfigParserError, AttributeError, RecursionError) as error:
        return type(error)  # it is missing or malformed


def _planted(tree: Path) -> Iterator[Path]:
    """Caches, hooks and shadowed test runners, wherever a test run would find them. Links are not followed."""
    for folder, directories, files in os.walk(tree):
        at_top = folder == os.fspath(tree)
        directories[:] = [name for name in directories if name not in VENDORED]
        for name in (*directories, *files):
            if name in _CACHES or name in _HOOKS or (at_top and name.partition(".")[0] in _RUNNERS):
                yield Path(folder, name)
        directories[:] = [name for name in directories if name not in _CACHES]


def _remove_below(tree: Path, path: str) -> None:
    """Remove a file, unless it is behind a link, which the agent's programs may have put there."""
    target = tree / path
    parents = [tree / parent for parent in Path(path).parents]
    if not any(parent.is_symlink() for parent in parents if parent != tree):
        remove_tree(target)
