"""Loops whose agent runs in a container."""

from __future__ import annotations

import os

import pytest
from loop_bench import LoopBench

from docker_engine import Engine
from youbencha.events import TopicPublished

pytestmark = pytest.mark.timeout(180)


async def test_a_loop_in_a_container(loops: LoopBench, engine: Engine, image: str) -> None:
    script = """
echo "$N" > count; id -u > user
ralph emit build.done "from $RALPH_ITERATION" && ralph tools task list > /dev/null || exit 1
[ $N = 2 ] && echo LOOP_COMPLETE
exit 0
"""
    counter = "/tmp/sessions"
    loops.configure(script, sandbox={"type": "docker", "image": image, "network": "none"})
    program = loops.root / "agent.sh"
    program.write_text(program.read_text().replace(str(loops.root / "sessions"), counter))
    before = loops.users_state()
    state = await loops.run(loops.host(DOCKER_HOST=os.environ.get("DOCKER_HOST", "")))
    assert (state.outcome, state.iterations) == ("completed", 2), loops.events
    payloads = [event.payload for event in loops.of_type(TopicPublished)]
    assert payloads == ["from 1", "from 2"]
    assert (loops.tree / "count").stat().st_uid == os.getuid()
    assert loops.users_state() == before
