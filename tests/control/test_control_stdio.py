"""The driver with a real program at the other end of its standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from youbencha.adapters.claude_code.control import ControlProtocol, Timeouts
from youbencha.adapters.claude_code.transports import Driver, StdioTransport
from youbencha.control import SessionMetrics
from youbencha.events import Event, ToolDecided
from youbencha.process import Command, ProcessResult, run

PATIENT = Timeouts(handshake_s=60)
AGENT = """
import functools, json, sys, time
def say(**message): send(json.dumps(message))
def send(line): sys.stdout.write(line + "\\n"); sys.stdout.flush()
print = functools.partial(print, file=sys.stderr)
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)
def begin():
    asked = hear()
    say(type="control_response", response=dict(subtype="success", request_id=asked["request_id"], response={}))
    return asked["request"], hear()["message"]["content"][0]["text"]
def result(): say(type="result", subtype="success", is_error=False, num_turns=1)
"""


class Talk:
    """One session with a script, and all that came of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.events: list[Event] = []
        self.metrics = SessionMetrics()
        self.driver: Driver | None = None
        self.done: ProcessResult | None = None

    async def with_agent(
        self,
        script: str,
        *,
        timeouts: Timeouts = PATIENT,
        at: Callable[[Driver, bytes], None] | None = None,
        **line_options: Any,
    ) -> None:
        now = asyncio.get_running_loop().time()
        driver = Driver(
            ControlProtocol("Do it.", timeouts=timeouts, now=now),
            on_event=self.events.append,
            on_record=self.metrics.on_record,
        )
        async with StdioTransport(driver, **line_options) as line:

            def on_line(text: bytes) -> None:
                line.line(text)
                if at:
                    at(driver, text)

            command = Command((sys.executable, "-S", "-c", AGENT + script), self._directory, {}, stdin=line.stdin)
            self.done = await run(command, on_line=on_line, stop=line.stop)
        self.driver = driver

    @property
    def over(self) -> tuple[bool, str]:
        assert self.driver is not None
        assert self.driver.ended is not None
        return tuple(self.driver.ended)  # type: ignore[return-value]

    @property
    def said(self) -> str:
        assert self.done is not None
        return "\n".join(line for line in self.done.output.splitlines() if not line.startswith("{"))

    def decisions(self) -> list[tuple[str | None, str, bool]]:
        return [(event.call_id, event.name, event.allowed) for event in self.events if isinstance(event, ToolDecided)]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


async def test_a_question_about_a_tool(talk: Talk) -> None:
    script = """
begin()
asked = dict(subtype="can_use_tool", tool_name="Read", tool_use_id="call-1", input=dict(file_path="a"))
say(type="control_request", request_id="2", request=asked)
print("answer", hear()["response"]["response"])
result()
"""
    await talk.with_agent(script)
    assert talk.said == "answer {'behavior': 'allow', 'updatedInput': {'file_path': 'a'}}"
    assert talk.decisions() == [("call-1", "Read", True)]
    assert talk.over == (True, "completed")


async def test_an_interrupted_agent_reports_its_usage(talk: Talk) -> None:
    script = """
begin()
say(type="assistant", message=dict(id="m", content=[dict(type="tool_use", id="1", name="Bash", input={})]))
assert hear()["request"]["subtype"] == "interrupt"
say(type="result", subtype="error_during_execution", is_error=False, usage=dict(input_tokens=7, output_tokens=1))
time.sleep(600)
"""

    def at_the_call(driver: Driver, line: bytes) -> None:
        if b"tool_use" in line:
            driver.interrupt("enough")

    await talk.with_agent(script, at=at_the_call)
    assert talk.over == (False, "enough")
    assert talk.driver is not None
    assert talk.metrics.sidecar(talk.driver.protocol)["input_tokens"] == 7
    assert talk.done is not None
    assert talk.done.stopped


async def test_an_agent_that_ignores_the_interrupt(talk: Talk) -> None:
    def at_the_call(driver: Driver, line: bytes) -> None:
        if b"assistant" in line:
            driver.interrupt("enough")

    script = "begin(); say(type='assistant', message=dict(id='m', content=[])); time.sleep(600)"
    await talk.with_agent(script, at=at_the_call, timeouts=Timeouts(interrupt_s=0.2))
    assert talk.over == (False, "enough")


async def test_a_silent_agent(talk: Talk) -> None:
    await talk.with_agent("begin(); time.sleep(600)", timeouts=Timeouts(silence_s=0.3))
    assert talk.over == (False, "the agent sent no message for 0.3 s")


async def test_an_agent_that_exits_without_a_result(talk: Talk) -> None:
    await talk.with_agent("begin(); sys.exit(4)")
    assert talk.over == (False, "the agent disconnected without a result")
    assert talk.done is not None
    assert talk.done.exit.code == 4


async def test_end_session_comes_before_the_end_of_file(talk: Talk) -> None:
    script = "begin(); result(); print(hear()['request']['subtype']); print(repr(sys.stdin.readline()))"
    await talk.with_agent(script, knows_end_session=True)
    assert talk.said == "end_session\n''"
    assert talk.over == (True, "completed")


async def test_an_agent_that_stays_after_its_result_is_ended(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youbencha.adapters.claude_code.transports.EXIT_TIMEOUT_S", 0.1)
    await talk.with_agent("begin(); result(); time.sleep(600)")
    assert talk.over == (True, "completed")
    assert talk.done is not None
    assert talk.done.stopped


async def test_a_lone_surrogate_is_returned_unchanged(talk: Talk) -> None:
    """JavaScript cuts texts between the halves of a pair; the answer must not be another input."""
    script = r"""
begin()
send('{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Write",'
     '"input":{"content":"\\ud83d"}}}')
print(ascii(hear()["response"]["response"]["updatedInput"]["content"]))
result()
"""
    await talk.with_agent(script)
    assert talk.said == r"'\ud83d'"
