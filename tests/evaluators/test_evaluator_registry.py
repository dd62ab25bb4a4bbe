"""Evaluators are found by name, those of other packages too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from evaluating import OverRun

from youbencha.errors import YouBenchaError
from youbencha.evaluators import Evaluator, all_evaluators, evaluator_names, get_evaluator

PACKAGE = """
class Good:
    name, description = "good", "Always content."
    def check_config(self, config, config_dir): return []
    async def evaluate(self, context): raise NotImplementedError
class Impostor(Good):
    description = "Not what you asked for."
class NoEvaluator: pass
from youbencha.evaluators import EvaluatorBase
from youbencha.evaluators.base import evaluation_result
from youbencha.spec import StrictModel
class Options(StrictModel):
    word: str = "TODO"
class Derived(EvaluatorBase[Options]):
    name, description, config_model, needs_expected = "derived", "Looks for a word.", Options, True
    async def evaluate(self, context):
        return evaluation_result(context, 0.0, "passed", self.read_config(context).word)
class Failing:
    def __init__(self): raise RuntimeError("no licence")
"""
POINTS = """[youbencha.evaluators]
good = foreign_evaluators:Good
derived = foreign_evaluators:Derived
git-diff = foreign_evaluators:Impostor
"""
BROKEN = """none = foreign_evaluators:NoEvaluator
failing = foreign_evaluators:Failing
missing = not_installed:X
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed third-party package."""
    (tmp_path / "foreign_evaluators.py").write_text(PACKAGE)
    info = tmp_path / "foreign_evaluators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-evaluators\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "foreign_evaluators", raising=False)
    return info / "entry_points.txt"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("git-diff", "git-diff"),
        ("git-diff:sources", "git-diff"),
        ("expected-diff", "expected-diff"),
        ("command", "command"),
        ("command-tests", "command"),
        ("command:tests", "command"),
        ("agentic-judge", "agentic-judge"),
        ("agentic-judge-docs", "agentic-judge"),
        ("agentic-judge:docs", "agentic-judge"),
    ],
)
def test_built_in_evaluators(name: str, kind: str) -> None:
    evaluator = get_evaluator(name)
    assert isinstance(evaluator, Evaluator)
    assert evaluator.name == kind


def test_built_in_evaluators_have_descriptions() -> None:
    assert {"agentic-judge", "command", "expected-diff", "git-diff", "validation"} <= set(evaluator_names())
    assert [evaluator.name for evaluator in all_evaluators()] == evaluator_names()
    assert all(evaluator.description.endswith(".") for evaluator in all_evaluators())


@pytest.mark.usefixtures("foreign")
def test_third_party_evaluators_are_found_but_do_not_replace_built_in_ones() -> None:
    assert "good" in evaluator_names()
    assert get_evaluator("good").description == "Always content."
    assert get_evaluator("good:twice").name == "good"
    assert type(get_evaluator("git-diff")).__module__ == "youbencha.evaluators.git_diff"


@pytest.mark.usefixtures("foreign")
async def test_a_third_party_evaluator_that_derives_from_the_base(over: OverRun) -> None:
    evaluator = get_evaluator("derived")
    [problem] = evaluator.check_config({"wrod": "x"}, Path())
    assert problem.path == "wrod"
    assert (evaluator.needs_expected, evaluator.uses_model, evaluator.is_advisory({})) == (True, False, False)
    assert (await over.evaluate("derived", {"word": "FIXME"})).message == "FIXME"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("git-dif", "EVALUATOR_UNKNOWN", "Did you mean 'git-diff'? Available: agentic-judge, command"),
        ("zzz", "EVALUATOR_UNKNOWN", "Available: agentic-judge, command"),
        ("git-diff-sources", "EVALUATOR_UNKNOWN", "git-diff"),
        ("none", "EVALUATOR_BROKEN", "lacks name"),
        ("failing", "EVALUATOR_BROKEN", "no licence"),
        ("missing", "EVALUATOR_BROKEN", "not_installed"),
    ],
)
def test_unusable_evaluators_are_reported(foreign: Path, name: str, code: str, words: str) -> None:
    foreign.write_text(POINTS + BROKEN)
    with pytest.raises(YouBenchaError) as caught:
        get_evaluator(name)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_built_in_evaluators_are_found_without_reading_entry_points() -> None:
    """Nor is anything loaded that only the other evaluators need."""
    script = (
        "import sys, importlib.metadata as metadata; real = metadata.entry_points\n"
        "def asked(*, group): assert 'youbencha' not in group; return real(group=group)\n"
        "metadata.entry_points = asked\n"
        "from youbencha.evaluators import get_evaluator; get_evaluator('git-diff')\n"
        "from youbencha.adapters import get_adapter; get_adapter('claude-code')\n"
        "print({'xml.parsers.expat', 'youbencha.evaluators.command'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
