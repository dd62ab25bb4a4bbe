"""Seed 004, TUI forwarding: a tool call is seen while the agent is still at work."""

from __future__ import annotations

import asyncio

from claude_lab import ClaudeLab, bash, script
from youbencha.events import Event, ProcessEnded, ToolCalled, ToolReturned


async def test_tools_are_seen_while_the_next_answer_has_not_come(lab: ClaudeLab) -> None:
    """The next answer never comes, so whatever is seen was seen before it."""
    events: list[Event] = []
    returned = asyncio.Event()

    def see(event: Event) -> None:
        events.append(event)
        if isinstance(event, ToolReturned):
            returned.set()

    async with lab.model(script(bash("echo here I am"), {"text": "...", "hang": True})) as model:
        running = asyncio.create_task(lab.adapter().execute(lab.context(model, on_event=see)))
        waiting = asyncio.create_task(returned.wait())
        await asyncio.wait({running, waiting}, timeout=90, return_when=asyncio.FIRST_COMPLETED)
        assert returned.is_set()
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})
    called = next(event for event in events if isinstance(event, ToolCalled))
    back = next(event for event in events if isinstance(event, ToolReturned))
    assert (called.name, called.arguments["command"]) == ("Bash", "echo here I am")
    assert (back.call_id, back.content) == (called.call_id, "here I am")
    assert events.index(called) < events.index(back)
    assert not [event for event in events if isinstance(event, ProcessEnded)]
