"""The evaluator `validation` in real containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from validation_bench import ALL_TESTS, SOLUTION, ValidationBench, writes

from docker_engine import Engine, engine, image

__all__ = ["engine", "image"]
WITH_HIDDEN = {"validation_tag": "v1-validation", "reference_tag": "v1-solution"}
REACHES = "python3 -c \"import socket; socket.create_connection(('192.0.2.1', 9), 1)\""


@pytest.fixture
def bench(tmp_path: Path, image: str) -> ValidationBench:
    return ValidationBench(tmp_path, image)


LEAVES_TRACES = writes(SOLUTION) + (
    "from os.path import expanduser\n"
    "open(expanduser('~/left'), 'w').write('at home')\n"
    "open('/tmp/left', 'w').write('in /tmp')\n"
    "Path('ignored').mkdir(); open('ignored/left', 'w').write('in the workspace')\n"
)
SHOW = "cat ~/left /tmp/left ignored/left 2>/dev/null; true"


@pytest.mark.parametrize(
    ("mode", "seen"),
    [("diff", ""), ("separate", "in the workspace"), ("shared", "at homein /tmpin the workspace")],
)
async def test_modes_differ_in_what_is_left_of_the_agent(
    bench: ValidationBench, engine: Engine, mode: str, seen: str
) -> None:
    done = await bench.run(LEAVES_TRACES, mode=mode, build_cmd=SHOW, **WITH_HIDDEN)
    assert done.result.status == "passed", done.result
    assert done.result.metrics["tests"]["tests"] == ALL_TESTS
    assert done.log("build") == seen
    assert not (done.directory / "src-modified" / "tests" / "test_hidden.py").exists()
    assert engine.containers(f"youbencha.run={done.directory.name}") == []


async def test_there_is_no_network_and_a_deadline(bench: ValidationBench) -> None:
    closed = await bench.run(
        writes({"calc.py": "import time\ntime.sleep(99)\n"}),
        build_cmd="ls /sys/class/net; " + REACHES,
        timeout_minutes=0.05,
    )
    assert closed.log("build").split()[0] == "lo"
    assert "Network is unreachable" in closed.log("build")
    assert closed.result.metrics["steps"]["test"]["timed_out"]
    assert closed.scores["tests"] == 0


async def test_the_network_can_be_opened(bench: ValidationBench) -> None:
    opened = await bench.run(writes(SOLUTION), build_cmd="ls /sys/class/net", network="open")
    assert opened.log("build").split() != ["lo"]


async def test_a_patch_is_validated_without_an_agent(bench: ValidationBench) -> None:
    result = await bench.validate(None, mode="shared", **WITH_HIDDEN)
    assert result.metrics["scores"]["tests"] == 0.25
    assert result.message.endswith("not in the mode shared: the agent's workspace is gone.")


async def test_another_image_is_used(bench: ValidationBench) -> None:
    done = await bench.run(writes(SOLUTION), image="youbencha/none:missing", mode="separate")
    assert done.result.status == "skipped"
    assert "youbencha/none:missing" in done.result.message
