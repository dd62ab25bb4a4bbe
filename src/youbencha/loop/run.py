"""Run a loop: iterations of an agent in the user's directory, until the work is done and verified, or a limit is hit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from youbencha.events import EventSink
    from youbencha.loop.control import LoopControl
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.model import LoopState
    from youbencha.loop.plan import LoopPlan
    from youbencha.trial.context import Host


async def run_loop(
    plan: LoopPlan,
    host: Host,
    control: LoopControl,
    on_event: EventSink,
    *,
    directory: LoopDirectory,
) -> LoopState:
    """Run a loop to its end, and return its last state. `directory` is new, or that of a loop to continue."""
    raise NotImplementedError
