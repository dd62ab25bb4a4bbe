"""Where a trial's agent runs: here, or in a container."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from youbencha.spec.base import Line, Written
from youbencha.spec.problems import ProblemAt

SandboxType = Literal["local", "docker"]
Network = Literal["gateway", "none", "open"]
Home = Literal["auto", "fresh", "own"]
AgentFrom = Literal["toolbox", "image"]

DEFAULT_IMAGE = "node:20-bookworm"
"""Of the Thunderdome's documents; it has git, Python and a compiler beside Node."""

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$"
_LEAST_BYTES = 16 * 1024**2


def _bytes(value: object) -> object:
    """`4g`, `512 MiB`, or a number of bytes."""
    if not isinstance(value, str):
        return value
    match = re.match(_SIZE, value.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("must be a size such as 4g, 512m or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _number(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Size = Annotated[int, Field(ge=_LEAST_BYTES), BeforeValidator(_bytes, json_schema_input_type=str | int)]
Cpus = Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False), BeforeValidator(_number)]


class SandboxSpec(Written):
    """`sandbox: docker`, or in full."""

    type: SandboxType = "local"
    image: Line | None = None
    """Any Linux image with glibc; it is fetched if the engine does not have it."""
    network: Network = "gateway"
    """`gateway`: the model's gateway, and nothing else. `none`: not even that. `open`: whatever the engine's default
    network reaches."""
    cpus: Cpus | None = None
    memory: Size = 4 * 1024**3
    pids: Annotated[int, Field(ge=16, le=1_000_000)] = 2048
    disk: Size = 10 * 1024**3
    """What the agent may write into its workspace, home and temporary directory, together."""
    writable: bool = False
    """Whether the image's own files may be changed (in this container only)."""
    agent: AgentFrom = "toolbox"
    """Whose CLI is run: ours, mounted into the container, or the one that the image brings."""
    home: Home = "auto"
    """Of a local run. `auto`: a fresh one, unless the agent has no key and may be logged in in the person's own."""

    def over(self, weaker: Self) -> Self:
        """What is written here, and from `weaker` what is not, if it speaks of the same kind of sandbox."""
        if self.type != weaker.type:
            return self
        return weaker.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        containers_only = {"image", "network", "cpus", "memory", "pids", "disk", "writable", "agent"}
        if self.type == "local" and (given := sorted(self.model_fields_set & containers_only)):
            raise ProblemAt(given[0], "means nothing without a container: say `type: docker`, or leave it out")
        if self.type == "docker" and "home" in self.model_fields_set:
            raise ProblemAt("home", "is for local runs: in a container the home is always fresh")
        return self


def _in_full(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class _EitherForm:
    """For the JSON schema: the short form is a form, too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"enum": ["local", "docker"], "type": "string"}, handler(schema)]}


Sandbox = Annotated[SandboxSpec, BeforeValidator(_in_full), _EitherForm()]
