"""The options of `thunderdome run` about where trials run: here, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.engine.executor import OpensExecutor
    from youbencha.engine.matrix import Matrix
    from youbencha.engine.ray_cluster import Cluster
    from youbencha.spec.arena_loader import Arena

_WHERE = "Where it runs"


class ExecutorName(StrEnum):
    LOCAL = "local"
    RAY = "ray"


Executor = Annotated[
    ExecutorName, typer.Option(help="Run trials in this process, or on a Ray cluster.", rich_help_panel=_WHERE)
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster. Default: $RAY_ADDRESS; without that, Ray is started here.",
        rich_help_panel=_WHERE,
    ),
]


class TrialPlace(NamedTuple):
    """Where trials run."""

    cluster: Cluster | None
    """None: in this process."""

    def open_executor(self, matrix: Matrix, arena: Arena, results: Path) -> OpensExecutor | None:
        """Make what opens the executor; None: trials run here. Raises if no node of the cluster can run a trial."""
        if self.cluster is None:
            return None
        from youbencha.engine.ray_executor import check_resources, opens_ray_executor
        from youbencha.engine.shipping import check_files

        check_resources(matrix, self.cluster)
        for cell in matrix.cells:
            check_files(cell.plan)
        secrets = arena.spec.secrets.env_file
        never = [results, *([arena.directory / Path(secrets).expanduser()] if secrets else [])]
        return opens_ray_executor(self.cluster, never_sent=never)


HERE = TrialPlace(None)


class ExecutorOptions(NamedTuple):
    name: ExecutorName
    address: str | None

    def check(self) -> None:
        if self.address is not None and self.name is ExecutorName.LOCAL:
            hint = "Add --executor ray."
            raise YouBenchaError("OPTION_INVALID", "--address is the address of a Ray cluster.", hint=hint)

    @asynccontextmanager
    async def opened(self, env: Mapping[str, str]) -> AsyncIterator[TrialPlace]:
        """Connect to the cluster, if that is where trials run."""
        if self.name is ExecutorName.LOCAL:
            yield HERE
            return
        from youbencha.engine.ray_cluster import connect

        async with connect(self.address, env) as cluster:
            yield TrialPlace(cluster)
