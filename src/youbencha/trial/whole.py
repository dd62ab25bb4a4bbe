"""One test case from its repository to its verdict."""

from __future__ import annotations

import asyncio
import contextlib

from youbencha.events import EventSink
from youbencha.trial.ahead import load_ahead
from youbencha.trial.finished import Finished
from youbencha.trial.plan import Plan
from youbencha.trial.preparing import prepare


async def run_test_case(plan: Plan, *, on_event: EventSink, delete_workspace: bool = False) -> Finished:
    """Run a plan to its end. What prevents a start raises, and leaves nothing behind; everything else is a result.

    A cancellation leaves a valid bundle of what was finished, marked as interrupted.
    """
    async with contextlib.AsyncExitStack() as opened:
        opened.callback(asyncio.create_task(load_ahead()).cancel)
        ready = await prepare(plan, on_event, opened)
        from youbencha.trial.run import Trial  # loaded while git worked

        trial = Trial(plan, ready, on_event)
        with trial.directory:
            try:
                return await trial.run(delete_workspace=delete_workspace)
            except asyncio.CancelledError:
                await trial.keep_what_is_finished()
                raise
