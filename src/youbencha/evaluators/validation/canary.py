"""Add a canary: a test with a random name that must fail. If it does not, the test report cannot be believed.

It is added to a file of the task's own tests, so that the same command runs it, beside one that must pass. Whatever
empties a loader, patches results, prints a summary or exits early thus shows itself, in any language.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from youbencha.evaluators.validation.reports import RunReports
from youbencha.files import read_nofollow
from youbencha.scoring.runner_results import TestResult
from youbencha.spec.arena import CanarySpec
from youbencha.workspace.trees import remove_tree

_MAX_TEST_FILE = 4 * 1024 * 1024
MAX_CANDIDATES = 4
"""Each costs a run of the tests, for the untouched task or the reference solution."""
MAX_FILES = 500
"""More files do not get a canary."""

_PYTHON = """


class zz_{name}(__import__("unittest").TestCase):
    def test_{name}_passes(self):
        pass

    def test_{name}_fails(self):
        def plain():
            assert 1 == 2

        equal, true, member = self.assertEqual, self.assertTrue, self.assertIn
        for check in (plain, lambda: equal(1, 2), lambda: true(False), lambda: member(1, [])):
            try:
                check()
            except AssertionError:
                continue
            return
        self.fail("youBencha's canary: this test must fail")
"""
_JAVASCRIPT = """
{imports}
{test}("{name}_passes", () => {{}});
{test}("{name}_fails", () => {{
  const checks = [];
  // @ts-ignore
  if (typeof expect === "function" && expect(1).toBe) checks.push(() => expect(1).toBe(2));
  // @ts-ignore
  if (typeof expect === "function" && expect(1).to) checks.push(() => expect(1).to.equal(2));
  // @ts-ignore
  if (typeof assert !== "undefined" && assert.strictEqual) checks.push(() => assert.strictEqual(1, 2));
  for (const check of checks) {{
    let caught = false;
    try {{ check(); }} catch {{ caught = true; }}
    if (!caught) return;
  }}
  throw new Error("youBencha's canary: this test must fail");
}});
"""
"""An assertion that must fail and does not lets the test pass, which shows it: the assertions of the file are tried."""

_GO = """

func Test_{name}_passes(t *testing.T) {}

func Test_{name}_fails(t *testing.T) { t.Fatal("youBencha's canary: this test must fail") }
"""
_RUST = """

#[test]
fn {name}_passes() {}

#[test]
fn {name}_fails() {
    panic!("youBencha's canary: this test must fail")
}
"""
_BATS = """

@test "{name}_passes" { true; }

@test "{name}_fails" { [ 1 = 2 ]; }
"""
_C_BEGINNING = "#define main main_{name}\n"
_C_END = """
#undef main
int main(int argc, char **argv) {
    ((int (*)(int, char **))main_{name})(argc, argv);
    return 1;
}
"""


def _javascript(imports: str = "", test: str = "(typeof it === 'function' ? it : test)") -> str:
    return _JAVASCRIPT.format(imports=imports, test=test, name="{name}")


class CanaryTemplate(NamedTuple):
    """The way to add a canary to a file of tests."""

    paths: str
    """A pattern of the paths to which it can be added."""
    contains: str
    """A pattern of what such a file contains."""
    text: str
    """The text to add at the end, or before the line that `ahead_of` matches."""
    ahead_of: str = r"\Z"
    beginning: str = ""
    """The text to add at the beginning."""


_SCRIPTS = r".*\.[cm]?[jt]sx?"
_MAIN = r"^if __name__\b|\Z"
_LAST_EXIT = r"^exit\b[^\n]*\s*\Z|\Z"
_SHELL = "\nexit 1\n"
TEMPLATES = (
    CanaryTemplate(r".*\.py", r"\bdef test|\bunittest\b", _PYTHON, _MAIN),
    CanaryTemplate(r".*_test\.go", r"\*testing\.T\b", _GO),
    CanaryTemplate(r"(?:.*/)?tests/.*\.rs", r"#\[test\]", _RUST),
    CanaryTemplate(r".*\.bats", r"@test\b", _BATS),
    CanaryTemplate(
        _SCRIPTS,
        r"""from ['"]vitest['"]""",
        _javascript('import { test as {name}_test } from "vitest";', "{name}_test"),
    ),
    CanaryTemplate(
        _SCRIPTS,
        r"""from ['"](?:node:)?test['"]""",
        _javascript('import { test as {name}_test } from "node:test";', "{name}_test"),
    ),
    CanaryTemplate(
        _SCRIPTS,
        r"""require\(['"](?:node:)?test['"]\)""",
        _javascript('const {name}_test = require("node:test").test;', "{name}_test"),
    ),
    CanaryTemplate(_SCRIPTS, r"\b(?:it|test)\b", _javascript()),
    CanaryTemplate(r".*\.c", r"\bmain\s*\(", _C_END, beginning=_C_BEGINNING),
    CanaryTemplate(r".*\.py", "", '\n\nraise SystemExit("{name} must fail")\n', _MAIN),
    CanaryTemplate(r".*\.(?:sh|bash)", "", _SHELL, _LAST_EXIT),
    CanaryTemplate(r"(?:.*/)?[^./]+", r"\A#!.*sh\b", _SHELL, _LAST_EXIT),
)
"""The first that fits a file is used. The tests of the last four only exit with another code than 0."""


@dataclass(frozen=True, kw_only=True)
class CanaryFile:
    """A file to which a canary is added."""

    path: str
    """Relative to the tree."""
    template: CanaryTemplate
    is_new: bool = False

    @contextmanager
    def written(self, tree: Path, name: str) -> Iterator[None]:
        """Add the canary to a tree, while its tests run."""
        target = tree / self.path
        original = b"" if self.is_new else read_nofollow(tree, self.path, _MAX_TEST_FILE)
        mode = 0o644 if self.is_new else stat.S_IMODE(target.stat().st_mode)
        remove_tree(target)  # neither a link nor a hard link gets what is written
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._with_canary(original.decode(), name), encoding="utf-8")
        target.chmod(mode)
        # Python takes a compiled file for current if the source has the same size and second, as two canaries may have.
        remove_tree(target.parent / "__pycache__")
        try:
            yield
        finally:
            remove_tree(target)
            if not self.is_new:
                target.write_bytes(original)
                target.chmod(mode)

    def _with_canary(self, text: str, name: str) -> str:
        place = re.search(self.template.ahead_of, text, re.MULTILINE)
        at = place.start() if place else len(text)
        beginning, canary = (part.replace("{name}", name) for part in (self.template.beginning, self.template.text))
        return f"{beginning}{text[:at]}{canary}{text[at:]}"


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A way to add a canary to a task, which was seen to fail without an agent."""

    files: tuple[CanaryFile, ...]
    """Each gets one: a test runner may run each in a process of its own, which can be forged alone."""
    by_name: bool = True
    """Whether it is reported as a failed test. If not, the command only exits with another code than 0."""
    fails_command: bool = True
    """Whether the command exits with another code than 0 because of it."""
    in_same_run: bool = False
    """Whether the other tests end as they do without it. If not, it gets a run of its own."""

    @contextmanager
    def written(self, tree: Path, name: str) -> Iterator[None]:
        """Add the canary to a tree, while its tests run."""
        with ExitStack() as stack:
            for file, numbered in zip(self.files, self.names(name), strict=True):
                stack.enter_context(file.written(tree, numbered))
            yield

    def lost_files(self, tree: Path) -> list[str]:
        """Files that are no longer text, or not there, so that nothing can be added to them."""
        return [file.path for file in self.files if not file.is_new and _text(tree, file.path) is None]

    def names(self, name: str) -> list[str]:
        """Return its name in each file."""
        return [f"{name}_{number:04}" for number in range(len(self.files))]


def random_name() -> str:
    return f"canary_{os.urandom(6).hex()}"


def candidates(
    tree: Path, paths: Iterable[str], configured: CanarySpec | Literal["auto", "none"]
) -> Iterator[CanaryFile]:
    """Yield the files of a tree to which a canary can be added."""
    if isinstance(configured, CanarySpec):
        template = CanaryTemplate("", "", configured.text)
        is_new = not os.path.lexists(tree / configured.file)
        yield CanaryFile(path=configured.file, template=template, is_new=is_new)
    elif configured == "auto":
        for path in paths:
            if fitting := _template(path, _text(tree, path)):
                yield CanaryFile(path=path, template=fitting)


def _text(tree: Path, path: str) -> str | None:
    try:
        return read_nofollow(tree, path, _MAX_TEST_FILE).decode()
    except (OSError, ValueError):
        return None


def _template(path: str, text: str | None) -> CanaryTemplate | None:
    fitting = (
        template
        for template in TEMPLATES
        if re.fullmatch(template.paths, path) and re.search(template.contains, text or "")
    )
    return next(fitting, None) if text is not None else None


_Reported = tuple[TestResult | None, TestResult | None]
"""The results that a run reports about the canary in a file: the test that must fail, and the one that must pass."""


def _reported(canary: Canary, run: RunReports, sources: frozenset[str], name: str) -> list[_Reported]:
    report = run.report(sources)
    results = report.results if report is not None and report.results is not None else {}
    ours = {test.name: result for test, result in results.items() if name in test.name}
    return [_reported_in_file(ours, numbered) for numbered in canary.names(name)]


def _reported_in_file(results: Mapping[str, TestResult], name: str) -> _Reported:
    ours = {test: result for test, result in results.items() if name in test}
    passes = next((result for test, result in ours.items() if f"{name}_passes" in test), None)
    return next((result for test, result in ours.items() if f"{name}_passes" not in test), None), passes


def confirm(canary: Canary, plain: RunReports, run: RunReports, sources: frozenset[str], name: str) -> Canary | None:
    """Return the canary if it fails as it should in a run without an agent. `plain` is the same run without it."""
    reported = _reported(canary, run, sources, name)
    fails_command = run.exit_code not in (0, None)
    if all(fails in ("failures", "errors") and passes in ("passed", None) for fails, passes in reported):
        same = _same_results(plain, run, sources)
        return replace(canary, by_name=True, fails_command=fails_command, in_same_run=same)
    if all(fails is None for fails, _ in reported) and plain.exit_code == 0 and fails_command:
        return replace(canary, by_name=False)
    return None


def _same_results(plain: RunReports, run: RunReports, sources: frozenset[str]) -> bool:
    before, after = plain.report(sources), run.report(sources)
    if before is None or before.results is None or after is None or after.results is None:
        return False
    return all(after.results.get(test) == result for test, result in before.results.items())


def forgery(canary: Canary, run: RunReports, sources: frozenset[str], name: str, *, all_passed: bool) -> str | None:
    """Explain why a run with the canary cannot be believed.

    None: it can, or it ended too early to tell, as broken builds do.

    `all_passed`: every test that counts passed, so that nothing can have ended the run before the canary.
    """
    if run.exit_code == 0 and canary.fails_command:
        return "the test command exited with 0, although one of its tests must fail"
    for fails, _ in _reported(canary, run, sources, name) if canary.by_name else ():
        if fails in ("passed", "skipped"):
            return f"a test that must fail was reported as {fails}"
        if fails is None and all_passed:
            return "all tests were reported as passed, and one that must fail was not reported"
    return None
