"""Common mistakes: each error message says what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from yb import yb

TEST_CASE = (
    "name: x\nrepo: .\nagent: {type: claude-code, config: {prompt: Fix the bug.}}\nevaluators: [{name: git-diff}]\n"
)
EVAL_CONFIG = "name: x\ndirectory: .\nevaluators: [{name: git-diff}]\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "case.yaml").write_text(TEST_CASE)
    (tmp_path / "eval.yaml").write_text(EVAL_CONFIG)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["run", "case.yaml"], "for example `yb run -c testcase.yaml`; run with --help for usage"),
        (["report", "."], "for example `yb report --from .youbencha-workspace --format html --open`; run with --help"),
        (["run", "-c", "testcase.yaml"], "`yb init` writes a first test case."),
        (["validate", "-c", "testcase.yaml"], "`yb init` writes a first test case."),
        (["run", "-c", "eval.yaml"], "without an agent: `yb eval -c eval.yaml`."),
        (["eval", "-c", "case.yaml"], "with an agent to run: `yb run -c case.yaml`."),
        (["run", "-c", "case.yaml", "--sandbox", "dokcer"], "It is one of local, docker."),
        (["run", "-c", "case.yaml", "--gateway", "lite"], "It is one of auto, builtin, litellm, none."),
    ],
)
def test_common_mistakes_get_a_hint(arguments: list[str], hint: str, here: Path) -> None:
    done = yb(*arguments, cwd=here)
    assert done.returncode == 2
    assert f"\nhint  {hint}" in done.stderr or (hint in done.stderr and "\nhint  " in done.stderr)


def test_a_missing_choice_is_reported_in_one_line(here: Path) -> None:
    error = yb("schema", cwd=here).stderr.splitlines()[0]
    assert error.startswith("error Missing argument 'FORMAT'. Choose from: testcase, eval, evaluator, ")


def test_other_problems_of_a_file_get_no_hint(here: Path) -> None:
    (here / "case.yaml").write_text(TEST_CASE.replace("repo:", "rep:"))
    assert "hint" not in yb("run", "-c", "case.yaml", cwd=here).stderr
