"""YouBenchaLog (`youbencha-log.json`): one run of one agent, in a form that is the same for all agents.

Unknown is null. A zero in here was measured. What is only the agent's claim is listed by `claims`.
"""

import json
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticSerializationError

from youbencha.text import join_words
from youbencha.usage import Tokens, total_tokens

LOG_VERSION = "1.0.0"
Status = Literal["success", "failed", "timeout"]
Role = Literal["user", "assistant", "system"]
CostSource = Literal["agent", "gateway", "prices"]
_DATETIME = TypeAdapter(AwareDatetime)


def _check_datetime(text: str) -> str:
    _DATETIME.validate_python(text)
    return text


UNMASKED = object()
"""Marks a text of a model that the harness writes itself, and in which nothing is masked (`log/masking.py`)."""

Unmasked = Annotated[str, UNMASKED]
Timestamp = Annotated[str, AfterValidator(_check_datetime), UNMASKED]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


FailureCause = Literal[
    "TIMEOUT", "MAX_TURNS", "MAX_BUDGET", "STOPPED", "SANDBOX_LIMIT", "OUT_OF_MEMORY", "REFUSED", "AUTH_FAILED",
    "RATE_LIMIT", "OVERLOADED", "API_ERROR", "GAVE_UP", "CLI_NOT_FOUND", "VERSION_TOO_OLD", "HOST_FAILED", "CRASHED",
    "EXIT_CODE", "EXECUTION_ERROR", "NO_RESULT", "OUTPUT_LOST", "UNRESPONSIVE",
]  # fmt: skip


class ErrorRecord(Record):
    message: Annotated[str, Field(min_length=1)]
    timestamp: Timestamp
    code: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$"), UNMASKED] | None = None
    hint: str | None = None
    stack_trace: str | None = None
    context: dict[str, Any] | None = None

    @property
    def cause(self) -> FailureCause | None:
        """Why a run failed: the end of the code, which is the same for all agents (`CLAUDE_RATE_LIMIT`)."""
        causes: tuple[FailureCause, ...] = get_args(FailureCause)
        return next((cause for cause in causes if (self.code or "").endswith(f"_{cause}")), None)


class AgentInfo(Record):
    name: str
    version: str
    """The version of the agent's CLI; "unknown" if it does not report it."""
    adapter_version: Unmasked


class ModelInfo(Record):
    name: str
    """The model's name; "unknown" if neither the agent nor the configuration names one."""
    provider: str
    configured: str | None = None
    """The model's name in the test case."""


class Execution(Record):
    started_at: Timestamp
    completed_at: Timestamp
    duration_ms: Count
    exit_code: int
    status: Status


class Message(Record):
    role: Role
    content: str
    timestamp: Timestamp | None = None
    parent: str | None = None
    """The tool call that started the subagent of this message; null in the main conversation."""


class ToolCall(Record):
    name: str
    arguments: str
    """As the agent reports them: JSON if the agent prints JSON, otherwise the rest of the line."""
    result: str | None = None
    is_error: bool | None = None
    id: str | None = None
    parent: str | None = None
    """The tool call that started the subagent of this call; null in the main conversation."""


class Usage(Record):
    """Tokens and cost, if reported. `total_tokens` is the sum of all four kinds."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_creation_tokens: Count | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None
    cost_source: CostSource | None = None
    partial: bool = False
    """Whether the session ended before it reported its totals, so that the numbers are a lower bound."""

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_creation_tokens)


TAKEN_FROM_TEXT = "TAKEN_FROM_TEXT"
"""The end of the code of the warning about a log's claims."""

Claim = Literal["version", "model", "usage", "tool_calls"]
CLAIMS: dict[Claim, str] = {
    "version": "the version",
    "model": "the model",
    "usage": "the tokens",
    "tool_calls": "the tool calls",
}
"""What may be taken from an agent's text if nothing measured it, in words."""


class YouBenchaLog(Record):
    version: Unmasked = LOG_VERSION
    agent_info: AgentInfo
    model_info: ModelInfo
    execution: Execution
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_calls_known: bool = True
    """Whether the agent reports its tool calls."""
    claims: tuple[Claim, ...] = ()
    """Values from the agent's text that nothing measured."""
    usage: Usage | None = None
    turns: Count | None = None
    session_id: str | None = None
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[ErrorRecord, ...] = ()
    environment: dict[str, Any] = Field(default_factory=dict)

    def without_claims(self, names: Collection[Claim] = tuple(CLAIMS)) -> Self:
        """The log without those of its claims that have these names."""
        left = tuple(name for name in self.claims if name not in names)
        if left == self.claims:
            return self
        dropped, changes = set(self.claims).difference(left), dict[str, Any](claims=left)
        if "version" in dropped:
            changes["agent_info"] = self.agent_info.model_copy(update={"version": "unknown"})
        if "model" in dropped:
            changes["model_info"] = self.model_info.model_copy(update={"name": self.model_info.configured or "unknown"})
        if "usage" in dropped:
            changes["usage"] = None
        if "tool_calls" in dropped:
            changes |= {"tool_calls": (), "tool_calls_known": False}
        changes["warnings"] = tuple(filter(None, (_about_claims(warning, left) for warning in self.warnings)))
        return self.model_copy(update=changes)


def claims_message(claims: Collection[Claim]) -> str:
    names = join_words([words for name, words in CLAIMS.items() if name in claims])
    return f"Nothing measured {names}: the log has what the agent's text says."


def _about_claims(warning: ErrorRecord, left: Collection[Claim]) -> ErrorRecord | None:
    """The warning, if it is about claims only about those that are left; None if there are none."""
    if not (warning.code or "").endswith(f"_{TAKEN_FROM_TEXT}"):
        return warning
    context = {**(warning.context or {}), "claims": list(left)}
    return warning.model_copy(update={"message": claims_message(left), "context": context}) if left else None


def build_usage(tokens: Tokens, cost_usd: float | None, *, partial: bool, cost_source: CostSource = "agent") -> Usage:
    return Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        total_tokens=total_tokens(tokens),
        cache_read_tokens=tokens.cache_read,
        cache_creation_tokens=tokens.cache_creation,
        cost_usd=cost_usd,
        cost_source=None if cost_usd is None else cost_source,
        partial=partial,
    )


def as_json(record: BaseModel, *, indent: int | None = 2, exclude_none: bool = False) -> str:
    """Serialize a record. Escapes file names that are not UTF-8, for which pydantic raises an error."""
    try:
        return record.model_dump_json(indent=indent, exclude_none=exclude_none)
    except PydanticSerializationError:
        return json.dumps(record.model_dump(exclude_none=exclude_none), indent=indent, default=str)
