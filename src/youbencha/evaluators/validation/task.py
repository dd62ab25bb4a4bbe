"""The task that a validation is about: its commits, the files that decide about its tests, and the hidden tests."""

from __future__ import annotations

import json
import os
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

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

_SHELL_WORD = re.compile(r"[^\s;&|()<>'\"]+")
_SCRIPTS = ("", ".sh", ".bash", ".cmd", ".bat", ".ps1")
"""Suffixes of scripts that run tests. Other files that a command names may be the solution."""

_RECIPES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
}
"""What a program runs is in these files."""


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
        ] + [path for path in self._command_words if path in self.given and Path(path).suffix in _SCRIPTS]

    @property
    def recipes(self) -> frozenset[str]:
        """Names of files that say what the test command runs. They are not restored: a solution may change them."""
        return frozenset(name for word in self._command_words for name in _RECIPES.get(word, ()))

    @property
    def _command_words(self) -> list[str]:
        return sorted({posixpath.normpath(word) for word in _SHELL_WORD.findall(self.config.test_cmd)})

    async def prepare_counting(self, tree: Path, changes: Iterable[FileChange]) -> tuple[str, ...]:
        """Restore what decides about the tests, and add the hidden ones. Nothing may run in the tree meanwhile.

        Returns the files of a project that configured the tests in another way.
        """
        tree.mkdir(exist_ok=True)
        self._remove_added(tree, changes)
        reconfigured = await self._reconfigured(tree)
        added = [path for path in reconfigured if path not in self.given]
        for path in added:
            _remove_below(tree, path)
        restored = {*self.protected, *reconfigured}.difference(added)
        await self.repository.write_files(self.repository.commit, sorted(restored), tree)
        if self.validation is not None:
            await self.repository.write_files(self.validation, self.hidden, tree)
        return tuple(reconfigured)

    def _remove_added(self, tree: Path, changes: Iterable[FileChange]) -> None:
        for change in changes:
            if change.kind == "added" and self._is_agents_test(change.path):
                _remove_below(tree, change.path)
        for path in list(_planted(tree)):
            name = os.path.relpath(path, tree).replace(os.sep, "/")
            if Path(name).name in _CACHES or not self._is_given(name):
                remove_tree(path)

    async def _reconfigured(self, tree: Path) -> list[str]:
        """Files of a project in which the configuration of its tests was changed, and new ones that have one.

        In a greenfield task, the agent configures them.
        """
        given = [path for path in self.given if Path(path).name in _SECTIONS]
        added = [] if self.config.greenfield else [path for path in _SECTIONS if path not in self.given]
        original = Path(mkdtemp(prefix="given-", dir=tree.parent))
        if given:
            await self.repository.write_files(self.repository.commit, given, original)
        return await in_thread(
            lambda _: (
                [path for path in given if _sections(tree, path) != _sections(original, path)]
                + [path for path in added if os.path.lexists(tree / path) and _sections(tree, path)]
            )
        )

    def _is_agents_test(self, path: str) -> bool:
        """Whether an added file is a test. In a greenfield task, the agent chooses the tools and configures them."""
        return is_test_file(path) or (is_test_configuration(path) and not self.config.greenfield)

    def _is_given(self, name: str) -> bool:
        return any(path == name or path.startswith(f"{name}/") for path in self.given)


def _pyproject(text: str) -> object:
    project = tomllib.loads(text)
    tools, points = project.get("tool", {}), project.get("project", {}).get("entry-points", {})
    found = {name: tools.get(name) for name in ("pytest", "coverage", "tox")}
    return _present({**found, "pytest11": points.get("pytest11")})


def _package(text: str) -> object:
    package = json.loads(text)
    found = {name: package.get(name) for name in ("jest", "vitest", "mocha", "ava", "nyc", "c8", "tap")}
    return _present({**found, "scripts": _test_scripts(package.get("scripts") or {})})


def _test_scripts(scripts: Mapping[str, object]) -> Mapping[str, object]:
    """Scripts that are about tests, and those that they run."""
    names = [name for name in scripts if "test" in name]
    for name in names:  # which grows
        run = set(_SHELL_WORD.findall(str(scripts[name])))
        names += [
            each for each in scripts if each not in names and each.removeprefix("pre").removeprefix("post") in run
        ]
    return {name: scripts[name] for name in names}


def _setup(text: str) -> object:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    names = [name for name in parser.sections() if name.startswith(("tool:pytest", "coverage:"))]
    points = parser.get("options.entry_points", "pytest11", fallback=None)
    return _present({**{name: dict(parser[name]) for name in names}, "pytest11": points})


def _present(found: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in found.items() if value}


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
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, ConfigParserError, AttributeError, RecursionError) as error:
        return type(error)  # it is malformed, or not a file


def _planted(tree: Path) -> Iterator[Path]:
    """Caches, hooks and shadowed test runners, wherever a test run would find them. Links are not followed."""
    waiting = [os.fspath(tree)]  # not os.walk, which is recursive: an agent can nest directories deeply
    while waiting:
        folder = waiting.pop()
        at_top = folder == os.fspath(tree)
        for entry in _entries(folder):
            name = entry.name
            if name in VENDORED:
                continue
            if name in _CACHES or name in _HOOKS or (at_top and name.partition(".")[0] in _RUNNERS):
                yield Path(entry.path)
            if name not in _CACHES and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:  # it cannot be read, or its path is too long
        return []


def _remove_below(tree: Path, path: str) -> None:
    """Remove a file, unless it is behind a link, which the agent's programs may have put there."""
    target = tree / path
    parents = [tree / parent for parent in Path(path).parents]
    if not any(parent.is_symlink() for parent in parents if parent != tree):
        remove_tree(target)
