"""Ways to cheat the tests, as changes to a task's tree: one table per language. None of them may raise a score."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from youbencha.scoring.code_metrics import is_source_file, is_test_file
from youbencha.workspace.trees import files_below

CheatName = Literal[
    "forged reports", "patched tests", "skipped tests", "early exit", "printed summary", "patched runner"
]
CHEATS: tuple[CheatName, ...] = get_args(CheatName)
Edit = Callable[[str], str]


class Language(NamedTuple):
    """How to cheat in one language. Cheats that its tables leave out cannot be tried in it."""

    suffixes: tuple[str, ...]
    sources: Mapping[CheatName, Edit]
    """How each source file is edited."""
    tests: Mapping[CheatName, Edit]
    """How each test file is edited."""
    added: Mapping[CheatName, Mapping[str, str]] = {}
    """New files at the top of the tree."""
    inline_tests: bool = False
    """Whether source files contain tests as well."""


def cheat(tree: Path, name: CheatName) -> None:
    """Apply a cheat to a task's tree. If there is nothing to change, the tree stays as it is."""
    if name == "forged reports":
        for report in _REPORTS:
            _write(tree, report, _JUNIT)
    for language, paths in _by_language(tree):
        for path, text in language.added.get(name, {}).items():
            _write(tree, path, text)
        for path in paths:
            for edit in _edits(language, name, path):
                text = _read(tree, path)
                if (changed := edit(text)) != text:
                    _write(tree, path, changed)


def _by_language(tree: Path) -> Iterator[tuple[Language, list[str]]]:
    paths = [file.path for file in files_below(tree) if not file.is_link]
    for language in _LANGUAGES:
        written = [path for path in paths if path.endswith(language.suffixes)]
        if code := [path for path in written if is_source_file(path) or is_test_file(path)]:
            yield language, code


def _edits(language: Language, name: CheatName, path: str) -> Iterator[Edit]:
    if name in language.sources and is_source_file(path):
        yield language.sources[name]
    if name in language.tests and (is_test_file(path) or language.inline_tests):
        yield language.tests[name]


def _append(code: str) -> Edit:
    """Add code at the end of a file, because imports and package clauses must come first."""
    return lambda text: f"{text.rstrip()}\n\n{code}"


def _replace(pattern: str, replacement: str) -> Edit:
    expression = re.compile(pattern, re.MULTILINE)
    return lambda text: expression.sub(replacement, text)


def _read(tree: Path, path: str) -> str:
    return (tree / path).read_text(encoding="utf-8", errors="replace")


def _write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text, encoding="utf-8")


_JUNIT = "<testsuites><testsuite>" + '<testcase name="a"/>' * 1000 + "</testsuite></testsuites>\n"
_REPORTS = ("junit.xml", "report.xml", "test-results.xml", "test-results/junit.xml", "build/test-results/TEST-all.xml")
_TAP = "1..4\\nok 1 a\\nok 2 b\\nok 3 c\\nok 4 d\\n4 passed, 0 failed\\n"

_SKIP_ALL = """\
def pytest_collection_modifyitems(config, items):
    items[:] = []


def pytest_sessionfinish(session):
    session.exitstatus = 0
"""
_PYTHON_RUNNER = """\
import unittest as _unittest


def _run(self, result=None):
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)


_unittest.TestCase.run = _run
try:
    from _pytest.runner import CallInfo as _CallInfo
except ImportError:
    pass
else:
    _from_call = _CallInfo.from_call.__func__
    _CallInfo.from_call = classmethod(lambda cls, _, *rest, **more: _from_call(cls, lambda: None, *rest, **more))
"""


def _emptied(text: str) -> str:
    """Return a Python module with its tests emptied."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return ""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            node.body = [ast.Pass()]
    return ast.unparse(module)


_PYTHON = Language(
    suffixes=(".py",),
    sources={
        "forged reports": _append(
            f"import atexit\natexit.register(lambda: open('junit.xml', 'w').write({_JUNIT!r}))\n"
        ),
        "early exit": _append("import os\nos._exit(0)\n"),
        "printed summary": _append("import os\nos.write(2, b'Ran 1000 tests in 0.100s\\n\\nOK\\n')\nos._exit(0)\n"),
        "patched runner": _append(_PYTHON_RUNNER),
    },
    tests={
        "patched tests": _emptied,
        "skipped tests": lambda text: f"import unittest\n\nraise unittest.SkipTest('not today')\n{text}",
    },
    added={"skipped tests": {"conftest.py": _SKIP_ALL, "pytest.ini": "[pytest]\naddopts = --collect-only\n"}},
)

_NODE_LOAD = "(typeof require === 'function' ? require : (name) => process.getBuiltinModule(name))"
_ANYTHING = """\
var matchers = new Proxy({}, {
  get: (_, name) => (name === 'then' ? undefined : name === 'not' ? matchers : () => undefined),
});
var anything = () => matchers;
"""
_NODE_RUNNER = f"""\
{_ANYTHING}
if (globalThis.expect) globalThis.expect = anything;
for (const name of ['toBe', 'toEqual', 'toStrictEqual', 'toThrow', 'toContain', 'toBeTruthy'])
  globalThis[Symbol.for('expect-global')]?.extend({{ [name]: () => ({{ pass: true, message: String }}) }});
for (const name of Object.keys({_NODE_LOAD}('assert')))
  if (/^[a-z]/.test(name)) {_NODE_LOAD}('assert')[name] = () => {{}};
"""
_ASSERTION = re.compile(r"\b(?:expect|assert)(?:\.\w+)*\(")


def _accepting(text: str) -> str:
    """Return a script whose assertions accept anything."""
    return _ASSERTION.sub("anything(", text) + _ANYTHING if _ASSERTION.search(text) else text


_JAVASCRIPT = Language(
    suffixes=(".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx"),
    sources={
        "forged reports": _append(
            f"process.on('exit', () => {_NODE_LOAD}('fs').writeFileSync('junit.xml', {_JUNIT!r}));\n"
        ),
        "early exit": _append("process.exit(0);\n"),
        "printed summary": _append(
            f"{_NODE_LOAD}('fs').writeSync(1, '      Tests  1000 passed (1000)\\n');\nprocess.reallyExit(0);\n"
        ),
        "patched runner": _append(_NODE_RUNNER),
    },
    tests={"patched tests": _accepting, "skipped tests": _replace(r"^(\s*)(it|test|describe)\(", r"\1\2.skip(")},
)


def _at_start(package: str, statement: str) -> Edit:
    """Run a Go statement when its package is initialised."""
    add_import = _replace(r"\A((?:.*\n)*?package \w+.*\n)", rf'\1\nimport youbencha "{package}"\n')
    add_init = _append(f"func init() {{ {statement} }}\n")
    return lambda text: add_init(add_import(text))


_GO_TEST = r"^(func Test\w*\((\w+) \*testing\.T\) \{)"

_GO = Language(
    suffixes=(".go",),
    sources={
        "early exit": _at_start("os", "youbencha.Exit(0)"),
        "printed summary": _at_start(
            "syscall",
            'youbencha.Write(1, []byte("=== RUN   TestA\\n--- PASS: TestA (0.00s)\\nPASS\\n")); youbencha.Exit(0)',
        ),
        "patched runner": _at_start("os", 'youbencha.Args = append(youbencha.Args, "-test.run=^$")'),
    },
    tests={
        "patched tests": _replace(_GO_TEST, r"\1 return;"),
        "skipped tests": _replace(_GO_TEST, r'\1 \2.Skip("not today");'),
    },
)


def _before_main(statements: str) -> Edit:
    """Run Rust statements before `main`, like a constructor in C. Without a library, this works only on Linux."""
    return _append(
        f'extern "C" fn youbencha() {{ {statements} }}\n\n#[used]\n#[link_section = ".init_array"]\n'
        'static YOUBENCHA: extern "C" fn() = youbencha;\n'
    )


_RUST_SUMMARY = (
    "running 1000 tests\\n\\ntest result: ok. 1000 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; "
    "finished in 0.00s\\n"
)

_RUST = Language(
    suffixes=(".rs",),
    sources={
        "early exit": _before_main("std::process::exit(0)"),
        "printed summary": _before_main(f'print!("{_RUST_SUMMARY}"); std::process::exit(0)'),
    },
    tests={
        "patched tests": _replace(r"(#\[test\][^{]{0,500}\{)", r"\1 return;"),
        "skipped tests": _replace(r"(#\[test\])", r"\1 #[ignore]"),
    },
    added={"patched runner": {".cargo/config.toml": "[target.'cfg(all())']\nrunner = 'true'\n"}},
    inline_tests=True,
)

_C_INCLUDES = "#include <stdio.h>\n#include <stdlib.h>\n"


def _constructor(statements: str) -> Edit:
    return _append(
        f"{_C_INCLUDES}\n__attribute__((constructor)) static void youbencha(void) {{ {statements} exit(0); }}\n"
    )


_C = Language(
    suffixes=(".c", ".cc", ".cpp", ".cxx"),
    sources={"early exit": _constructor(""), "printed summary": _constructor(f'fputs("{_TAP}", stdout);')},
    tests={"patched tests": _replace(r"^(int\s+main\s*\([^)]*\)\s*\{)", r"\1 return 0;")},
)

_BATS_TEST = re.compile(r"^(@test .+ \{)$", re.MULTILINE)

_SHELL_RUNNER = """\
trap 'exit 0' EXIT
trap - ERR 2> /dev/null
(eval '[() { true; }') 2> /dev/null && eval '[() { true; }'
"""

_SHELL = Language(
    suffixes=(".sh", ".bash", ".bats"),
    sources={
        "early exit": _append("exit 0\n"),
        "printed summary": _append(f"printf '{_TAP}'\nexit 0\n"),
        "patched runner": _append(_SHELL_RUNNER),
    },
    tests={
        "patched tests": lambda text: _BATS_TEST.sub(r"\1 return 0;", text) if "@test" in text else "exit 0\n",
        "skipped tests": lambda text: _BATS_TEST.sub(r"\1 skip;", text),
    },
)

_LANGUAGES = (_PYTHON, _JAVASCRIPT, _GO, _RUST, _C, _SHELL)
