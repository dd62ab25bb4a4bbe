"""Where a trial's agent runs: on the host, or in a container."""

import re
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, Line, ShortForm, StrictModel, added
from youbencha.spec.problems import ProblemAt

SandboxType = Literal["local", "docker"]
Network = Literal["gateway", "none", "open"]
Home = Literal["auto", "fresh", "own"]
AgentFrom = Literal["toolbox", "image"]

DEFAULT_IMAGE = "node:20-bookworm"
"""The image in Thunderdome's documentation; besides Node, it has git, Python and a compiler."""

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$"
MIN_BYTES = 16 * 1024**2


def _bytes(value: object) -> object:
    """Parse `4g`, `512 MiB`, or a number of bytes."""
    if not isinstance(value, str):
        return value
    match = re.match(_SIZE, value.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size such as 4g, 512m or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].lower()])


Size = Annotated[int, Field(ge=MIN_BYTES), BeforeValidator(_bytes, json_schema_input_type=str | int)]

_HOST = r"^(?:(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$"
_PORTS = range(1, 65536)


def _host(value: str) -> str:
    match = re.match(_HOST, value, re.IGNORECASE)
    if match is None or (match[1] and int(match[1]) not in _PORTS):
        raise ValueError("must be a host such as pypi.org, *.example.org, example.org:8443 or 10.0.0.5")
    return value


AllowedHost = Annotated[Line, AfterValidator(_host)]
Cpus = Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False), INT_AS_FLOAT]


class SandboxSpec(StrictModel):
    """Where the agent runs: `sandbox: docker`, or in full."""

    type: SandboxType = "local"
    """`local`: on this computer, with your rights. `docker`: in a container."""
    image: Line | None = None
    """Any Linux image with glibc; pulled if the engine does not have it. Defaults to node:20-bookworm."""
    network: Network = "gateway"
    """`gateway`: the agent reaches only the gateway. `none`: nothing. `open`: whatever the engine's default network
    reaches."""
    allowlist: Annotated[tuple[AllowedHost, ...], Field(strict=False)] = added(())
    """With `network: gateway`: hosts that the agent also reaches, through a proxy. `*.example.org` means every
    subdomain; without a port, 80 and 443 are open. Private addresses must be listed as addresses."""
    cpus: Cpus | None = None
    """Number of CPUs, such as 0.5. Defaults to all."""
    memory: Size = 4 * 1024**3
    """Memory limit, such as 4g or 512m. There is no swap on top."""
    pids: Annotated[int, Field(ge=16, le=1_000_000)] = 2048
    """Maximum number of processes and threads at the same time."""
    disk: Size = 10 * 1024**3
    """Limit for the agent's workspace, home and temporary directory together."""
    writable: bool = False
    """Whether the agent may change the image's own files, in this container only."""
    agent: AgentFrom = "toolbox"
    """The CLI that runs: `toolbox` mounts the toolbox's into the container, `image` uses the image's own."""
    home: Home = "auto"
    """The agent's home in local runs. `fresh`: a temporary one. `own`: yours. `auto`: fresh, unless the agent has no
    key and may use a login in your home."""

    def merged_over(self, defaults: Self) -> Self:
        """What is set here, and for everything else `defaults`, if they are for the same type of sandbox."""
        if self.type != defaults.type:
            return self
        return defaults.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        containers_only = {"image", "network", "allowlist", "cpus", "memory", "pids", "disk", "writable", "agent"}
        if self.type == "local" and (given := sorted(self.model_fields_set & containers_only)):
            raise ProblemAt(given[0], "is only valid with `type: docker`")
        if self.type == "docker" and "home" in self.model_fields_set:
            raise ProblemAt("home", "is only valid with `type: local`: in a container the home is always fresh")
        if self.allowlist and self.network != "gateway":
            raise ProblemAt("allowlist", "is only valid with `network: gateway`")
        return self


Sandbox = Annotated[SandboxSpec, ShortForm("type", {"enum": list(get_args(SandboxType))})]
