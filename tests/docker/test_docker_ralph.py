"""`ralph emit` and `ralph tools` for an agent in a container, which has neither youBencha nor rights on the host."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from docker_boxes import PATIENCE_S, Box

from youbencha.loop.agent_commands import Place
from youbencha.loop.container_tools import ContainerTools
from youbencha.loop.memories import Memories
from youbencha.loop.tasks import TaskList
from youbencha.loop.topics import TopicLog
from youbencha.process import Command, Limits, ProcessResult
from youbencha.sandbox.docker.sandbox import DockerSandbox


class RalphBox:
    """A container in which `ralph` is answered."""

    def __init__(self, box: Box, sandbox: DockerSandbox, root: Path) -> None:
        self.tree = box.workspace
        self.log = TopicLog(self.tree / ".ralph" / "events-1.jsonl", self.tree)
        self._box, self._sandbox = box, sandbox
        self._tools = ContainerTools(sandbox, Place(self.tree, self.log, "loop-1", confined=True), root / "bin")

    async def sh(self, script: str) -> ProcessResult:
        env = {**self._sandbox.environment({}), **self._tools.variables}
        command = Command(("sh", "-c", script), self.tree, env)
        async with self._tools.answering():
            return await self._sandbox.run(command, limits=Limits(timeout_s=PATIENCE_S))


@pytest.fixture
async def ralph(tmp_path: Path, engine: object, image: str) -> AsyncIterator[RalphBox]:
    box = Box(tmp_path, image)
    async with box.open() as sandbox:
        yield RalphBox(box, sandbox, tmp_path)


async def test_an_agent_in_a_container_publishes_events_and_keeps_tasks_and_memories(ralph: RalphBox) -> None:
    done = await ralph.sh(
        """
        set -e
        command -v python3 git > /dev/null
        ralph emit build.done "tests: pass
        second line"
        "$RALPH_BIN" emit merge.complete --json '{"a": 1}'
        id=$(ralph tools task ensure 'It'"'"'s "odd" $HOME *' --key k -p 1 --format quiet)
        ralph tools task start "$id"
        ralph tools memory add 'Ünïcode' -t fix --tags a,b --format quiet > /dev/null
        ralph tools task list
        """
    )
    assert done.exit.code == 0, done.output
    assert 'in_progress  1         It\'s "odd" $HOME *' in done.output
    first, second = ralph.log.read_new().events
    assert (first.topic, first.payload.split()) == ("build.done", ["tests:", "pass", "second", "line"])
    assert (second.topic, second.payload) == ("merge.complete", '{"a":1}')
    (task,) = TaskList(ralph.tree).all()
    assert (task.title, task.status, task.loop_id) == ('It\'s "odd" $HOME *', "in_progress", "loop-1")
    assert [memory.content for memory in Memories(ralph.tree).all()] == ["Ünïcode"]
    assert os.listdir(ralph.tree / ".ralph" / "requests") == []


async def test_calls_at_the_same_time(ralph: RalphBox) -> None:
    done = await ralph.sh(
        "for n in $(seq 30); do ralph emit event.$n & ralph tools task add task-$n > /dev/null & done; wait"
    )
    assert done.exit.code == 0
    assert done.output.count("published") == 30
    assert len({event.topic for event in ralph.log.read_new().events}) == len(TaskList(ralph.tree).all()) == 30


LEFT = (
    "until rmdir requests && ln -sT / requests; do :; done",
    "until rmdir requests && touch requests && [ -f requests ]; do :; done",
    "chmod 0 requests",
)
"""The harness may make the directory again between two commands."""


@pytest.mark.parametrize("left", LEFT)
async def test_anything_in_place_of_the_requests_directory_is_replaced(ralph: RalphBox, left: str) -> None:
    assert (await ralph.sh(f"cd .ralph; {left}")).exit.code == 0
    assert (await ralph.sh("ralph emit again")).exit.code == 0
    assert [event.topic for event in ralph.log.read_new().events] == ["again"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("ralph", "the commands are"),
        ("ralph run -p x", "the commands are"),
        ("ralph emit 'two words'", "TOPIC_INVALID"),
        ("ralph emit a --file /etc/x", "other files"),
        ("ralph tools task add x --root /", "other files"),
        ("ralph emit a $(head -c 100000 /dev/zero | tr '\\0' x)", "PAYLOAD_TOO_LARGE"),
        ("RALPH_REQUESTS= ralph emit a", "no loop is running"),
    ],
)
async def test_what_is_refused(ralph: RalphBox, call: str, said: str) -> None:
    done = await ralph.sh(call)
    assert done.exit.code == 2
    assert said in done.output


async def test_the_script_cannot_be_changed(ralph: RalphBox) -> None:
    done = await ralph.sh('echo "#!/bin/sh" > "$RALPH_BIN" || rm -f "$RALPH_BIN" || ralph emit still.mine')
    assert done.exit.code == 0
    assert [event.topic for event in ralph.log.read_new().events] == ["still.mine"]


HOSTILE = """
cd .ralph/requests
mkfifo 00000000000000aa.request
mkdir 00000000000000ab.request
ln -s /etc/passwd 00000000000000ac.request
head -c 3000000 /dev/zero > 00000000000000ad.request
printf 'emit\\0../../x\\0' > ../x.request
ln -s /etc/passwd 00000000000000ae.answer
printf 'emit\\0planted\\0' > 00000000000000ae.part && mv 00000000000000ae.part 00000000000000ae.request
ralph emit after.all
"""


async def test_hostile_requests_do_not_stop_the_others(ralph: RalphBox) -> None:
    done = await ralph.sh(HOSTILE)
    assert done.exit.code == 0, done.output
    assert {event.topic for event in ralph.log.read_new().events} == {"planted", "after.all"}
    assert (ralph.tree / ".ralph" / "requests" / "00000000000000ae.answer").read_text() == "0\npublished planted\n"


async def test_a_directory_that_leads_elsewhere_is_not_used(ralph: RalphBox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "00000000000000aa.request").write_bytes(b"emit\0x\0")
    # The loop may just be making the directory again: then `ln` fails, instead of putting the link into the new one.
    # It looks every 20 ms.
    done = await ralph.sh(
        f"until rm -rf .ralph/requests && ln -sT '{outside}' .ralph/requests; do :; done; ralph emit a; sleep 0.2"
    )
    assert "no loop is running" in done.output
    assert (os.readlink(ralph.tree / ".ralph" / "requests"), ralph.log.read_new().events) == (str(outside), ())
    assert os.listdir(outside) == ["00000000000000aa.request"]
    (ralph.tree / ".ralph" / "requests").unlink()
