"""YouBenchaLog (`youbencha-log.json`): one run of one agent, in a form that is the same for all agents.

Unknown is null. A zero in here was measured.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.functional_validators import AfterValidator

from youbencha.usage import Tokens


def usage_of(tokens: Tokens, cost_usd: float | None, *, partial: bool, cost_source: CostSource = "agent") -> Usage:

    both = None not in (tokens.input, tokens.output)
    return Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        total_tokens=(tokens.input or 0) + (tokens.output or 0) if both else None,
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=cost_usd,
        cost_source=None if cost_usd is None else cost_source,
        partial=partial,
    )


LOG_VERSION = "1.0.0"

Status = Literal["success", "failed", "timeout"]

Role = Literal["user", "assistant", "system"]

CostSource = Literal["agent", "gateway", "prices"]


def iso_time(seconds: float) -> str:
    """A moment as every file of ours writes it: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_MOMENT = TypeAdapter(AwareDatetime)


def _check_moment(text: str) -> str:
    _MOMENT.validate_python(text)
    return text


Timestamp = Annotated[str, AfterValidator(_check_moment)]

Count = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


FailureCause = Literal[
    "TIMEOUT", "MAX_TURNS", "MAX_BUDGET", "STOPPED", "SANDBOX_LIMIT", "REFUSED", "AUTH_FAILED", "RATE_LIMIT",
    "API_ERROR", "GAVE_UP", "CLI_NOT_FOUND", "CRASHED", "EXIT_CODE", "EXECUTION_ERROR", "NO_RESULT", "UNRESPONSIVE",
]  # fmt: skip


class ErrorRecord(_Record):
    message: Annotated[str, Field(min_length=1)]
    timestamp: Timestamp
    code: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    hint: str | None = None
    stack_trace: str | None = None
    context: dict[str, Any] | None = None

    @property
    def cause(self) -> FailureCause | None:
        """Why a run failed: the end of the code, which is the same for all agents (`CLAUDE_RATE_LIMIT`)."""
        causes: tuple[FailureCause, ...] = get_args(FailureCause)
        return next((cause for cause in causes if (self.code or "").endswith(f"_{cause}")), None)


class AgentInfo(_Record):
    name: str
    version: str
    """Of the agent's CLI; "unknown" where it did not say."""
    adapter_version: str


class ModelInfo(_Record):
    name: str
    """"unknown" where neither the agent nor the configuration names one."""
    provider: str


class Execution(_Record):
    started_at: Timestamp
    completed_at: Timestamp
    duration_ms: Count
    exit_code: int
    status: Status


class Message(_Record):
    role: Role
    content: str
    timestamp: Timestamp | None = None
    parent: str | None = None
    """The tool call that started the subagent whose message this is; null in the main conversation."""


class ToolCall(_Record):
    name: str
    arguments: str
    """As the agent wrote them: JSON where the agent speaks JSON, else the rest of the line."""
    result: str | None = None
    is_error: bool | None = None
    id: str | None = None
    parent: str | None = None
    """The tool call that started the subagent that made this one; null in the main conversation."""


class Usage(_Record):
    """Tokens and cost as far as anybody reported them. `total_tokens` is input + output."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_creation_tokens: Count | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None
    cost_source: CostSource | None = None
    partial: bool = False
    """True where the session ended before its totals were reported: what is here is a lower bound."""


class YouBenchaLog(_Record):
    version: str = LOG_VERSION
    agent_info: AgentInfo
    model_info: ModelInfo
    execution: Execution
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    turns: Count | None = None
    session_id: str | None = None
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[ErrorRecord, ...] = ()
    environment: dict[str, Any] = Field(default_factory=dict)


# Records as JSON text, whatever is in them.


def as_json(record: BaseModel) -> str:
    """Indented. A file name that is no UTF-8 (half of a surrogate pair) is escaped; pydantic alone would give up."""
    from pydantic_core import PydanticSerializationError

    try:
        return record.model_dump_json(indent=2)
    except PydanticSerializationError:
        import json

        return json.dumps(record.model_dump(), indent=2, default=str)
