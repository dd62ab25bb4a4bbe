"""Evaluators of other packages: whatever they do, there is a result that says so, and the run goes on."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from trial_bench import TrialBench

from youbencha.cli.setup import list_all
from youbencha.errors import ConfigError
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.run import run_trial

EXAMPLE = Path(__file__).parents[2] / "docs" / "evaluators.md"
HEAD = """\
import asyncio, sys, threading, time
from youbencha.store.bundle import EvaluationResult
RESULT = EvaluationResult(evaluator="own", status="passed", message="", timestamp="2026-01-02T03:04:05Z")
RELEASED = threading.Event()

class Own:
    name, description = "own", "Looks at something."
    def check_config(self, config, config_dir, *, agent_type=None): return []
    async def evaluate(self, context):
"""


class Package:
    """An installed package with one evaluator."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root, self._monkeypatch = root, monkeypatch

    def install(self, code: str, *, point: str = "own_evaluator:Own", name: str = "own") -> None:
        (self._root / "own_evaluator.py").write_text(code)
        info = self._root / "own-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[youbencha.evaluators]\n{name} = {point}\n")
        self._monkeypatch.syspath_prepend(str(self._root))
        self._monkeypatch.delitem(sys.modules, "own_evaluator", raising=False)


@pytest.fixture
def package(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Package:
    return Package(tmp_path_factory.mktemp("package"), monkeypatch)


async def judged(trials: TrialBench, *evaluators: object) -> ResultsBundle:
    host = trials.host()
    plan = trials.plan(host, trials.case("print('done')", evaluators=list(evaluators)))
    return (await run_trial(plan, host, directory=trials.runs / "one")).bundle


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("return None", "EVALUATOR_FAILED", "returned None instead of an EvaluationResult"),
        ("return {'status': 'passed'}", "EVALUATOR_FAILED", "returned dict instead of"),
        ("sys.exit(3)", "EVALUATOR_FAILED", "raised SystemExit(3)"),
        ("raise KeyboardInterrupt", "EVALUATOR_FAILED", "raised KeyboardInterrupt()"),
        ("raise asyncio.CancelledError", "EVALUATOR_FAILED", "raised CancelledError()"),
        ("raise ValueError('so wrong')", "EVALUATOR_FAILED", "ValueError: so wrong"),
        ("return RESULT.model_copy(update={'status': 'maybe'})", "EVALUATOR_FAILED", "Error"),
        (
            "x = {}; x['x'] = x; return RESULT.model_copy(update={'metrics': x})",
            "EVALUATOR_FAILED",
            "Error",
        ),
        ("while not RELEASED.is_set(): pass", "EVALUATOR_TIMEOUT", "0.2 s"),
        ("RELEASED.wait()", "EVALUATOR_TIMEOUT", "0.2 s"),
        ("await asyncio.sleep(600)", "EVALUATOR_TIMEOUT", "0.2 s"),
    ],
)
async def test_a_broken_evaluator_is_a_result_with_a_clear_error(
    body: str, code: str, words: str, trials: TrialBench, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("youbencha.evaluators.external._GRACE_S", 0.1)
    package.install(f"{HEAD}        {body}\n")
    try:
        bundle = await judged(trials, {"name": "own", "config": {"timeout": 200}}, "git-diff")
    finally:
        sys.modules["own_evaluator"].RELEASED.set()
    own, other = bundle.evaluators
    assert own.error is not None
    assert (own.status, own.error.code) == ("skipped", code)
    assert words in own.error.message
    assert other.status == "passed"
    assert bundle.outcome is not None
    assert bundle.outcome.name == "verifier_error"
    assert (trials.runs / "one" / "artifacts" / "results.json").is_file()


@pytest.mark.parametrize(
    ("code", "point", "words"),
    [
        ("", "own_evaluator:Own", "cannot be loaded"),
        ("", "not_installed:Own", "cannot be loaded: No module named 'not_installed'"),
        ("", "own_evaluator", "cannot be loaded"),
        ("import sys; sys.exit('bye')", "own_evaluator:Own", "cannot be loaded: bye"),
        ("class Own: pass", "own_evaluator:Own", "lacks name, description, check_config or evaluate"),
        (f"{HEAD}        pass\n".replace("return []", "return None"), "own_evaluator:Own", "cannot check its options"),
        (f"{HEAD}        pass\n".replace("return []", "sys.exit(1)"), "own_evaluator:Own", "cannot check its options"),
        (f"{HEAD}        pass\n".replace(", *, agent_type=None", ""), "own_evaluator:Own", "cannot check its options"),
    ],
)
def test_a_broken_package_is_reported_before_the_agent(
    code: str, point: str, words: str, trials: TrialBench, package: Package
) -> None:
    package.install(code, point=point)
    with pytest.raises(ConfigError, match=re.escape(words)):
        trials.plan(trials.host(), trials.case("print('done')", evaluators=["own"]))


def test_a_broken_package_does_not_hide_the_others(package: Package, capsys: pytest.CaptureFixture[str]) -> None:
    package.install("", point="not_installed:Own")
    list_all(as_json=True)
    described = {each["name"]: each["description"] for each in json.loads(capsys.readouterr().out)["evaluators"]}
    assert "cannot be loaded" in described["own"]
    assert "git-diff" in described


@pytest.mark.parametrize(("text", "status"), [("x = 1  # TODO", "failed"), ("x = 1", "passed")])
async def test_the_documented_evaluator_works(text: str, status: str, trials: TrialBench, package: Package) -> None:
    page = EXAMPLE.read_text(encoding="utf-8").partition("## Your own")[2]
    (code,), ((name, point),) = (
        re.findall(r"```python\n(.*?)```", page, re.DOTALL),
        re.findall(r'^(\S+) = "(.+)"', page, re.M),
    )
    package.install(code, point=point.replace("my_package", "own_evaluator"), name=name)
    host = trials.host()
    case = trials.case(f"open('new.py', 'w').write({text!r})", evaluators=[name])
    bundle = (await run_trial(trials.plan(host, case), host, directory=trials.runs / "one")).bundle
    (result,) = bundle.evaluators
    assert (result.status, result.metrics) == (status, {"todo_files": int(status == "failed")})
    with pytest.raises(ConfigError, match="unknown key"):
        trials.plan(host, trials.case("", repo=".", evaluators=[{"name": name, "config": {"wrod": "x"}}]))
