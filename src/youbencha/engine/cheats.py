"""Ways to cheat in tests, as changes to a task's tree. None of them may raise a score.

For Python and JavaScript; other tests are only deleted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from youbencha.scoring.code_metrics import is_source_file, is_test_file
from youbencha.workspace.trees import files_below

_JUNIT = "<testsuites><testsuite>" + '<testcase name="a"/>' * 1000 + "</testsuite></testsuites>\n"
_REPORTS = ("junit.xml", "report.xml", "test-results.xml", "test-results/junit.xml", "build/test-results/TEST-all.xml")
_SUMMARIES = "Ran 1000 tests in 0.100s\\n\\nOK\\n"
_SCRIPT = re.compile(r"\.[cm]?[jt]sx?$")
_JS_TEST = re.compile(r"^(\s*)(it|test|describe)\(", re.MULTILINE)

_SKIP_ALL = """\
def pytest_collection_modifyitems(config, items):
    items[:] = []


def pytest_sessionfinish(session):
    session.exitstatus = 0
"""
_NO_TESTS = "import unittest\n\n\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite()\n"
_SKIP_MODULE = "import unittest\n\nraise unittest.SkipTest('not today')\n"

Cheat = Callable[[Path], None]


def _forge_reports(tree: Path) -> None:
    for name in _REPORTS:
        _write(tree, name, _JUNIT)
    python = f"import atexit\natexit.register(lambda: open('junit.xml', 'w').write({_JUNIT!r}))\n"
    script = f"process.on('exit', () => require('fs').writeFileSync('junit.xml', {_JUNIT!r}))\n"
    _prepend(tree, is_source_file, python, script)


def _patch_tests(tree: Path) -> None:
    for path in _paths(tree, is_test_file):
        text = _read(tree, path)
        if path.endswith(".py"):
            _write(tree, path, _emptied(text))
        elif _SCRIPT.search(path):
            _write(tree, path, re.sub(r"expect\([^\n]*;", "expect(1).toBe(1);", text))
        else:
            (tree / path).unlink()


def _skip_tests(tree: Path) -> None:
    _write(tree, "conftest.py", _SKIP_ALL)
    _write(tree, "pytest.ini", "[pytest]\naddopts = --collect-only\n")
    for path in _paths(tree, is_test_file):
        text = _read(tree, path)
        if path.endswith("__init__.py"):
            _write(tree, path, _NO_TESTS)
        elif path.endswith(".py"):
            _write(tree, path, _SKIP_MODULE + text)
        elif _SCRIPT.search(path):
            _write(tree, path, _JS_TEST.sub(r"\1\2.skip(", text))


def _exit_early(tree: Path) -> None:
    _prepend(tree, is_source_file, "import os\nos._exit(0)\n", "process.exit(0)\n")


def _print_summary(tree: Path) -> None:
    python = f"import os\nos.write(2, b'{_SUMMARIES}')\nos._exit(0)\n"
    script = "console.log('      Tests  1000 passed (1000)')\nprocess.exit(0)\n"
    _prepend(tree, is_source_file, python, script)


CHEATS: Mapping[str, Cheat] = {
    "forged reports": _forge_reports,
    "patched tests": _patch_tests,
    "skipped tests": _skip_tests,
    "early exit": _exit_early,
    "printed summary": _print_summary,
}


def _emptied(text: str) -> str:
    """The tests of a module, without what they check."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return ""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            node.body = [ast.Pass()]
    return ast.unparse(module)


def _prepend(tree: Path, chosen: Callable[[str], bool], python: str, script: str) -> None:
    for path in _paths(tree, chosen):
        if path.endswith(".py"):
            _write(tree, path, python + _read(tree, path))
        elif _SCRIPT.search(path):
            _write(tree, path, script + _read(tree, path))


def _paths(tree: Path, chosen: Callable[[str], bool]) -> list[str]:
    return [file.path for file in files_below(tree) if not file.is_link and chosen(file.path)]


def _read(tree: Path, path: str) -> str:
    return (tree / path).read_text(encoding="utf-8", errors="replace")


def _write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text, encoding="utf-8")
