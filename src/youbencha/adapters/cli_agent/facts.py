"""What is known of a session, as plain data: the evidence that the verdict and the log are made from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from youbencha.log import Usage


class SessionFacts(BaseModel):
    """`model_dump(mode="json")` goes into a result's details, `model_validate` takes it out again."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    stream_seen: bool = False
    session_id: str | None = None
    model: str | None = None
    agent_version: str | None = None
    usage: Usage | None = None
    turns: int | None = None
    results: int = 0
    """How often the agent said a closing word; the last one counts."""
    result_subtype: str | None = None
    result_is_error: bool = False
    result_text: str | None = None
    failed: bool = False
    """A call to the model failed for good, and nothing came after it."""
    failure_kind: str | None = None
    failure_status: int | None = None
    failure_text: str = ""
    retries: dict[str, int] = Field(default_factory=dict)
    """How often calls were tried again, by their HTTP status (`no answer` where there was none)."""
    denied_tools: dict[str, int] = Field(default_factory=dict)
    """How often each was denied."""
    tools_used: dict[str, int] = Field(default_factory=dict)
    """How often each was called."""
    unread_metrics: tuple[str, ...] = ()
    """What was wrong with the file in which it told its figures."""
    malformed_lines: int = 0
    malformed_example: str | None = None
