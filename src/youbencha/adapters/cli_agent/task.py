"""One run, as far as it is known before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from youbencha.adapters.cli_agent.config import AgentConfig
from youbencha.adapters.cli_agent.locate import Cli
from youbencha.gateway.access import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE

C = TypeVar("C", bound=AgentConfig)


class Task(NamedTuple, Generic[C]):
    config: C
    """With the test case's own model in it, if it names one."""
    cli: Cli[str]
    prompt: str
    workspace: Path
    artifacts: Path
    scratch: Path
    """An empty directory outside the workspace, gone after the run: for prompts and settings in files."""
    env: Mapping[str, str]
    """What the agent runs with."""
    given: Mapping[str, str] = MappingProxyType({})
    """What the test case gives for it. Behind a gateway, not all of it is in `env`."""
    gateway: GatewayAccess | None = None
    config_dir: Path | None = None
    """Where the file lies that the configuration comes from."""
    sandbox: Sandbox = HERE
    """Where the agent runs. Paths here are the host's; what the agent is told of them is `seen`."""

    def seen(self, path: Path) -> str:
        """How the agent names a file of the host: in its arguments, its environment, its settings."""
        return self.sandbox.inside(path)

    def unseen(self, path: Path | None) -> Path | None:
        """Where the host has what the agent names so, if it has it at all."""
        return None if path is None else self.sandbox.outside(str(path))
