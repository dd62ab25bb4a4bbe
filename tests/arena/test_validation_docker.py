"""The evaluator `validation` in real containers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from validation_bench import ALL_TESTS, SOLUTION, START, ValidationBench, writes

from docker_engine import Engine, engine, image
from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.ownership import reap_containers

__all__ = ["engine", "image"]
PATIENCE_S = 120
WITH_HIDDEN = {"validation_tag": "v1-validation"}
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


SEEN: Sequence[tuple[Mapping[str, Any], str]] = (
    ({"mode": "diff"}, ""),
    ({"mode": "separate"}, ""),
    ({"mode": "separate", "copy_ignored": True}, "in the workspace"),
    ({"mode": "shared"}, "at homein /tmpin the workspace"),
)


async def test_modes_differ_in_what_is_left_of_the_agent(bench: ValidationBench, engine: Engine) -> None:
    for config, seen in SEEN:
        done = await bench.run(LEAVES_TRACES, build_cmd=SHOW, **config, **WITH_HIDDEN)
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
    with pytest.raises(YouBenchaError, match="youbencha/none:missing"):
        await bench.run(writes(SOLUTION), image="youbencha/none:missing", mode="separate")


async def test_a_missing_runner_is_named_before_the_agent_runs(bench: ValidationBench) -> None:
    with pytest.raises(YouBenchaError, match=r'after ".*python3: No module named pytest"') as raised:
        await bench.run(writes(SOLUTION), test_cmd="python3 -m pytest -q")
    assert raised.value.code == "VALIDATION_BROKEN"


async def test_variables_of_the_image_are_extended(tmp_path: Path, image: str, engine: Engine) -> None:
    name = f"youbencha/test-variables:{os.getpid()}"
    engine.build(name, f"FROM {image}\nENV PYTHONPATH=lib\n")
    try:
        bench = ValidationBench(tmp_path, name, start={**START, "lib/given.py": "ONE = 1\n"})
        done = await bench.run(writes({"calc.py": f"import given\n{SOLUTION['calc.py']}"}), **WITH_HIDDEN)
        assert done.result.status == "passed", done.result
    finally:
        engine.call("DELETE", f"/images/{name}")


CHECK = {"check.py": "#!/usr/bin/env python3\nimport calc\nraise SystemExit(calc.add(1, 1) != 2)\n"}
VOIDING = {
    "names that git refuses elsewhere": writes(dict.fromkeys(("git~1/x", ".git\\x", ".g\u200cit/x"), "x")),
    "an unreadable test program": "import os\nos.chmod('check.py', 0)",
    "no test program": "import os\nos.unlink('check.py')",
}


async def test_an_agent_cannot_void_its_trial(tmp_path: Path, image: str) -> None:
    bench = ValidationBench(tmp_path, image, start={**START, **CHECK})
    for name, program in VOIDING.items():
        done = await bench.run(program, test_cmd="./check.py")
        assert done.bundle.outcome is not None
        assert (done.bundle.outcome.name, done.scores) == ("unsolved", {"tests": 0.0}), name


def images_of_state(engine: Engine, owner: int | str) -> list[str]:
    """Images with the files of a harness's containers, by its process id."""
    found = engine.get("/images/json", filters=json.dumps({"label": ["youbencha.state"]}))
    return [each["Id"] for each in found if each["Labels"]["youbencha.state"].split("/")[2] == str(owner)]


async def test_changes_to_the_image_are_part_of_the_agents_state(bench: ValidationBench, engine: Engine) -> None:
    program = LEAVES_TRACES + "open('/opt/left', 'w').write('in the image')\n"
    show = "cat /opt/left 2>/dev/null; true"
    done = await bench.run(program, sandbox={"writable": True}, mode="shared", build_cmd=show)
    assert done.result.status == "passed", done.result
    assert done.log("build") == "in the image"
    assert done.log("baseline-build") == ""
    assert images_of_state(engine, os.getpid()) == []
    assert engine.containers(f"youbencha.run={done.directory.name}") == []


VALIDATES_LONG = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {path!r}
from validation_bench import ValidationBench
bench = ValidationBench(Path({root!r}), {image!r})
build = "test ! -e left || sleep 600"
asyncio.run(bench.run("open('left', 'w')", sandbox={{"writable": True}}, mode="shared", build_cmd=build))
"""


async def test_nothing_is_left_of_a_killed_harness(tmp_path: Path, image: str, engine: Engine) -> None:
    path = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    program = VALIDATES_LONG.format(path=path, root=str(tmp_path), image=image)
    harness = subprocess.Popen([sys.executable, "-c", program])
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not images_of_state(engine, harness.pid):
                assert harness.poll() is None
                await asyncio.sleep(0.05)
    finally:
        harness.kill()
        harness.wait()
    await reap_containers()
    assert images_of_state(engine, harness.pid) == []
    owned = engine.get("/containers/json", all="1", filters=json.dumps({"label": ["youbencha.owner"]}))
    assert not [each for each in owned if each["Labels"]["youbencha.owner"].split("/")[2] == str(harness.pid)]
