"""The conformance kit itself: a correct adapter passes, and every fault is found."""

from __future__ import annotations

import asyncio
import inspect
import sys
from pathlib import Path

import pytest
from tiny_agent import FAULTS, TinyAdapter, TinyAgent

from youbencha.testing import AdapterContract, Agent, Situation, contract, kit
from youbencha.testing.agent import MARKER
from youbencha.testing.kit import Kit, SharedSession

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the faults need a shell")


class TestTinyAgent(AdapterContract):
    @pytest.fixture
    def agent(self, tmp_path: Path) -> Agent:
        return TinyAgent(tmp_path)


async def test_sessions_are_shared_only_where_nothing_differs(tmp_path: Path) -> None:
    shared: dict[tuple[Situation, int], SharedSession] = {}
    one, other = (Kit(TinyAgent(tmp_path), tmp_path / name, shared=shared) for name in ("one", "other"))
    first = await one.execute(Situation.ANSWERS)
    assert await other.execute(Situation.ANSWERS) is first
    assert (other.artifacts, other.last_context) == (one.artifacts, one.last_context)
    assert await other.execute(Situation.ANSWERS, env={"X": "y"}) is not first
    assert await other.execute(Situation.FAILS) is not first


async def test_an_agent_cut_off_before_its_first_output_gets_more_time(tmp_path: Path) -> None:
    agent = TinyAgent(tmp_path)
    agent.time_to_speak_ms = 5
    kit = Kit(agent, tmp_path)
    result = await kit.cut_off()
    assert result.status == "timeout"
    assert MARKER in result.output
    assert kit.last_context.timeout > 5


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that ignores its deadline or a stop is given up on after less time."""
    monkeypatch.setattr(contract, "_DEADLINE_MARGIN_S", 2.0)
    monkeypatch.setattr(kit, "_PATIENCE_S", 5.0)


async def is_found(directory: Path, fault: type[TinyAdapter], names: str) -> bool:
    """Whether one of the kit's tests with these words in its name fails."""
    for name in [name for name in dir(AdapterContract) if name.startswith("test_") and names in name]:
        test = getattr(AdapterContract(), name)
        agent, place = TinyAgent(directory, fault), directory / name
        place.mkdir(parents=True)
        given = {"agent": agent, "tmp_path": place, "kit": Kit(agent, place), "situation": Situation.FAILS}
        try:
            done = test(**{parameter: given[parameter] for parameter in inspect.signature(test).parameters})
            if inspect.isawaitable(done):
                await done
        except pytest.skip.Exception:
            continue
        except Exception:  # noqa: BLE001 whatever a test fails with
            return True
    return False


@pytest.mark.usefixtures("impatient")
async def test_every_fault_is_found(tmp_path: Path) -> None:
    found = await asyncio.gather(*(is_found(tmp_path / kind.__name__, kind, names) for kind, names in FAULTS.items()))
    assert [kind.__name__ for kind, was_found in zip(FAULTS, found, strict=True) if not was_found] == []


async def test_a_correct_adapter_has_no_fault(tmp_path: Path) -> None:
    """Otherwise a fault might be found for another reason."""
    for names in sorted(set(FAULTS.values())):
        assert not await is_found(tmp_path / names, TinyAdapter, names), names


MODULE = """
import pytest
import tiny_agent
from youbencha.testing import AdapterContract

class TestTiny(AdapterContract):
    kind = tiny_agent.TinyAdapter

    @pytest.fixture
    def agent(self, tmp_path):
        return tiny_agent.TinyAgent(tmp_path, self.kind)

class TestFaulty(TestTiny):
    kind = tiny_agent.HasAnOddName

class TestWithoutAgent(AdapterContract):
    pass
"""


def test_pytest_output(pytester: pytest.Pytester) -> None:
    """A fault is a failure, what does not apply is skipped with the reason, a missing agent is explained."""
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_it=MODULE)
    done = pytester.runpytest_inprocess("-q", "-rA", "-p", "no:cacheprovider", "-k", "shape or cr_1_3")
    shape = "test_adapter_has_the_contracts_shape"
    done.stdout.fnmatch_lines_random(
        [
            f"PASSED test_it.py::TestTiny::{shape}",
            f"FAILED test_it.py::TestFaulty::{shape}*",
            f"ERROR test_it.py::TestWithoutAgent::{shape}*",
            "SKIPPED*the tiny agent has no model",
            "*define a fixture `agent` that returns your youbencha.testing.Agent*",
        ]
    )
