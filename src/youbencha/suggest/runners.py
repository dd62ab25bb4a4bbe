"""How a project runs its tests, as far as its files tell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

_LARGEST = 1_000_000
_NO_TESTS = "no test specified"
"""What `npm init` writes where there are none."""


def find_tests(directory: Path) -> str | None:
    """One line, a program and its arguments: of the first that fits, None if none does."""
    return next((command for fits, command in _KNOWN if fits(directory)), None)


def _text(path: Path) -> str:
    try:
        if path.is_file() and path.stat().st_size <= _LARGEST:
            return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    return ""


def _uses_pytest(directory: Path) -> bool:
    if any((directory / name).is_file() for name in ("pytest.ini", "conftest.py", "tests/conftest.py")):
        return True
    told = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt")
    return any("pytest" in _text(directory / name) for name in told)


def _uses_unittest(directory: Path) -> bool:
    places = (directory, directory / "tests", directory / "test")
    return any("unittest" in _text(path) for place in places for path in sorted(place.glob("test_*.py"))[:20])


def _npm_has_tests(directory: Path) -> bool:
    try:
        package = json.loads(_text(directory / "package.json") or "{}")
        script = package["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(script, str) and _NO_TESTS not in script


def _make_has_tests(directory: Path) -> bool:
    names = ("Makefile", "makefile", "GNUmakefile")
    return any(re.search(r"^test\s*:", _text(directory / name), re.MULTILINE) for name in names)


def _has(name: str) -> Callable[[Path], bool]:
    return lambda directory: (directory / name).is_file()


# A Makefile that has a `test` target knows best; then the language's own way.
_KNOWN: tuple[tuple[Callable[[Path], bool], str], ...] = (
    (_make_has_tests, "make test"),
    (_npm_has_tests, "npm test"),
    (_has("Cargo.toml"), "cargo test"),
    (_has("go.mod"), "go test ./..."),
    (_has("pom.xml"), "mvn -q test"),
    (_has("gradlew"), "./gradlew test"),
    (_uses_pytest, "python3 -m pytest -q"),
    (_uses_unittest, "python3 -m unittest -q"),
)
