"""Options of `yb run` that say where the agent runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.spec.sandbox import SandboxSpec


def sandbox_option(kind: str | None, image: str | None, network: str | None) -> SandboxSpec | None:
    """None: as the test case and the settings say. An image, or a network, speaks of a container by itself."""
    if kind is None and image is None and network is None:
        return None
    from youbencha.spec.sandbox import Network, SandboxSpec, SandboxType

    if image is not None and not image.strip():
        raise YouBenchaError("OPTION_INVALID", "--image: no name is given", hint="Such as --image node:20-bookworm")
    _check("--sandbox", kind, get_args(SandboxType))
    _check("--network", network, get_args(Network))
    if kind == "local" and (image or network):
        option = "--image" if image else "--network"
        raise YouBenchaError("OPTION_INVALID", f"{option} is for containers", hint="Say --sandbox docker.")
    given: dict[str, Any] = {"type": kind or "docker", "image": image, "network": network}
    return SandboxSpec(**{name: value for name, value in given.items() if value is not None})


def _check(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise YouBenchaError("OPTION_INVALID", f"{option} cannot be {value}", hint=f"It is one of {', '.join(known)}.")
