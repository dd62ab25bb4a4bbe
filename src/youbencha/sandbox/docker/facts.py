"""What an engine is and can, as it tells by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker.where import REMOTE_ENGINE


class Facts(NamedTuple):
    name: str
    version: str
    architecture: str
    kernel: str
    cpus: int | None
    rootless: bool
    remaps_users: bool
    selinux: bool
    memory_limit: bool
    pids_limit: bool
    cpu_limit: bool

    def cannot(self) -> Iterator[str]:
        """The limits that it would not enforce, in words."""
        can = {
            "memory": self.memory_limit,
            "the number of processes": self.pids_limit,
            "processor time": self.cpu_limit,
        }
        return (what for what, possible in can.items() if not possible)


def read_facts(told: Mapping[str, Any]) -> Facts:
    """The engine's `/info`, as far as it matters. What an engine does not mention, it is taken to be able to do."""
    options = " ".join(told.get("SecurityOptions") or ())
    return Facts(
        name="Podman" if "BuildahVersion" in told else "Docker",
        version=str(told.get("ServerVersion") or "unknown"),
        architecture=str(told.get("Architecture") or ""),
        kernel=str(told.get("KernelVersion") or ""),
        cpus=told.get("NCPU") or None,
        rootless="name=rootless" in options or bool(told.get("Rootless")),
        remaps_users="name=userns" in options,
        selinux="name=selinux" in options,
        memory_limit=bool(told.get("MemoryLimit", True)),
        pids_limit=bool(told.get("PidsLimit", True)),
        cpu_limit=bool(told.get("CpuCfsQuota", True)),
    )


def check_same_computer(facts: Facts) -> None:
    """Refuse an engine in a virtual machine (Docker Desktop): it shares neither our kernel nor our sockets."""
    here = os.uname().release if hasattr(os, "uname") else ""
    if facts.kernel != here:
        raise YouBenchaError(
            REMOTE_ENGINE,
            "The container engine runs in a virtual machine or on another host: "
            f"its kernel is {facts.kernel or 'unknown'}, this host's is {here or 'not Linux'}.",
            hint="Only an engine on this Linux host is supported (Docker or Podman, rootful or rootless). "
            "Docker Desktop and `podman machine` run containers in a virtual machine, which Unix sockets of this host "
            "do not reach. Install an engine on this host (in WSL: in the same distribution), or use `sandbox: local`.",
        )
