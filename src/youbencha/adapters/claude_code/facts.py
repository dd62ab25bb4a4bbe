"""What is known of a session, as plain data: the evidence that the verdict and the log are made from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from youbencha.log import Usage


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ResultFacts(_Facts):
    """The last `result`: the one that counts."""

    subtype: str | None = None
    is_error: bool = False
    text: str | None = None
    errors: tuple[str, ...] = ()
    status: int | None = None
    terminal_reason: str | None = None
    duration_ms: int | None = None


class FailureFacts(_Facts):
    """The last call that the client gave up, in its own words."""

    kind: str | None = None
    status: int | None = None
    text: str = ""


class RetryFacts(_Facts):
    status: int | None
    reason: str | None
    times: int


class RateLimitFacts(_Facts):
    status: str | None = None
    resets_at: float | None = None
    kind: str | None = None


class SwitchFacts(_Facts):
    original: str | None = None
    fallback: str | None = None
    trigger: str | None = None


class SessionFacts(_Facts):
    """`model_dump(mode="json")` goes into a result's details, `model_validate` takes it out again."""

    stream_seen: bool = False
    session_id: str | None = None
    model: str | None = None
    """As the messages of the main conversation say; else as `init` says."""
    init_model: str | None = None
    cli_version: str | None = None
    key_source: str | None = None
    usage: Usage | None = None
    turns: int | None = None
    """Over all results: each counts only its own."""
    results: int = 0
    result: ResultFacts | None = None
    failure: FailureFacts | None = None
    refused: bool = False
    retries: tuple[RetryFacts, ...] = ()
    rate_limit: RateLimitFacts | None = None
    switches: tuple[SwitchFacts, ...] = ()
    denied_tools: dict[str, int] = Field(default_factory=dict)
    """How often each was denied."""
    denied_by_policy: dict[str, int] = Field(default_factory=dict)
    """How often `tool_policy` denied each. Some versions count these among the others, too."""
    failed_mcp_servers: tuple[str, ...] = ()
    malformed_lines: int = 0
    malformed_example: str | None = None


def base_model(name: str) -> str:
    """For comparing only: `init` says "claude-opus-4-8[1m]" where the messages say "claude-opus-4-8"."""
    return name.split("[", 1)[0]
