"""Find an adapter by its agent's name. Other packages add theirs by an entry point in `youbencha.adapters`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from youbencha.adapters.base import AgentAdapter, BaseAdapter, complete_adapter
from youbencha.errors import YouBenchaError
from youbencha.plugins import ADAPTERS, load

_ALIASES = {"codex-cli": "codex"}
"""Names that older test cases use."""


def adapter_names() -> list[str]:
    return ADAPTERS.names()


def adapter_descriptions() -> dict[str, str]:
    """Return a description of each adapter's agent, by name; empty for adapters of other packages."""
    return {name: built_in_adapters()[name].summary if name in ADAPTERS.built_in else "" for name in adapter_names()}


@cache
def built_in_adapters() -> dict[str, type[BaseAdapter]]:
    return {name: load(where) for name, where in ADAPTERS.built_in.items()}


def get_adapter(name: str, env: Mapping[str, str] | None = None) -> BaseAdapter:
    """Create the adapter for `agent.type: NAME`. `env` is the harness's environment, by default this process's."""
    kind = _ALIASES.get(name, name)
    where = ADAPTERS.find(kind)
    if where is None:
        raise _unknown(name)
    try:
        adapter: AgentAdapter = load(where)()
    except Exception as error:
        raise _broken(kind, where, f"cannot be loaded: {error}") from error
    if not isinstance(adapter, AgentAdapter):
        raise _broken(kind, where, "lacks name, version, check_availability, execute or normalize_log")
    if env is not None and hasattr(adapter, "harness_env"):
        adapter.harness_env = env
    return complete_adapter(adapter)


def _unknown(name: str) -> YouBenchaError:
    return YouBenchaError(
        "AGENT_UNKNOWN", f"There is no adapter for an agent called {name!r}.", hint=ADAPTERS.hint(name)
    )


def _broken(name: str, where: str, why: str) -> YouBenchaError:
    return YouBenchaError(
        "ADAPTER_BROKEN",
        f"The adapter for {name} ({where}) {why}.",
        hint="Report it to the author of the package. youBencha's guide to writing an adapter lists the requirements.",
    )
