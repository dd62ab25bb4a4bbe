"""The format of a script file: models, durations, variables, loading."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from youbencha.spec import ProblemAt, load_yaml_model, parse_yaml_model
from youbencha.spec.variables import REFERENCE, list_names

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)?\s*")


def parse_duration(value: Any) -> float:
    """Return a duration in seconds."""
    if isinstance(value, str) and (match := _WRITTEN.fullmatch(value)):
        return float(match[1]) * _UNITS[match[2] or "s"]
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise ValueError("must be a duration such as 250ms, 2s or 1m, or a number of seconds")


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m)?\s*$"},
            ],
            "examples": ["250ms", "2s", 0.5],
        }
    ),
]

VARIABLES = "variables"
"""The key of the known variables in the validation context; it may be missing."""

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"
]


def _variables_are_known(value: Any, info: ValidationInfo) -> Any:
    """Report an unknown `${name}` while loading instead of in the middle of a run."""
    if not info.context or VARIABLES not in info.context:
        return value
    known = AUTOMATIC | set(info.context[VARIABLES])
    for name in list_names(value):
        if name not in known:
            raise ValueError(f"unknown variable '{name}' (known: {', '.join(sorted(known))})")
    return value


Template = Annotated[str, AfterValidator(_variables_are_known)]
JsonTemplate = Annotated[dict[str, JsonValue], AfterValidator(_variables_are_known)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedUsage(_Part):
    """Tokens that an answer reports. Missing values come from the script's `usage`."""

    input_tokens: int | None = Field(None, ge=0, description="Tokens read, excluding cached ones.")
    output_tokens: int | None = Field(None, ge=0, description="Tokens written.")
    cache_read_input_tokens: int | None = Field(None, ge=0, description="Tokens read from the cache.")
    cache_creation_input_tokens: int | None = Field(None, ge=0, description="Tokens written to the cache.")
    reasoning_tokens: int | None = Field(
        None, ge=0, description="The written tokens that were used for thinking, for APIs that report them."
    )


class ScriptedToolCall(_Part):
    """One tool that the model calls."""

    name: Template = Field(description="The tool's name, as the agent offers it: Bash, Write, ...", min_length=1)
    input: JsonTemplate = Field(default_factory=dict, description="The tool's arguments.")
    id: Template | None = Field(None, description="The call's id; by default, a new one each time.", min_length=1)


class HttpError(_Part):
    """An HTTP error instead of an answer."""

    status: int = Field(ge=400, le=599, description="HTTP status: 401, 429, 529, ...")
    type: str | None = Field(None, description="The API's error type; derived from the status by default.")
    message: Template | None = Field(None, description="The error's text. Defaults to a typical one.")
    headers: dict[str, str | int] = Field(
        default_factory=dict, description="More response headers, such as retry-after or x-should-retry."
    )

    @field_validator("headers")
    @classmethod
    def _one_line_each(cls, headers: Mapping[str, str | int]) -> Mapping[str, str | int]:
        if any(not name or set(f"{name}{value}") & set("\r\n\0") for name, value in headers.items()):
            raise ValueError("a header must have a name and be a single line")
        return headers


class StreamError(_Part):
    """An error in the middle of a stream."""

    status: int = Field(
        529, ge=400, le=599, description="Determines the error type. It is the HTTP status if no stream was requested."
    )
    type: str | None = Field(None, description="The API's error type; derived from the status by default.")
    message: Template | None = Field(None, description="The error's text. Defaults to a typical one.")


class Drop(_Part):
    """The connection is closed in the middle of the answer."""

    after_events: int = Field(3, ge=0, description="How many events are sent first. 0 sends only the headers.")
    clean: bool = Field(False, description="End the answer as if it were complete, instead of closing the connection.")


_CONTENT = ("text", "thinking", "tools")
_STREAM_FAULTS = ("error_mid_stream", "drop", "hang")
_INSTEAD = ("error", "garbage")
_BESIDE_INSTEAD = frozenset({"error", "garbage", "delay", "times"})


class ScriptedAnswer(_Part):
    """One answer of the model, with any faults to simulate."""

    text: Template | list[Template] | None = Field(
        None, description="The text of the answer. A list makes several text blocks."
    )
    thinking: Template | None = Field(None, description="The model's thinking before the answer.")
    tools: list[ScriptedToolCall] = Field(
        default_factory=list, description="Tools that the model calls, in this order."
    )
    usage: ScriptedUsage = Field(default_factory=ScriptedUsage, description="Tokens of this answer.")
    stop_reason: StopReason | None = Field(
        None, description="Why the model stops. Defaults to tool_use if it calls tools, otherwise to end_turn."
    )
    delay: Duration = Field(0.0, description="Time before the answer begins.")
    pause: Duration = Field(0.0, description="Time between two events of a stream (two pieces, with chunk_bytes).")
    chunk_bytes: int | None = Field(
        None, ge=1, description="Send the body in pieces of this many bytes, wherever that cuts it."
    )
    error: HttpError | None = Field(None, description="Answer with an HTTP error instead.")
    error_mid_stream: StreamError | None = Field(None, description="Send an error event after the first delta.")
    drop: Drop | None = Field(None, description="Close the connection in the middle of the answer.")
    hang: bool = Field(False, description="Begin to answer, then send nothing more until the client leaves.")
    garbage: Template | None = Field(None, description="Answer 200 with this text, which is not a valid answer.")

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        set_keys = [
            name for name in type(self).model_fields if name in self.model_fields_set and self._has_effect(name)
        ]
        instead = [name for name in set_keys if name in _INSTEAD]
        if len(instead) > 1:
            raise ProblemAt(instead[1], f"cannot be combined with '{instead[0]}'")
        for name in set_keys:
            if instead and name not in _BESIDE_INSTEAD:
                raise ProblemAt(name, f"cannot be combined with '{instead[0]}', which replaces the whole answer")
        faults = [name for name in set_keys if name in _STREAM_FAULTS]
        if len(faults) > 1:
            raise ProblemAt(faults[1], f"cannot be combined with '{faults[0]}': an answer can only end once")
        if not any(name in set_keys for name in (*_CONTENT, *_INSTEAD, *_STREAM_FAULTS)):
            raise ValueError("is empty: it needs text, thinking, tools, error, drop, hang or garbage")
        return self

    def _has_effect(self, name: str) -> bool:
        """Whether a key has an effect: `hang: false` has none, but `text: ""` is an empty answer."""
        value = getattr(self, name)
        return value is not None and value is not False and value != []


class Turn(ScriptedAnswer):
    """The model's answer to one request, or to several in a row."""

    times: Annotated[int, Field(ge=1)] | Literal["forever"] = Field(
        1, description="How many requests are answered this way: a number, or forever."
    )


class When(_Part):
    """Conditions for a conversation's requests. All given conditions must match."""

    system_contains: str | None = Field(None, description="Text that the system prompt contains.", min_length=1)
    prompt_contains: str | None = Field(None, description="Text that the first user message contains.", min_length=1)
    user_contains: str | None = Field(None, description="Text that one of the user's messages contains.", min_length=1)
    model: str | None = Field(None, description="The requested model; * matches any text.", min_length=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("needs system_contains, prompt_contains, user_contains or model")
        return self


def _turns_can_be_reached(turns: list[Turn]) -> list[Turn]:
    for number, turn in enumerate(turns[:-1], start=1):
        if turn.times == "forever":
            raise ValueError(f"turn {number} is repeated forever, so the turns after it are never reached")
    return turns


Turns = Annotated[list[Turn], AfterValidator(_turns_can_be_reached)]


class ScriptedConversation(_Part):
    """Turns for some of the requests, such as those of a subagent; counted separately."""

    when: When
    turns: Turns = Field(min_length=1, description="The answers, one after the other.")


SIDE_ANSWER = ScriptedAnswer(text="ok", usage=ScriptedUsage(input_tokens=8, output_tokens=1))


class Script(_Part):
    """The answers of a scripted model, turn by turn."""

    model: Template | None = Field(None, description="The model's name in the answers; by default, the requested one.")
    models: list[str] = Field(
        default_factory=list,
        description="The models that exist; requests for others get a 404. By default, every model exists.",
    )
    usage: ScriptedUsage = Field(
        default_factory=ScriptedUsage, description="Tokens of each answer without its own `usage`."
    )
    turns: Turns = Field(default_factory=list, description="The answers, one after the other, for each session.")
    conversations: list[ScriptedConversation] = Field(
        default_factory=list, description="Other turns for some requests; the first match applies."
    )
    side: ScriptedAnswer = Field(
        SIDE_ANSWER,
        description="The answer to requests outside the agent's work, such as probes and titles: those without tools.",
    )
    after: Literal["error", "repeat-last"] = Field(
        "error", description="The answer after the last turn: error 400, or the last turn again."
    )
    across_sessions: bool = Field(
        False, description="Continue with the next turn in a new session, for an agent that runs repeatedly."
    )
    tools_optional: bool = Field(
        False, description="Count requests without tools as turns too: for clients that are not agents."
    )
    require_key: Template | None = Field(
        None, description="Answer 401 to requests without this API key; by default, any key is accepted.", min_length=1
    )

    @model_validator(mode="after")
    def _has_turns(self) -> Self:
        if not self.turns and not self.conversations:
            raise ProblemAt("turns", "is required: a script needs at least one turn")
        return self


_CODE = "SCRIPT_INVALID"
_WHAT = "The model script"


def load_script(path: Path, *, variables: Mapping[str, str] | None = None) -> Script:
    """Load a script. With `variables`, an unknown `${name}` is reported here."""
    return load_yaml_model(path, Script, code=_CODE, what=_WHAT, context=_context(variables))


def parse_script(text: str, *, variables: Mapping[str, str] | None = None) -> Script:
    return parse_yaml_model(text, Script, code=_CODE, what=_WHAT, context=_context(variables))


def _context(variables: Mapping[str, str] | None) -> dict[str, Any] | None:
    return None if variables is None else {VARIABLES: variables}


_WORKING_DIRECTORY = re.compile(
    r"^[ \t]*(?:[-*] )?(?:primary |current )?working directory:[ \t]*(\S.*?)\s*?$"
    r"|^[ \t]*<cwd>(\S.*?)</cwd>[ \t]*$"
    r"|^- \*\*Workspace Directories:\*\*\n[ \t]+- (\S.*?)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Claude Code 1.0.x: `<env>\\nWorking directory: /x`; 2.1.x: ` - Primary working directory: /x`; Copilot: `* Current
working directory: /x`; Codex: `<cwd>/x</cwd>`; Gemini: `- **Workspace Directories:**\\n  - /x`. Only whole lines,
because the tools' descriptions mention working directories too."""

AUTOMATIC = frozenset({"cwd"})
"""Read from the request, if it contains it."""


class UnknownVariableError(Exception):
    """A script names a variable that has no value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def substitute(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace every `${name}` in the texts of a value; `$${name}` becomes `${name}`."""
    if isinstance(value, str):
        return REFERENCE.sub(lambda match: _replacement(match, variables), value)
    if isinstance(value, Mapping):
        return {substitute(key, variables): substitute(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, variables) for item in value]
    return value


def _replacement(match: re.Match[str], variables: Mapping[str, str]) -> str:
    escape, name = match.groups()
    if escape:
        return match.group()[1:]
    if name not in variables:
        raise UnknownVariableError(name)
    return variables[name]


def working_directory(*texts: str) -> str | None:
    """Return the working directory that a request states; the first text that states one wins."""
    for text in texts:
        if match := _WORKING_DIRECTORY.search(text):
            return next(group for group in match.groups() if group)
    return None
