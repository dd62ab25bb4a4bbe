"""A real Ray cluster on this machine: a head without CPUs, and two nodes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

from youbencha.engine.matrix import Matrix
from youbencha.engine.ray.cluster import TOKEN_VARIABLE, authentication, connect
from youbencha.engine.ray.executor import opens_ray_executor
from youbencha.engine.run import MatrixOptions, run_matrix
from youbencha.engine.updates import MatrixSummary, UpdateSink
from youbencha.spec.arena import RetrySpec
from youbencha.store.arena_run import ArenaRun
from youbencha.trial.context import Host

_NOTICED_SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
"""By default, it takes Ray 15 seconds to notice that a node is gone."""


class RayBench:
    """Nodes have a home, and so a cache, of their own. Requests need a token."""

    token: ClassVar[Mapping[str, str]] = {TOKEN_VARIABLE: "a" * 64}
    """The variable that lets a driver connect."""

    def __init__(self, root: Path) -> None:
        from ray.cluster_utils import Cluster

        self.home = root / "node-home"
        self.home.mkdir()
        self.cache = self.home / ".cache" / "youbencha"
        self._temp = Path(tempfile.mkdtemp(prefix="yb-ray-", dir="/tmp"))  # Ray's sockets need a short path
        ray_dir = self._temp / "ray"
        ray_dir.mkdir()  # `Cluster` writes its address there before it creates the directory
        with self._environment():
            self.cluster = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 0,
                    "include_dashboard": False,
                    "include_log_monitor": False,
                    "_system_config": _NOTICED_SOON,
                    "temp_dir": str(ray_dir),
                },
            )
        self.nodes: list[Any] = []

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add_node(self, *, cpus: int = 1, env: Mapping[str, str] | None = None) -> Any:
        with self._environment():
            return self.cluster.add_node(num_cpus=cpus, include_log_monitor=False, env_vars=dict(env or {}))

    def with_two_nodes(self) -> Self:
        """As a test needs it, whatever the one before it did."""
        while len(self.nodes) < 2:
            self.nodes.append(self.add_node())
        return self

    @contextmanager
    def _environment(self) -> Iterator[None]:
        import ray

        before = dict(os.environ)
        os.environ.update({"HOME": str(self.home), "RAY_TMPDIR": str(self._temp), "RAY_USAGE_STATS_ENABLED": "0"})
        try:
            with authentication(ray, self.token[TOKEN_VARIABLE]):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def kill(self, node: Any) -> None:
        """Kill a node at once, with all of its processes, as a power failure does."""
        self.nodes.remove(node)
        raylets = [each.process.pid for some in node.all_processes.values() for each in some]
        for pid in raylets:
            process = psutil.Process(pid)
            for each in (process, *process.children()):
                each.send_signal(signal.SIGKILL)

    def processes(self) -> list[psutil.Process]:
        """Everything that was started by the cluster."""
        return [process for node in self.cluster.list_all_nodes() for process in self.processes_of(node)]

    def processes_of(self, node: Any) -> list[psutil.Process]:
        return [
            child
            for some in node.all_processes.values()
            for each in some
            if psutil.pid_exists(each.process.pid)
            for child in (psutil.Process(each.process.pid), *psutil.Process(each.process.pid).children(recursive=True))
        ]

    def close(self) -> None:
        left = self.processes()
        with self._environment():
            self.cluster.shutdown()
        for process in left:
            if process.is_running():
                process.kill()
        shutil.rmtree(self._temp, ignore_errors=True)

    async def run(
        self, matrix: Matrix, host: Host, run: ArenaRun, on_update: UpdateSink = lambda _: None, **options: Any
    ) -> MatrixSummary:
        async with connect(self.address, {**host.env, **self.token}) as cluster:
            chosen = MatrixOptions(
                **{
                    "parallel": cluster.cpus,
                    "retries": RetrySpec(backoff_s=0.1),
                    "listen": cluster.driver_host,
                    **options,
                }
            )
            opens = opens_ray_executor(cluster, never_sent=[run.path])
            return await run_matrix(matrix, host, run, chosen, on_update, open_executor=opens)

    def assert_nothing_is_left(self) -> None:
        """No directory of an attempt, and no process of an agent."""
        for name in ("attempts", "runs"):
            assert list((self.cache / name).iterdir()) == []
