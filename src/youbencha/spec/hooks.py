"""What may run before the agent and after the evaluation."""

from typing import Annotated, Literal

from pydantic import Field

from youbencha.spec.base import Line, Milliseconds, Written


class ScriptConfig(Written):
    """A program with its arguments. No shell, unless `shell: true` asks for one."""

    command: Line
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: dict[str, str] = Field(default_factory=dict)
    timeout_ms: Milliseconds = 30_000
    working_dir: Line | None = None
    """Before the agent: relative to the workspace, which is also the default. Afterwards: to the test case's file."""
    shell: bool = False
    """`command` is then one line for the system's shell; `args` are its $1, $2 …"""


class WebhookConfig(Written):
    url: Annotated[str, Field(min_length=1)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    include_artifacts: bool = False
    """Send the texts of the reports, the diff, the agent's log and the evaluators' artifacts along."""
    retry_on_failure: bool = True
    """Three attempts, 1 s and 2 s apart, when there is no answer or one of 408, 425, 429, 5xx."""
    timeout_ms: Milliseconds = 5_000


class DatabaseConfig(Written):
    type: Literal["json-file", "sqlite"]
    output_path: Line
    include_full_bundle: bool = True
    append: bool = True
    """False: start anew with this result alone."""
    table: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "results"
    """SQLite only."""


class ScriptHook(Written):
    name: Literal["script"]
    config: ScriptConfig


class WebhookHook(Written):
    name: Literal["webhook"]
    config: WebhookConfig


class DatabaseHook(Written):
    name: Literal["database"]
    config: DatabaseConfig


PostHook = Annotated[ScriptHook | WebhookHook | DatabaseHook, Field(discriminator="name")]
