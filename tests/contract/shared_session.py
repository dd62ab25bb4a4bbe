"""One session of the real CLI that several tests look at: the first of them runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from claude_bench import ClaudeBench, Session
from youbencha.sandbox.toolbox.installed import InstalledAgent

_kept: dict[tuple[str, str], Shared] = {}


class Shared(NamedTuple):
    claude: ClaudeBench
    session: Session


async def shared(
    run: Callable[[ClaudeBench], Awaitable[Session]], cli: InstalledAgent, directories: pytest.TempPathFactory
) -> Shared:
    """What `run` did with this CLI, once in this process."""
    key = (run.__qualname__, cli.version)
    if key not in _kept:
        claude = ClaudeBench(cli, directories.mktemp(run.__name__))
        _kept[key] = Shared(claude, await run(claude))
    return _kept[key]
