"""Patterns for paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from youbencha.evaluators.globs import Glob, GlobText, PathFilter


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a.py", "a.py", "src/a.py"),
        ("*.py", "a.py", "src/a.py"),
        ("**/*.py", "a.py src/a.py src/b/c.py", "a.pyc src/a.txt"),
        ("src/**", "src/a src/b/c", "source/a a/src/b"),
        ("src/**/*.ts", "src/a.ts src/b/c/d.ts", "a.ts src/a.js"),
        ("src/*", "src/a", "src/a/b"),
        ("docs", "docs docs/a docs/b/c", "docs2/a my/docs/a"),
        ("docs/", "docs/a docs/b/c", "docs2/a"),
        ("./docs/a.md", "docs/a.md", "docs/b.md"),
        ("/docs/a.md", "docs/a.md", "docs/b.md"),
        ("**/node_modules", "node_modules/a x/node_modules/b/c", "x/modules/b"),
        ("**/tests/**/*.py", "tests/a.py a/tests/b/c.py", "tests/a.txt a.py"),
        ("*.{ts,tsx}", "a.ts a.tsx", "a.js a.{ts,tsx}"),
        ("{src,lib}/**/*.{a,b}", "src/x.a lib/y/z.b", "src/x.c bin/x.a"),
        ("file[0-9].txt", "file1.txt", "fileA.txt file10.txt"),
        ("?.txt", "a.txt", "ab.txt .txt/a"),
        (".github/**", ".github/workflows/ci.yml", "github/a"),
        ("**", "a a/b .hidden/c", ""),
        ("A.py", "A.py", "a.py"),
    ],
)
def test_matching(pattern: str, yes: str, no: str) -> None:
    glob = Glob(pattern)
    assert [path for path in yes.split() if not glob.matches(path)] == []
    assert [path for path in no.split() if glob.matches(path)] == []


@pytest.mark.parametrize("wrong", ["", "/", ".", "../a", "a/../b", "src/**.py", "**a/b", "{a,b,c,d}" * 6])
def test_invalid_patterns(wrong: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(GlobText).validate_python(wrong)


def test_many_stars_against_a_long_path() -> None:
    """Each name is looked at once for each part of the pattern; by trying all ways this would take for ever."""
    assert not Glob("/".join(["**", "a*a*a*a*b"] * 20)).matches("/".join(["a" * 200] * 200))


_NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name.strip("."))
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)


@given(_PATHS, _PATHS)
def test_a_path_matches_itself_and_everything_below(path: str, below: str) -> None:
    assert Glob(path).matches(path)
    assert Glob(path).matches(f"{path}/{below}")
    assert Glob(f"**/{below}").matches(f"{path}/{below}")


def test_a_filter() -> None:
    paths = ["a.py", "b.md", "src/a.py", "src/gen/b.py"]
    assert [p for p in paths if PathFilter().matches(p)] == paths
    assert [p for p in paths if PathFilter.of(["src"], ["src/gen"]).matches(p)] == ["src/a.py"]
    assert [p for p in paths if PathFilter.of([], ["**/*.py"]).matches(p)] == ["b.md"]
