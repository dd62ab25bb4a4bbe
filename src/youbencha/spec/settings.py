"""Settings (`.youbencharc`): defaults of a person or a project. Everything may be left out."""

from typing import Annotated, Literal

from pydantic import Field

from youbencha.spec.base import Line, Milliseconds, Written
from youbencha.spec.gateway import Gateway, GatewaySpec
from youbencha.spec.sandbox import Sandbox, SandboxSpec

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class AgentSettings(Written):
    timeout_ms: Milliseconds | None = None
    model: Line | None = None


class EvaluatorSettings(Written):
    max_concurrent: Annotated[int, Field(gt=0, le=64)] = 4


class Settings(Written):
    workspace_dir: Line = ".youbencha-workspace"
    output_dir: Line = ".youbencha-eval"
    cache_dir: Line | None = None
    """Where mirrors of repositories are kept; by default in the system's place for caches."""
    timeout_ms: Milliseconds = 300_000
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    keep_workspace: bool = True
    variables: dict[VariableName, str | int | float | bool] = Field(default_factory=dict)
    """What `${NAME}` stands for in a test case."""
    agent: AgentSettings = AgentSettings.unwritten()
    evaluators: EvaluatorSettings = EvaluatorSettings.unwritten()
    gateway: Gateway = GatewaySpec.unwritten()
    """Of test cases that say nothing of a gateway themselves."""
    sandbox: Sandbox = SandboxSpec.unwritten()
    """Likewise."""
