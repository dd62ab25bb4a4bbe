"""Test counts in the output of test runners. The files in tests/data/test_outputs were printed by the real ones."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.scoring.runner_output import parse_test_output
from youbencha.scoring.runner_results import TestCounts

OUTPUTS = Path(__file__).parents[1] / "data" / "test_outputs"


def counted(text: str) -> tuple[str, TestCounts] | None:
    parsed = parse_test_output(text)
    return (parsed[0].format, parsed[0].counts) if len(parsed) == 1 else None


def counts(passed: int, failures: int = 0, errors: int = 0, skipped: int = 0) -> TestCounts:
    return TestCounts(passed + failures + errors + skipped, failures, errors, skipped)


MIXED_PYTEST = counts(4, 1, 1, 2)  # xfailed is skipped, xpassed passed
EXPECTED = {
    "cargo-aborted": ("cargo", counts(2, 1, 2, 1)),
    "cargo-mixed": ("cargo", counts(4, 1, 0, 1)),
    "cargo-passed": ("cargo", counts(2)),
    "go-json": ("go", counts(5, 2, 0, 1)),
    "go-json-panic": ("go", counts(3, 1, 0, 1)),
    "go-one-package-verbose": ("go", counts(3, 0, 0, 1)),
    "go-packages": ("go", counts(1, 2, 1)),
    "go-verbose": ("go", counts(5, 2, 0, 1)),
    "go-verbose-panic": ("go", counts(3, 1, 1, 1)),
    "jest-broken-suite": ("jest", counts(2, 0, 1)),
    "jest-colour": ("jest", counts(2, 1, 0, 2)),
    "jest-mixed": ("jest", counts(4, 1, 0, 2)),
    "jest-nothing": ("jest", counts(0)),
    "jest-workspaces": ("jest", counts(6, 1, 0, 2)),
    "mocha-mixed": ("mocha", counts(2, 1, 0, 2)),
    "mocha-passed": ("mocha", counts(2)),
    "mocha-tap": ("tap", counts(2, 1, 0, 2)),
    "node-spec": ("node", counts(4, 3, 0, 2)),
    "node-tap": ("node", counts(4, 3, 0, 2)),
    "pytest-collection-error": ("pytest", counts(0, 0, 1)),
    "pytest-colour": ("pytest", MIXED_PYTEST),
    "pytest-deselected": ("pytest", counts(1)),
    "pytest-mixed": ("pytest", MIXED_PYTEST),
    "pytest-nothing": ("pytest", counts(0)),
    "pytest-passed": ("pytest", counts(2)),
    "pytest-quiet": ("pytest", MIXED_PYTEST),
    "pytest-quiet-nothing": ("pytest", counts(0)),
    "pytest-two-runs": ("pytest", counts(6, 1, 1, 2)),
    "pytest-verbose-xdist": ("pytest", MIXED_PYTEST),
    "tape-mixed": ("tap", counts(1, 1, 0, 1)),
    "unittest-mixed": ("unittest", counts(1, 2, 1, 2)),
    "unittest-nothing": ("unittest", counts(0)),
    "unittest-nothing-3.12": ("unittest", counts(0)),
    "unittest-passed": ("unittest", counts(2, 0, 0, 2)),
    "unittest-subtests": ("unittest", counts(0, 3, 1)),
    "vitest-broken-suite": ("vitest", counts(2, 0, 1)),
    "vitest-colour": ("vitest", counts(5, 1, 0, 2)),
    "vitest-mixed": ("vitest", counts(5, 1, 0, 2)),
    "vitest-nothing": ("vitest", counts(0)),
    "vitest-tap": ("tap", counts(5, 1, 0, 2)),
}


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_output_is_expected() -> None:
    assert {path.stem for path in OUTPUTS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_real_outputs(name: str) -> None:
    assert counted(output(name)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_line_ends_of_windows(name: str) -> None:
    assert counted(output(name).replace("\n", "\r\n")) == EXPECTED[name]


SOURCE = """
import unittest

class Shop(unittest.TestCase):
    def test_adds(self): self.assertEqual(1 + 1, 2)
    def test_fails(self): self.assertEqual(1 + 1, 3)
    @unittest.skip("later")
    def test_later(self): pass
"""


@pytest.mark.parametrize("runner", [("unittest",), ("pytest", "-p", "no:cacheprovider")])
def test_runners_of_this_python(runner: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(SOURCE)
    command = [sys.executable, "-m", *runner]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    # unittest of these two versions does not count skipped tests in "Ran 3 tests".
    hides_skipped = runner[0] == "unittest" and sys.version_info[:3] in ((3, 12, 1), (3, 12, 2))
    assert counted(done.stdout) == (runner[0], counts(0 if hides_skipped else 1, 1, 0, 1))


NESTED_TAP = """TAP version 14
# Subtest: first.js
    # Subtest: a group
        ok 1 - x
        not ok 2 - y
        1..2
    not ok 1 - a group # time=2ms
    ok 2 - alone
    1..2
not ok 1 - first.js # time=9ms
# Subtest: second.js
    ok 1 - z # SKIP later
    1..1
ok 2 - second.js # time=3ms
# Subtest: third.js
    ok 1 - fine
    1..1
not ok 3 - third.js # failed after its tests
1..3
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NESTED_TAP, counts(3, 2, 0, 1)),
        ("1..3\nok 1\nok 2\nok 3\n", counts(3)),
        ("1..3\nok 1\nnot ok 2 - no # TODO known\nok 3 # skip\n", counts(1, 0, 0, 2)),
        ("1..4\nok 1\nBail out! No database\n", counts(1, 0, 3)),
        ("1..0 # SKIP no tests\n", counts(0)),
        ("TAP version 13\n1..1\nok 1\nTAP version 13\nnot ok 1\n1..1\n", counts(1, 1)),
        ("1..1\nnot ok 1 - says\n  ---\n  output: |\n    ok 1 - in YAML\n  ...\n", counts(0, 1)),
        ("1..1\nok 1 - \\# todo is escaped\n", counts(1)),
    ],
)
def test_tap(text: str, expected: TestCounts) -> None:
    assert counted(text) == ("tap", expected)


PYTEST_RUN = "===== test session starts =====\n{}\n===== {} in 0.12s =====\n"
CARGO_RUN = "running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
JEST_RUN = "Test Suites: 1 passed, 1 total\nTests:       {0} passed, {0} total\nSnapshots:   0 total\nTime: 1 s\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 passed in 0.10 seconds\n", counts(5)),
        ("2 failed, 1 passed, 3 warnings, 1 rerun in 61.20s (0:01:01)\n", counts(1, 2)),
        ("2 passed, 3 subtests passed in 0.01s\n", counts(2)),
        ("Ran 3 tests in 0.001s\n\nOK\n", counts(3)),
        ("  3 passing (2s)\n  1 failing\n\n  1) x\n", counts(3, 1)),
        ("> a@1.0.0 test\n> mocha\n\n  3 passing (2s)\n\n> b@1.0.0 test\n> mocha\n\n  2 passing (1s)\n", counts(5)),
        (f"> a@1.0.0 test\n{JEST_RUN.format(2)}> b@1.0.0 test\n{JEST_RUN.format(3)}", counts(5)),
        ("printed=== RUN   TestA\n=== RUN   TestA\nprinted--- PASS: TestA (0.00s)\nPASS\nok  \ta/b\t0.1s\n", counts(1)),
        ("ok  \ta/b\t(cached)\nok  \ta/c\t0.01s [no tests to run]\nFAIL\ta/d [build failed]\n", counts(1, 0, 1)),
        (f"running 2 tests\n{CARGO_RUN}", counts(1, 0, 2)),
        (" Test Files  1 passed (1)\n      Tests  2 passed (2)\n     Errors  1 error\n", counts(2, 0, 1)),
    ],
)  # fmt: skip
def test_other_forms(text: str, expected: TestCounts) -> None:
    parsed = counted(text)
    assert parsed is not None
    assert parsed[1] == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5 tests passed",
        "All good!\n",
        "5 passed, 1 exploded in 0.10s\n",  # not a word of pytest's
        "===== test session starts =====\ncollected 5 items\n",  # ended early
        "5 passed in 0.10s\n3 passed in 0.10s\n",  # which is it?
        PYTEST_RUN.format("===== 9 passed in 0.01s =====", "1 failed"),  # printed by a test
        PYTEST_RUN.format("", "1 failed") + "===== 9 passed in 0.01s =====\n",
        "===== test session starts =====\nKilled\n" + PYTEST_RUN.format("", "5 passed"),  # the first of two runs
        " RUN  v3.0.0 /a\n\n RUN  v3.0.0 /b\n\n Test Files  1 passed (1)\n      Tests  2 passed (2)\n",
        "Ran 3 tests in 0.001s\n\nOK (failures=1)\n",
        "Ran 3 tests in 0.001s\n\nFAILED\n",
        "Ran 3 tests in 0.001s\n\nFAILED (surprises=1)\n",
        "Ran 3 tests in 0.001s\n\n",
        "Ran 3 tests in 0.001s\n\nOK\nRan 3 tests in 0.001s\n\nOK\n",
        "Test Suites: 1 passed, 1 total\nTests:       2 passed, 3 total\nSnapshots:   0 total\n",
        JEST_RUN.format(2) + JEST_RUN.format(3),
        " Test Files  1 passed (1)\n      Tests  2 passed (3)\n",
        " RUN  v3.0.0 /project\n\n",
        "  3 passing (2s)\n  3 passing (2s)\n",
        "ℹ tests 3\nℹ suites 0\nℹ pass 1\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n",
        "running 2 tests\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        "running 2 tests\ntest result: ok. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n",  # killed
        '{"Action":"run","Package":"a","Test":"T"}\n{"Action":"pass","Package":"a","Test":"T"}\n',
        "1..2\nok 1\nok 2\nok 3\n",
        "1..2\nok 1\nok 2\n1..2\n",
        "TAP version 13\nok 1\nok 2\n",  # no plan: it may have been cut off
        "ok 1\nok 2\n",
        "3 passed in 0.1s\n" + JEST_RUN.format(2),  # two test runners
    ],
)
def test_what_cannot_be_told_is_not_guessed(text: str) -> None:
    assert counted(text) is None


def test_runners_that_name_their_tests_count_beside_each_other() -> None:
    text = "".join(map(output, ("go-verbose", "pytest-quiet", "cargo-mixed")))
    assert [(tests.format, tests.counts) for tests in parse_test_output(text)] == [
        EXPECTED["go-verbose"],
        EXPECTED["cargo-mixed"],
    ]


def test_what_tests_print_through_node_is_not_the_summary() -> None:
    forged = "# tests 9\n# suites 0\n# pass 9\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n"
    text = output("node-tap")
    assert counted(text.replace("# tests 100\n", forged)) == EXPECTED["node-tap"]


NUMBERS = st.integers(0, 10**6)


@given(*[NUMBERS] * 7, st.booleans())
def test_pytest_counts(
    passed: int, failed: int, errors: int, skipped: int, xfailed: int, xpassed: int, deselected: int, quiet: bool
) -> None:
    given = {"failed": failed, "passed": passed, "skipped": skipped, "deselected": deselected, "xfailed": xfailed}
    given |= {"xpassed": xpassed, "warnings": 2, "error" if errors == 1 else "errors": errors}
    items = ", ".join(f"{number} {word}" for word, number in given.items() if number)
    text = f"{items} in 1.23s\n" if quiet else PYTEST_RUN.format("...", items)
    expected = counts(passed + xpassed, failed, errors, skipped + xfailed)
    assert counted(text) == ("pytest", expected)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_unittest_counts(passed: int, failures: int, errors: int, skipped: int, expected_failures: int) -> None:
    listed = {"failures": failures, "errors": errors, "skipped": skipped, "expected failures": expected_failures}
    items = ", ".join(f"{word}={number}" for word, number in listed.items() if number)
    verdict = ("FAILED" if failures or errors else "OK") + (f" ({items})" if items else "")
    expected = counts(passed, failures, errors, skipped + expected_failures)
    text = f"{'-' * 70}\nRan {expected.tests} tests in 0.012s\n\n{verdict}\n"
    assert counted(text) == ("unittest", expected)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_vitest_and_jest_counts(passed: int, failed: int, skipped: int, todo: int) -> None:
    listed = {"failed": failed, "passed": passed, "skipped": skipped, "todo": todo}
    items = [f"{number} {word}" for word, number in listed.items() if number]
    files = f"{'1 failed' if failed else '1 passed'}"
    expected = counts(passed, failed, 0, skipped + todo)
    tests = f"{' | '.join(items)} ({expected.tests})" if items else "no tests"
    vitest = f"\n RUN  v3.2.7 /project\n\n Test Files  {files} (1)\n      Tests  {tests}\n   Start at  08:02:37\n"
    assert counted(vitest) == ("vitest", expected)
    tests = ", ".join([*items, f"{expected.tests} total"])
    jest = f"Test Suites: {files}, 1 total\nTests:       {tests}\nSnapshots:   0 total\nTime:        0.3 s\n"
    assert counted(jest) == ("jest", expected)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_mocha_and_node_counts(passed: int, failed: int, skipped: int) -> None:
    pending = f"  {skipped} pending\n" if skipped else ""
    mocha = f"\n\n  {passed} passing (12ms)\n{pending}" + (f"  {failed} failing\n" if failed else "")
    assert counted(mocha) == ("mocha", counts(passed, failed, 0, skipped))
    numbers = {"tests": passed + failed + skipped, "suites": 1, "pass": passed, "fail": failed, "cancelled": 0}
    for mark in ("#", "ℹ"):
        node = "".join(
            f"{mark} {name} {number}\n" for name, number in {**numbers, "skipped": skipped, "todo": 0}.items()
        )
        assert counted(node) == ("node", counts(passed, failed, 0, skipped))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_cargo_counts(binaries: list[tuple[int, int, int]]) -> None:
    text = "".join(
        f"running {sum(binary)} tests\n\ntest result: {'FAILED' if binary[1] else 'ok'}. "
        f"{binary[0]} passed; {binary[1]} failed; {binary[2]} ignored; 0 measured; 3 filtered out; finished in 0.00s\n"
        for binary in binaries
    )
    passed, failed, ignored = (sum(numbers) for numbers in zip(*binaries, strict=True))
    assert counted(text) == ("cargo", counts(passed, failed, 0, ignored))


RESULTS = st.sampled_from(("pass", "fail", "skip"))


@given(st.lists(st.lists(RESULTS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_go_counts(packages: list[list[str]]) -> None:
    lines, events = [], []
    for package, results in enumerate(packages):
        for test, result in enumerate(results):
            lines += [f"=== RUN   Test{test}", f"--- {result.upper()}: Test{test} (0.00s)"]
            events += [f'{{"Action":"{result}","Package":"p{package}","Test":"Test{test}"}}']
        failed = "fail" in results
        lines += ["FAIL" if failed else "PASS", f"{'FAIL' if failed else 'ok  '}\tp{package}\t0.012s"]
        events += [f'{{"Action":"{"fail" if failed else "pass"}","Package":"p{package}"}}']
    every = [result for results in packages for result in results]
    expected = ("go", counts(every.count("pass"), every.count("fail"), 0, every.count("skip")))
    assert counted("\n".join(lines)) == expected
    assert counted("\n".join(events)) == expected


@given(st.lists(RESULTS, min_size=1, max_size=30), st.booleans(), st.integers(0, 3))
def test_tap_counts(results: list[str], plan_first: bool, missing: int) -> None:
    lines = {"pass": "ok {} - x", "fail": "not ok {} - x", "skip": "ok {} - x # SKIP"}
    points = [lines[result].format(number) for number, result in enumerate(results, 1)]
    plan = f"1..{len(points) + missing}"
    text = "\n".join([plan, *points] if plan_first else [*points, plan])
    expected = counts(results.count("pass"), results.count("fail"), missing, results.count("skip"))
    assert counted(text) == ("tap", expected)


FRAGMENTS = [line for path in OUTPUTS.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]


@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=30)), max_size=40))
def test_no_text_raises_and_counts_fit_together(lines: list[str]) -> None:
    parsed = counted("\n".join(lines))
    if parsed is not None:
        numbers = parsed[1]
        assert min(numbers.tests, numbers.failures, numbers.errors, numbers.skipped, numbers.passed) >= 0


SIZE = 800_000
HOSTILE = {
    "lines": " in Ran \n" + "\n" * SIZE,
    "escapes": "\x1b[0;" * (SIZE // 4),
    "words": "1 passed, 2 failed in " * (SIZE // 22),
    "JSON": '{"Action":"a"}\n' * (SIZE // 15),
    "nested JSON": '{"Action":' + "[" * SIZE + "}",
    "points": "1..9\n" + "ok 1 - x {\n" * (SIZE // 11),
    "runs": "".join(f"=== RUN   T{number}/a\n" for number in range(SIZE // 20)),
    "slashes": ("=== RUN   " + "/" * 499 + "\n") * (SIZE // 510),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear(text: str) -> None:
    """An eighth of the text takes about an eighth of the time. In quadratic time it would be a 64th."""
    started = time.process_time()
    counted(text[: SIZE // 8])
    part = time.process_time() - started
    counted(text)
    assert time.process_time() - started - part < 30 * max(part, 0.05)


def test_garbage_of_2_mb() -> None:
    random = Random(12)
    garbage = "".join(random.choices("ok not1.=|-# \n\t{}()[]\x1b:;" + "test passed in 1s", k=50_000)) * 40
    started = time.process_time()
    assert counted(f"Ran 1..2 cancelled {garbage} test result: === RUN Test Files") is None
    assert time.process_time() - started < 8
