"""Find an adapter by its agent's name. Adapters of others join by an entry point in `youbencha.adapters`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from youbencha.adapters.base import AgentAdapter
from youbencha.errors import YouBenchaError

GROUP = "youbencha.adapters"


def adapter_names() -> list[str]:
    return sorted(_found())


def get_adapter(name: str) -> AgentAdapter:
    """The adapter for `agent.type: NAME`, made anew."""
    found = _found()
    if name not in found:
        raise YouBenchaError(
            "AGENT_UNKNOWN",
            f"There is no adapter for an agent called {name!r}.",
            hint=f"There are: {', '.join(sorted(found))}. Install the package that brings yours, or mend the name.",
        )
    try:
        adapter = found[name].load()()
    except Exception as error:
        raise _broken(found[name], f"cannot be loaded: {error}") from error
    if not isinstance(adapter, AgentAdapter):
        raise _broken(found[name], "lacks name, version, check_availability, execute or normalize_log")
    return adapter


def _broken(point: EntryPoint, why: str) -> YouBenchaError:
    return YouBenchaError(
        "ADAPTER_BROKEN",
        f"The adapter for {point.name} ({point.value}) {why}.",
        hint="Ask the author of its package; docs/writing-an-adapter.md says what an adapter needs.",
    )


def _found() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
