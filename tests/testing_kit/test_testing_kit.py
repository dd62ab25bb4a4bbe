"""The conformance kit itself: a sound adapter passes, and every fault is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiny_agent import FAULTS, TinyAdapter, TinyAgent

from youbencha.testing import AdapterContract, Agent, Situation
from youbencha.testing.agent import MARKER
from youbencha.testing.contract import Kit, Looked

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the faults need a shell")

HASTE = """
import youbencha.testing.contract as contract

contract._SHORT_MS, contract._DEADLINE_MARGIN_S, contract._PATIENCE_S = 2_000, 4.0, 8.0
"""

HEAD = """
import pytest
import tiny_agent
from youbencha.testing import AdapterContract
"""

CLASS = """
class Test{kind}(AdapterContract):
    @pytest.fixture
    def agent(self, tmp_path):
        return tiny_agent.TinyAgent(tmp_path, tiny_agent.{kind})
"""


class TestTinyAgent(AdapterContract):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return TinyAgent(tmp_path)


async def test_sessions_are_shared_only_where_nothing_differs(tmp_path: Path) -> None:
    shared: dict[tuple[Situation, int], Looked] = {}
    one, other = (Kit(TinyAgent(tmp_path), tmp_path / name, shared=shared) for name in ("one", "other"))
    first = await one.execute(Situation.ANSWERS)
    assert await other.execute(Situation.ANSWERS) is first
    assert (other.artifacts, other.last_context) == (one.artifacts, one.last_context)
    assert await other.execute(Situation.ANSWERS, env={"X": "y"}) is not first
    assert await other.execute(Situation.FAILS) is not first


async def test_an_agent_that_was_cut_off_before_it_spoke_is_given_more_time(tmp_path: Path) -> None:
    agent = TinyAgent(tmp_path)
    agent.time_to_speak_ms = 5
    kit = Kit(agent, tmp_path)
    result = await kit.cut_off()
    assert result.status == "timeout"
    assert MARKER in result.output
    assert kit.last_context.timeout > 5


def kit_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, chosen: dict[type[TinyAdapter], str]
) -> pytest.RunResult:
    """Put some adapters through some tests of the kit, in a pytest of their own."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest(HASTE)
    pytester.makepyfile(test_it=HEAD + "".join(CLASS.format(kind=kind.__name__) for kind in chosen))
    tests = " or ".join(f"(Test{kind.__name__} and ({names}))" for kind, names in chosen.items())
    return pytester.runpytest_subprocess("-q", "-rA", "-p", "no:cacheprovider", "-k", tests, timeout=300)


def test_every_fault_is_found(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    done = kit_run(pytester, monkeypatch, FAULTS)
    assert "errors" not in done.parseoutcomes()
    found = {
        kind for kind in FAULTS if any(f"FAILED test_it.py::Test{kind.__name__}::" in line for line in done.outlines)
    }
    assert {kind.__name__ for kind in FAULTS.keys() - found} == set()


def test_the_same_tests_pass_without_a_fault(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the faults might be found for another reason."""
    done = kit_run(pytester, monkeypatch, {TinyAdapter: " or ".join(FAULTS.values())})
    outcomes = done.parseoutcomes()
    assert set(outcomes) <= {"passed", "deselected"}
    assert outcomes["passed"] >= len(set(FAULTS.values()))


def test_what_does_not_apply_is_skipped_with_the_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = kit_run(pytester, monkeypatch, {TinyAdapter: "cr_1_2 or cr_1_3"})
    assert done.parseoutcomes()["skipped"] == 2
    done.stdout.fnmatch_lines(["*the tiny agent has no model*"])


def test_a_kit_without_an_agent_says_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="from youbencha.testing import AdapterContract\nclass TestIt(AdapterContract): pass")
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-k", "shape", timeout=120)
    done.stdout.fnmatch_lines(["*define a fixture `agent` that returns your youbencha.testing.Agent*"])
