"""Another agent, or another model, for a test case that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class AgentChoice(NamedTuple):
    """What is None stays as the file says."""

    type: str | None = None
    version: str | None = None
    """Of its CLI. The file's is only good for the file's agent."""
    model: str | None = None

    def over(self, data: Any) -> Any:
        """The content of a test case, with this instead of what it says."""
        agent = data.get("agent") if isinstance(data, Mapping) else None
        if self == AS_WRITTEN or not isinstance(agent, Mapping):
            return data
        chosen = dict(agent)
        if self.type is not None:
            if self.type != agent.get("type"):
                chosen = _without(chosen, "version")
            chosen["type"] = self.type
        if self.version is not None:
            chosen = _without(chosen, "version") | {"version": self.version}
        if self.model is not None:
            chosen = _without(chosen, "model") | {"model": self.model}
        return {**data, "agent": chosen}


AS_WRITTEN = AgentChoice()


def _without(agent: dict[str, Any], name: str) -> dict[str, Any]:
    """It may stand beside `config` as well as in it."""
    rest = {key: value for key, value in agent.items() if key != name}
    config = rest.get("config")
    if isinstance(config, Mapping) and name in config:
        rest["config"] = {key: value for key, value in config.items() if key != name}
    return rest
