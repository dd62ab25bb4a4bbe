"""Loops whose agent runs in a container."""

from __future__ import annotations

import os
from typing import Any

import pytest
from loop_bench import LoopBench

from docker_engine import Engine
from youbencha.events import TopicPublished
from youbencha.trial.context import Host

pytestmark = pytest.mark.timeout(180)


def in_container(loops: LoopBench, script: str, image: str, **more: Any) -> Host:
    loops.configure(script, sandbox={"type": "docker", "image": image, "network": "none"}, **more)
    program = loops.root / "agent.sh"
    program.write_text(program.read_text().replace(str(loops.root / "sessions"), "/tmp/sessions"))
    return loops.host(DOCKER_HOST=os.environ.get("DOCKER_HOST", ""))


async def test_a_loop_in_a_container(loops: LoopBench, engine: Engine, image: str) -> None:
    script = """
echo "$N" > count; id -u > user
ralph emit build.done "from $RALPH_ITERATION" && ralph tools task list > /dev/null || exit 1
[ $N = 2 ] && echo LOOP_COMPLETE
exit 0
"""
    host = in_container(loops, script, image)
    before = loops.users_state()
    state = await loops.run(host)
    assert (state.outcome, state.iterations) == ("completed", 2), loops.events
    payloads = [event.payload for event in loops.of_type(TopicPublished)]
    assert payloads == ["from 1", "from 2"]
    assert (loops.tree / "count").stat().st_uid == os.getuid()
    assert loops.users_state() == before


async def test_the_configuration_is_read_only(loops: LoopBench, engine: Engine, image: str) -> None:
    script = "echo 'sandbox: local' >> ralph.yml; rm -f ralph.yml; mv ralph.yml x; mv x ralph.yml; echo LOOP_COMPLETE"
    host = in_container(loops, f"exec 2>&1; {script}", image)
    config = (loops.root / "ralph.yml").rename(loops.tree / "ralph.yml")
    (loops.root / "ralph.yml").symlink_to(config)
    before = config.read_text()
    assert (await loops.run(host)).outcome == "completed"
    assert config.read_text() == before


async def test_gates_leave_the_users_repository_as_it_is(loops: LoopBench, engine: Engine, image: str) -> None:
    """Only the tree of a test case is sanitized after a container; the directory of a loop is the user's own."""
    git_dir = loops.tree / ".git"
    (git_dir / "hooks").mkdir(exist_ok=True)
    (git_dir / "hooks/pre-commit").write_text("#!/bin/sh\ntrue\n")
    with (git_dir / "config").open("a") as file:
        file.write('[remote "origin"]\n\turl = https://git.example.invalid/shop.git\n')
    before = (git_dir / "config").read_text()
    gates = [{"name": name, "command": "true"} for name in ("first", "second")]
    state = await loops.run(in_container(loops, "echo LOOP_COMPLETE", image, gates=gates))
    assert state.outcome == "completed", loops.events
    assert (git_dir / "config").read_text() == before
    assert (git_dir / "hooks/pre-commit").is_file()


async def test_nothing_is_written_through_a_link_in_place_of_the_loops_files(
    loops: LoopBench, engine: Engine, image: str
) -> None:
    """Neither the agent nor what a gate runs can put one there."""
    outside = loops.root / "outside"
    outside.mkdir()
    attack = f"loop=$(ls -d .ralph/loops/*); mv .ralph old; mkdir -p .ralph/loops; ln -sfT {outside} $loop"
    gates = [{"name": "first", "command": f"{attack}; false"}, {"name": "second", "command": "echo second; false"}]
    host = in_container(
        loops, f"exec 2>&1; {attack}; echo LOOP_COMPLETE", image, gates=gates, event_loop={"max_iterations": 2}
    )
    await loops.run(host)
    assert list(outside.iterdir()) == []
    assert not (loops.tree / "old").exists()
    assert [[gate.status for gate in record.gates] for record in loops.history().records] == [["failed"] * 2] * 2
