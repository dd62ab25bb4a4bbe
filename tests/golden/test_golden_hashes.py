"""`config_hash`: by it, results of today and of a year ago are known to be of the same test case.

An example whose text was edited has another hash; the test cases in `data/cases` stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden_files import DATA, KEYS, Golden, GoldenBench

from youbencha.cli.app import run_app

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
ORIGINAL = REPOSITORY / "tests" / "examples" / "original"
CASES = DATA / "cases"
VARIABLES = {
    "REPOSITORY": "../.repos/tiny-shop", "START": "main", "MOST_LINES:": "20", "TARGET": "test",
    "SLACK_WEBHOOK_URL": "https://example.com/hook",
}  # fmt: skip
NOT_CASES = {"eval-a-directory.yaml", "eval-config.yaml", "settings.youbencharc.yaml", "thunderdome.yaml"}
"""For `yb eval`, which has no --dry-run; settings; and an arena."""


def test_config_hash(golden: Golden, bench: GoldenBench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.setenv(**KEYS)
    files = [*EXAMPLES.glob("*.yaml"), EXAMPLES / "variables" / "testcase.yaml", *ORIGINAL.glob("*.[jy]*")]
    files = sorted(file for file in [*files, *CASES.glob("*.*")] if file.name not in NOT_CASES)
    given = [f"--var={name}={value}" for name, value in VARIABLES.items()]
    hashes = {}
    for file in files:
        plan = shown(capsys, "run", "-c", str(file), "--dry-run", "--json", *given)
        hashes[file.relative_to(REPOSITORY).as_posix()] = plan["config_hash"]
    judged = EXAMPLES / "eval-a-directory.yaml"
    hashes["examples/eval-a-directory.yaml"] = shown(capsys, "eval", "-c", str(judged), "--json")["test_case"][
        "config_hash"
    ]
    cases = CASES.relative_to(REPOSITORY).as_posix()
    assert hashes[f"{cases}/short-forms.yaml"] == hashes[f"{cases}/long-forms.yaml"]
    golden.check_json("config-hashes.json", hashes)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What `yb` prints, as JSON."""
    code = run_app(arguments)
    printed = capsys.readouterr()
    assert code == 0, printed.err
    value: dict[str, Any] = json.loads(printed.out)
    return value
