"""Which files are what, and the score for how code is divided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.scoring.code_metrics import (
    SourceFile,
    code_metrics_score,
    is_report_file,
    is_source_file,
    is_test_configuration,
    is_test_file,
)

SOURCE = (
    *("shop.py", "src/shop/spec/model.py", "src/testing/kit.py", "src/contest.py", "src/latest.js", "lib/attest.rb"),
    *("cmd/main.go", "src/lib.rs", "src/main/java/PodSpec.java", "src/GIT.java", "app/page.tsx", "run.sh"),
)
TESTS = (
    *("test_shop.py", "shop_test.py", "app/tests.py", "tests/unit/helpers.py", "tests/data/prices.json"),
    *(
        "a.test.ts",
        "a.spec.mjs",
        "a_test.js",
        "test-a.js",
        "src/__tests__/a.jsx",
        "src/__snapshots__/a.snap",
        "a.cy.ts",
    ),
    *("pkg/a_test.go", "pkg/testdata/in.txt", "tests/whole.rs", "spec/shop_spec.rb", "spec/helper.rb", "e2e/login.ts"),
    *("src/test/java/ShopTest.java", "ShopTests.cs", "TestShop.java", "LoginIT.java", "ShopSpec.scala", "a.bats"),
)
CONFIGURATION = (
    *("conftest.py", "pytest.ini", "tox.ini", ".coveragerc", "sitecustomize.py", "noxfile.py"),
    *("jest.config.js", "vitest.config.mts", "vitest.workspace.json", ".mocharc.yml", ".mocharc", "jest.setup.js"),
    *("setupTests.ts", "playwright.config.ts", ".nycrc.json", "phpunit.xml.dist", ".rspec", "karma.conf.js"),
)
REPORTS = (
    *("junit.xml", "reports/py-junit-1.xml", "TEST-shop.xml", "test-results.xml", "test_results/x.json", "results.xml"),
    *("coverage.xml", "coverage/coverage-summary.json", "coverage-final.json", "lcov.info", ".coverage", "cover.out"),
    *("target/surefire-reports/a.xml", ".coverage.host.1", "cobertura-coverage.xml", "pytest_report.json"),
)
NEITHER = (
    "README.md",
    "pyproject.toml",
    "package.json",
    "Makefile",
    "data.json",
    "node_modules/a/index.js",
    ".gitignore",
)
NOT_REPORTS = ("src/coverage/parser.py", "coverage.py", "src/junit.py", ".coveragerc", "pom.xml", "config.json")


@pytest.mark.parametrize("path", SOURCE)
def test_source_files(path: str) -> None:
    assert is_source_file(path)
    assert not is_test_file(path)
    assert not is_test_configuration(path)
    assert not is_report_file(path)


@pytest.mark.parametrize("path", TESTS)
def test_test_files(path: str) -> None:
    assert is_test_file(path)
    assert not is_source_file(path)


@pytest.mark.parametrize("path", CONFIGURATION)
def test_test_configuration(path: str) -> None:
    assert is_test_configuration(path)
    assert is_test_configuration(f"packages/a/{path}")
    assert not is_source_file(path)


@pytest.mark.parametrize("path", REPORTS)
def test_report_files(path: str) -> None:
    assert is_report_file(path)
    assert not is_source_file(path)


@pytest.mark.parametrize("path", NEITHER)
def test_other_files(path: str) -> None:
    assert not any(is_a(path) for is_a in (is_source_file, is_test_file, is_test_configuration, is_report_file))


@pytest.mark.parametrize("path", NOT_REPORTS)
def test_files_that_are_not_reports(path: str) -> None:
    assert not is_report_file(path)


@given(st.text(alphabet="abt_.-/TESspec", max_size=60))
def test_any_path_has_an_answer(path: str) -> None:
    assert not (is_source_file(path) and (is_test_file(path) or is_test_configuration(path)))
    is_report_file(path)


def files(source: list[int], tests: int = 0) -> list[SourceFile]:
    written = [SourceFile(f"src/m{number}.py", lines) for number, lines in enumerate(source)]
    return written + [SourceFile(f"tests/test_{number}.py", 5000) for number in range(tests)]


@pytest.mark.parametrize(
    ("tree", "score"),
    [
        ([], 0.0),
        (files([10]), 0.4),
        (files([10, 10]), 0.6),
        (files([10, 10, 10]), 0.7),
        (files([10, 10, 10], tests=1), 0.9),
        (files([10, 10, 10], tests=3), 1.0),
        (files([200]), 0.4),
        (files([201]), 0.3),
        (files([500]), 0.3),
        (files([501]), 0.2),
        (files([800]), 0.2),
        (files([801]), 0.1),
        (files([], tests=3), 0.3),
        ([SourceFile("README.md", 9), SourceFile("node_modules/a.js", 9), SourceFile("tests/__init__.py", 0)], 0.0),
    ],
)
def test_code_metrics_score(tree: list[SourceFile], score: float) -> None:
    assert code_metrics_score(tree) == pytest.approx(score)


@given(st.lists(st.integers(0, 2000), max_size=8), st.integers(0, 5))
def test_code_metrics_are_bounded(source: list[int], tests: int) -> None:
    score = code_metrics_score(files(source, tests))
    assert 0 <= score <= 1
    assert code_metrics_score(files(source, tests + 1)) >= score
