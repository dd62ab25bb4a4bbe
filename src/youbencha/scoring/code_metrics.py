"""Score how code is divided into files, and tell which files are source, tests, their configuration, and reports.

A path is relative to the tree, with forward slashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class SourceFile(NamedTuple):
    path: str
    lines: int


_SOURCE_FILE_POINTS = ((3, 0.4), (2, 0.3), (1, 0.1))
"""The points for at least so many source files."""
_TEST_FILE_POINTS = ((3, 0.3), (1, 0.2))
_MAX_LINES_POINTS = ((200, 0.3), (500, 0.2), (800, 0.1))
"""The points if the longest source file has at most so many lines."""

_SOURCE_SUFFIXES = frozenset(
    (
        *(".py", ".pyx", ".rb", ".php", ".pl", ".pm", ".lua", ".r", ".jl", ".sh", ".bash", ".ps1"),
        *(".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte"),
        *(".go", ".rs", ".zig", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".m", ".mm", ".swift", ".nim"),
        *(".java", ".kt", ".kts", ".scala", ".groovy", ".clj", ".cs", ".fs", ".vb", ".dart"),
        *(".ex", ".exs", ".erl", ".hs", ".ml", ".elm", ".bats", ".t"),
    )
)
_NOT_WRITTEN = frozenset(
    (
        *("node_modules", "bower_components", "vendor", "third_party", "dist", "build", "target", "htmlcov"),
        *("__pycache__", "site-packages", ".git", ".venv", "venv", ".tox", ".nox", ".next", ".cache"),
    )
)
"""Directories of files that were not written by hand."""

_TEST_DIRECTORIES = frozenset(("test", "tests", "__tests__", "__snapshots__", "__mocks__", "testdata"))
_TEST_DIRECTORIES_AT_TOP = frozenset(("spec", "specs", "e2e", "t", "cypress"))
"""Only there: `src/spec/` may be source."""

_TEST_NAME = re.compile(
    r"test_[^/]*\.py|[^/]*_tests?\.py|tests?\.py"
    r"|[^/]*[._-](?:test|spec|cy|e2e)\.[cm]?[jt]sx?|tests?\.[cm]?[jt]sx?|test[_-][^/]*\.[cm]?[jt]sx?"
    r"|[^/]*_test\.(?:go|rs|rb|exs|dart|c|cc|cpp|php|lua|sh)|test_[^/]*\.(?:rb|c|cc|cpp|lua|sh|jl)"
    r"|[^/]*_spec\.(?:rb|lua)|tests?\.(?:rs|sh)"
    r"|(?:[^/]*(?:Tests?|TestCase|[a-z]IT)|Test[A-Z][^/]*)\.(?:java|kt|scala|groovy|cs|fs|php|swift)"
    r"|[^/]*Spec\.(?:scala|groovy)|[^/]*\.(?:bats|snap)"
)
_TEST_CONFIGURATION = re.compile(
    r"conftest\.py|\.?pytest\.(?:ini|toml)|tox\.(?:ini|toml)|noxfile\.py|\.coveragerc|sitecustomize\.py|usercustomize\.py"
    r"|(?:jest|vitest|karma|playwright|cypress|ava|wdio|nightwatch)\.(?:config|workspace|conf)(?:\.\w+)*\.\w+"
    r"|(?:jest|vitest|tests?)[.-]?setup\.[cm]?[jt]sx?|setup[.-]?(?:jest|vitest|tests?)\.[cm]?[jt]sx?"
    r"|\.mocharc(?:\.\w+)?|mocha\.opts|\.taprc|\.nycrc(?:\.\w+)?|\.c8rc(?:\.\w+)?|\.rspec|nextest\.toml"
    r"|phpunit\.xml(?:\.dist)?",
    re.IGNORECASE,
)
_RUNNER_CONFIGURATION = re.compile(
    r"conftest\.py|\.?pytest\.(?:ini|toml)|tox\.ini|\.mocharc(?:\.\w+)?|mocha\.opts|\.taprc|\.rspec|nextest\.toml"
    r"|(?:jest|vitest|karma|playwright|cypress|ava|wdio|nightwatch)\.(?:config|workspace|conf)(?:\.\w+)*\.\w+"
    r"|phpunit\.xml(?:\.dist)?",
    re.IGNORECASE,
)
_REPORT_NAME = re.compile(
    r"[^/]*junit[^/]*\.xml|TEST-[^/]*\.xml|(?:py)?test[_-]?(?:results?|reports?|output)(?:[_.-][^/]*)?\.(?:xml|json|tap|trx)"
    r"|results?\.xml|coverage(?:-summary|-final)?\.(?:json|xml|out|lcov)|cobertura[^/]*\.xml|clover\.xml|jacoco[^/]*\.xml"
    r"|lcov\.info|[^/]*\.lcov|\.coverage(?:\.(?!py$)[^/]*)?|cover(?:age)?\.out|\.last-run\.json",
    re.IGNORECASE,
)
_REPORT_DIRECTORIES = frozenset(
    ("coverage", "htmlcov", ".nyc_output", "test-results", "test_results", "test-reports", "surefire-reports")
)
_REPORT_SUFFIXES = (".xml", ".json", ".info", ".html", ".out", ".tap")


def code_metrics_score(files: Iterable[SourceFile]) -> float:
    """Score by the number of source files, the length of the largest, and the number of test files."""
    files = tuple(files)
    source = [file.lines for file in files if is_source_file(file.path)]
    tests = sum(_is_test_code(file.path) for file in files)
    for_source = next((points for least, points in _SOURCE_FILE_POINTS if len(source) >= least), 0.0)
    for_tests = next((points for least, points in _TEST_FILE_POINTS if tests >= least), 0.0)
    for_length = next((points for most, points in _MAX_LINES_POINTS if source and max(source) <= most), 0.0)
    return round(for_source + for_tests + for_length, 9)


def is_source_file(path: str) -> bool:
    """Whether a file is code that somebody wrote, and neither a test nor the configuration of tests."""
    return _is_code(path) and not is_test_file(path) and not is_test_configuration(path)


def is_test_file(path: str) -> bool:
    """Whether a file is a test, or belongs to tests: data and snapshots in their directories."""
    *directories, name = path.split("/")
    return (
        not _TEST_DIRECTORIES.isdisjoint(directories)
        or not _TEST_DIRECTORIES_AT_TOP.isdisjoint(directories[:1])
        or _TEST_NAME.fullmatch(name) is not None
    )


def is_test_configuration(path: str) -> bool:
    """Whether a file is for nothing but deciding which tests run, and how.

    `pyproject.toml` and `package.json` are not among them: they also have the dependencies of a solution. A task can
    list them as `protected`.
    """
    return _TEST_CONFIGURATION.fullmatch(path.rpartition("/")[2]) is not None


def is_runner_configuration(path: str) -> bool:
    """Whether a test runner loads a file by its name, and the file decides which tests it collects."""
    return _RUNNER_CONFIGURATION.fullmatch(path.rpartition("/")[2]) is not None


def is_report_file(path: str) -> bool:
    """Whether a file looks like what a test run writes: JUnit XML, coverage, results."""
    *directories, name = path.split("/")
    below = not _REPORT_DIRECTORIES.isdisjoint(directories) and name.endswith(_REPORT_SUFFIXES)
    return below or _REPORT_NAME.fullmatch(name) is not None


def _is_code(path: str) -> bool:
    *directories, name = path.split("/")
    stem, dot, suffix = name.rpartition(".")
    return bool(stem) and dot + suffix.lower() in _SOURCE_SUFFIXES and _NOT_WRITTEN.isdisjoint(directories)


def _is_test_code(path: str) -> bool:
    is_test = is_test_file(path) and not is_test_configuration(path) and not path.endswith("__init__.py")
    return is_test and _is_code(path)
