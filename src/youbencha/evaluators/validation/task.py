"""The task that a validation is about: its configuration, its commits, and the files that decide about its tests."""

from __future__ import annotations

import json
import os
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pydantic import Field

from youbencha.errors import YouBenchaError
from youbencha.evaluators.base import EvaluationContext, in_thread
from youbencha.evaluators.globs import Glob, GlobList
from youbencha.evaluators.validation.reports import Authorship
from youbencha.files import is_directory, read_nofollow, walk
from youbencha.scoring.code_metrics import is_runner_configuration, is_test_configuration, is_test_file
from youbencha.spec.arena import Canary, Env, GreenWeights, ValidationSpec, Weights
from youbencha.spec.base import Line
from youbencha.workspace import FileChange, Repository
from youbencha.workspace.changes import Entry
from youbencha.workspace.trees import remove_tree


class ValidationConfig(ValidationSpec):
    """Commands are lines of a shell, and run at the top of the tree."""

    image: Line | None = None
    """Container image for the modes `diff` and `separate`. Defaults to the agent's."""
    install_cmd: Line | None = None
    build_cmd: Line | None = None
    test_cmd: Line
    lint_cmd: Line | None = None
    validation_tag: Line | None = None
    """A tag, branch or commit. Its files that differ from what the agent started from are the hidden tests."""
    reference_tag: Line | None = None
    """A tag, branch or commit with a solution. The tests that it runs are the ones that count."""
    greenfield: bool = False
    """The task begins with nothing: the agent's own tests, their coverage, and the code's structure also count."""
    weights: Weights = Weights.model_construct()
    green_weights: GreenWeights = GreenWeights.model_construct()
    env: Env = Field(default_factory=dict)
    """`${NAME}` is taken from youBencha's environment. Without it, the commands get no secrets from there."""
    protected: GlobList = ()
    """Further files that are restored before tests that count."""
    reward: Line | None = None
    """File that `test_cmd` writes: a number from 0 to 1, or a flat JSON object with `reward` in it. It is the score of
    the tests, in place of what they report."""
    canary: Canary = "auto"
    """Test that must fail, added to check whether the test report can be trusted. `none` disables it."""

    @property
    def timeout_s(self) -> float:
        """The time limit of each command."""
        return self.timeout_minutes * 60

    @property
    def score_weights(self) -> Weights | GreenWeights:
        return self.green_weights if self.greenfield else self.weights


_SUBMODULE = "160000"
_MAX_CONFIGURATION_BYTES = 1024 * 1024
VENDORED = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", "vendor", ".tox", ".nox"})
"""Directories of other people's code, which an installation writes."""

_GO_TEST = "_test.go"
_CACHE = "__pycache__"
"""May contain compiled tests that Python runs in place of the real ones."""

_MAX_AUTHORED_TEXT = 32 * 1024 * 1024
"""Bytes of changed files that are searched for the names of tests."""

_SHELL_WORD = re.compile(r"[^\s;&|()<>'\"]+")
_SCRIPTS = ("", ".sh", ".bash", ".cmd", ".bat", ".ps1")
"""Suffixes of scripts that run tests. Other files that a command names may be the solution."""

_RECIPES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
}
"""The files that define what a program runs."""


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
    """The files of the validation commit that differ from the given ones."""
    solution: frozenset[str]
    """The other files that the reference solution adds, changes or deletes."""

    @classmethod
    async def open(cls, context: EvaluationContext, config: ValidationConfig) -> ValidationTask:
        repository = context.repository
        if repository is None:
            raise YouBenchaError(
                "VALIDATION_WITHOUT_REPOSITORY",
                "The evaluator `validation` needs the repository that the agent started from.",
                hint="Use it in a test case; for a directory (`yb eval`), use the evaluator `command`.",
            )
        validation = await repository.find(config.validation_tag) if config.validation_tag else None
        reference = await repository.find(config.reference_tag) if config.reference_tag else None
        near = context.scratch_dir / "commits"
        given = await repository.files_at(repository.commit, near)
        final = await repository.files_at(validation, near) if validation else given
        solved = await repository.files_at(reference, near) if reference else given
        hidden = [path for path, entry in final.items() if entry != given.get(path) and entry.mode != _SUBMODULE]
        return cls(
            repository=repository,
            config=config,
            validation=validation,
            reference=reference,
            given=given,
            hidden=tuple(hidden),
            solution=frozenset(
                path for path in {*given, *solved}.difference(hidden) if given.get(path) != solved.get(path)
            ),
        )

    @property
    def has_given_tests(self) -> bool:
        """Whether there are tests besides the agent's own."""
        return self.validation is not None or not self.config.greenfield

    @property
    def protected(self) -> list[str]:
        """The given files that are restored before tests that count.

        A file that the reference solution changes is part of the work, whatever it is called.
        """
        globs = tuple(map(Glob, self.config.protected))
        scripts = {path for path in self.command_words if Path(path).suffix in _SCRIPTS}
        return [
            path
            for path, entry in self.given.items()
            if entry.mode != _SUBMODULE
            and (
                any(glob.matches(path) for glob in globs)
                or (
                    path not in self.solution and (is_test_file(path) or is_test_configuration(path) or path in scripts)
                )
            )
        ]

    @property
    def recipes(self) -> frozenset[str]:
        """Names of files that say what the test command runs. They are not restored: a solution may change them."""
        return frozenset(name for word in self.command_words for name in _RECIPES.get(word, ()))

    @property
    def command_words(self) -> list[str]:
        return sorted({posixpath.normpath(word) for word in _SHELL_WORD.findall(self.config.test_cmd)})

    async def prepare_counting(self, tree: Path, changes: Iterable[FileChange]) -> PreparedTree:
        """Restore what decides about the tests, and add the hidden ones. Nothing may run in the tree meanwhile."""
        tree.mkdir(exist_ok=True)
        changed = [change.path for change in changes if change.kind != "deleted"]
        await in_thread(lambda _: self._remove_added(tree, changed))
        reconfigured = await self._restore_sections(tree)
        restored = self.protected
        await self.repository.write_files(self.repository.commit, restored, tree)
        if self.validation is not None:
            await self.repository.write_files(self.validation, self.hidden, tree)
        authored = sorted(set(changed).difference(self.hidden, restored))
        return PreparedTree(
            reconfigured=reconfigured,
            author=await in_thread(
                lambda _: Authorship(
                    files=frozenset(authored),
                    own_text=_texts(tree, authored),
                    given_text=_texts(tree, [*self.hidden, *restored]),
                )
            ),
            left_out=frozenset(path for path in authored if path not in self.given or is_test_file(path)),
            test_files=tuple(self._test_files(restored)),
        )

    def _remove_added(self, tree: Path, changed: Iterable[str]) -> None:
        """Remove what would run in place of the tests, or decide which of them run.

        A directory of the validation commit that the task did not have holds exactly what that commit has in it. Go
        compiles all `_test.go` files of a directory together, and nothing else uses them: those that were added beside
        tests that count are left out, because two tests of one name do not compile.
        """
        counting = {PurePosixPath(path).parent for path in (*self.hidden, *self.protected) if path.endswith(_GO_TEST)}
        for directory in self._owned_directories:
            remove_below(tree, directory)
        added = {path for path in changed if path not in self.given}
        for path in (added | set(_runner_configurations(tree))) - self.solution - self.given.keys():
            if is_runner_configuration(path) and (not self.config.greenfield or _is_hook(path)):
                remove_below(tree, path)
        for path in added:
            if path.endswith(_GO_TEST) and PurePosixPath(path).parent in counting:
                remove_below(tree, path)
        for cache in [entry.path for entry in _walk(tree) if entry.name == _CACHE and is_directory(entry)]:
            remove_tree(Path(cache))

    @property
    def _owned_directories(self) -> set[str]:
        given = {str(parent) for path in self.given for parent in PurePosixPath(path).parents}
        owned = set()
        for path in self.hidden:
            new = [str(parent) for parent in PurePosixPath(path).parents if str(parent) not in given]
            owned.update(new[-1:])
        return owned - {"."}

    def _test_files(self, restored: Iterable[str]) -> Iterator[str]:
        """Files with tests that count, the likeliest to be run by the test command first."""
        hidden = sorted(self.hidden, key=lambda path: (is_test_file(path), path), reverse=True)
        yield from dict.fromkeys((*hidden, *(path for path in self.command_words if path in self.given), *restored))

    async def _restore_sections(self, tree: Path) -> tuple[str, ...]:
        """Restore what files of a project say about its tests, and return their paths.

        In a greenfield task, the agent configures them.
        """
        given = [path for path in self.given if Path(path).name in _SECTIONS and path not in self.solution]
        added = [path for path in _SECTIONS if path not in self.given and path not in self.solution]
        with TemporaryDirectory(prefix="given-", dir=tree.parent) as directory:
            original = Path(directory)
            await self.repository.write_files(self.repository.commit, given, original)
            return await in_thread(
                lambda _: (
                    *(path for path in given if _restore(tree, original, path)),
                    *(path for path in added if not self.config.greenfield and _remove_sections(tree, path)),
                )
            )


class PreparedTree(NamedTuple):
    """A tree in which the tests that count can run."""

    reconfigured: tuple[str, ...]
    """The files of the project in which the configuration of the tests was restored."""
    author: Authorship
    left_out: frozenset[str]
    """The author's files in which no test counts."""
    test_files: tuple[str, ...]


def _pyproject(text: str) -> object:
    project = tomllib.loads(text)
    tools, points = project.get("tool", {}), project.get("project", {}).get("entry-points", {})
    sections = {name: tools.get(name) for name in ("pytest", "coverage", "tox")}
    return _drop_empty({**sections, "pytest11": points.get("pytest11")})


_PACKAGE_SECTIONS = ("jest", "vitest", "mocha", "ava", "nyc", "c8", "tap")


def _package(text: str) -> object:
    package = json.loads(text)
    sections = {name: package.get(name) for name in _PACKAGE_SECTIONS}
    return _drop_empty({**sections, "scripts": _test_scripts(package.get("scripts") or {})})


def _test_scripts(scripts: Mapping[str, object]) -> Mapping[str, object]:
    """Return scripts that are about tests, and those that they run."""
    names = [name for name in scripts if "test" in name]
    for name in names:  # which grows
        words = set(_SHELL_WORD.findall(str(scripts[name])))
        others = (script for script in scripts if script not in names)
        names += [script for script in others if script.removeprefix("pre").removeprefix("post") in words]
    return {name: scripts[name] for name in names}


def _setup(text: str) -> object:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    names = [name for name in parser.sections() if name.startswith(("tool:pytest", "coverage:"))]
    points = parser.get("options.entry_points", "pytest11", fallback=None)
    return _drop_empty({**{name: dict(parser[name]) for name in names}, "pytest11": points})


def _drop_empty(sections: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in sections.items() if value}


_SECTIONS: Mapping[str, Callable[[str], object]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "setup.cfg": _setup,
}
"""Readers of what files of a project configure for its tests. Only changed sections are restored."""


def _sections(tree: Path, path: str) -> object:
    try:
        text = read_nofollow(tree, path, _MAX_CONFIGURATION_BYTES).decode()
        return _SECTIONS[Path(path).name](text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, ConfigParserError, AttributeError, RecursionError) as error:
        return type(error)  # it is malformed, or not a file


def _restore(tree: Path, original: Path, path: str) -> bool:
    """Restore what a given file says about tests, if that was changed.

    In package.json, everything else stays: a program may not start without its own `type` and `exports`.
    """
    if _sections(tree, path) == _sections(original, path):
        return False
    text = (original / path).read_text(encoding="utf-8")
    if Path(path).name == "package.json":
        with suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):
            package = json.loads(read_nofollow(tree, path, _MAX_CONFIGURATION_BYTES))
            text = _with_test_sections(package, json.loads(text))
    remove_below(tree, path)
    if not os.path.lexists(tree / path):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    return True


def _with_test_sections(package: dict[str, Any], given: Mapping[str, Any]) -> str:
    """Return a package.json with the test sections of another."""
    for name in _PACKAGE_SECTIONS:
        package.pop(name, None)
    scripts, given_scripts = package.get("scripts") or {}, given.get("scripts") or {}
    kept = {name: line for name, line in scripts.items() if name not in _test_scripts(scripts)}
    tests = {name: given[name] for name in _PACKAGE_SECTIONS if name in given}
    return json.dumps({**package, **tests, "scripts": {**kept, **_test_scripts(given_scripts)}}, indent=2)


def _remove_sections(tree: Path, path: str) -> bool:
    """Remove a new file that configures tests and nothing else that a program needs."""
    is_configuration = path != "package.json" and os.path.lexists(tree / path) and bool(_sections(tree, path))
    if is_configuration:
        remove_below(tree, path)
    return is_configuration


def _is_hook(path: str) -> bool:
    """Whether pytest loads the file wherever it lies, so that it can change the hidden tests."""
    return PurePosixPath(path).name in ("conftest.py", "pytest.ini")


def _texts(tree: Path, paths: Iterable[str]) -> str:
    """Read files, as far as they can be read and are not too long."""
    texts, left = [], _MAX_AUTHORED_TEXT
    for path in paths:
        with suppress(OSError):
            text = read_nofollow(tree, path, min(left, _MAX_CONFIGURATION_BYTES)).decode(errors="replace")
            texts.append(text)
            left -= len(text)
    return "\n".join(texts)


def _runner_configurations(tree: Path) -> Iterator[str]:
    """Files of any origin, such as those that git ignores. Links are not followed."""
    for entry in _walk(tree):
        if is_runner_configuration(entry.name):
            yield os.path.relpath(entry.path, tree).replace(os.sep, "/")


def _walk(tree: Path) -> Iterator[os.DirEntry[str]]:
    """Walk a tree without other people's code."""
    return walk(os.fspath(tree), enter=lambda directory: directory.name not in VENDORED)


def remove_below(tree: Path, path: str) -> None:
    """Remove a file, unless it is behind a link, which the agent's programs may have put there."""
    target = tree / path
    parents = [tree / parent for parent in Path(path).parents]
    if not any(parent.is_symlink() for parent in parents if parent != tree):
        remove_tree(target)
