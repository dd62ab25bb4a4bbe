"""`ralph guide`: give guidance to a running loop from another shell."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli import options
from youbencha.errors import YouBenchaError


def guide(
    words: Annotated[list[str], typer.Argument(metavar="TEXT", help="What the agent should know or do.")],
) -> int:
    """Give guidance to the loop that is running in this directory.

    It becomes part of the next prompt; the present iteration does not see it.

    Example: `ralph guide "Leave the public API alone"`
    """
    from youbencha.loop.directory import LoopDirectory
    from youbencha.loop.topics import MAX_PAYLOAD, TopicEvent, find_project
    from youbencha.store.loop_lock import running_loop
    from youbencha.text import iso_time

    text = " ".join(words).strip()
    if not text or len(text) > MAX_PAYLOAD:
        raise YouBenchaError("GUIDANCE_INVALID", f"Guidance must have between 1 and {MAX_PAYLOAD:,} characters.")
    tree = find_project(os.environ, Path.cwd())
    running = running_loop(tree, options.host_here().cache_dir)
    if running is None or running.loop_id is None:
        hint = "Change to the loop's directory, or start one with `ralph run`."
        raise YouBenchaError("LOOP_NOT_RUNNING", f"No loop is running in {tree}.", hint=hint)
    LoopDirectory(tree, running.loop_id).guidance.append(TopicEvent("guidance", text, iso_time(time.time())))
    typer.echo(f"The next prompt of loop {running.loop_id} will include it.")
    return 0
