"""`ralph doctor`: show what a loop needs, what is missing, and how to fix it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli.loop.config import Config, Hats, loop_sources


def doctor(
    config: Config = None,
    hats: Hats = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For each check.")] = 30.0,
) -> int:
    """Check what a loop needs, and suggest fixes.

    The configuration, the prompt, the repository, and each backend with its version and login.

    Exit code 0 if a loop can be started here; 2 if not.
    """
    import os

    from youbencha.cli.doctor import show_diagnosis
    from youbencha.cli.interrupts import run_async
    from youbencha.doctor import examine_loop

    sources = loop_sources(config, hats)
    diagnosis = run_async(examine_loop(Path.cwd(), Path.home(), os.environ, **sources._asdict(), deadline_s=timeout))
    return show_diagnosis(diagnosis, "`ralph run` starts the loop", as_json=as_json)
