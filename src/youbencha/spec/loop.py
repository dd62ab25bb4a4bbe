"""The configuration of a loop (`ralph.yml`): the agent, when to stop, hats, and the gates that must pass."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, Line, StrictModel
from youbencha.spec.gateway import Dollars, Gateway
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox

Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False), INT_AS_FLOAT]
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), INT_AS_FLOAT]
Topic = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s\x00]+$")]
DEFAULT_PROMISE = "LOOP_COMPLETE"
DEFAULT_GUARDRAILS = (
    "Each iteration begins with a fresh context: write down what the next one needs to know.",
    "Search before you assume that something is missing.",
    "Verify before you say that something is done: run the tests, the type checker and the linter.",
)


class CliSpec(StrictModel):
    """The agent that runs in each iteration."""

    backend: Line = "auto"
    """`auto` takes the first that is installed; else a name of the table in `loop/backends.py`, or `custom`."""
    command: Line | None = None
    """The program; required for `custom`."""
    args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for it."""
    prompt_mode: Literal["arg", "stdin", "file"] = "arg"
    """How a `custom` program gets the prompt."""
    prompt_flag: str | None = None
    """The flag before the prompt, if `custom` needs one."""
    pty_mode: bool = False
    """Give the agent a terminal. Claude Code always gets one."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    default_mode: Literal["autonomous"] = "autonomous"
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent's adapter, as `agent.config` in a test case."""
    idle_timeout_secs: Seconds | None = None
    """The same as in `event_loop`."""


class RetrySpec(StrictModel):
    """How failed iterations are repeated."""

    attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    """Iterations in a row that may fail before the next step of `escalation` is taken."""
    delay_seconds: Seconds = 2.0
    """Before the first repetition; then it grows."""
    factor: Annotated[float, Field(ge=1, le=100), INT_AS_FLOAT] = 2.0
    max_delay_seconds: Seconds = 300.0
    jitter: Annotated[float, Field(ge=0, le=1), INT_AS_FLOAT] = 0.2
    """The delay is changed by up to this share of it, at random."""


class EscalationStep(StrictModel):
    """What to do when retries are used up: another model, another backend, or stop for a person."""

    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    backend: Line | None = None
    person: Line | None = None
    """Stop, with this message."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.person is not None and (self.model or self.backend):
            raise ProblemAt("person", "cannot be combined with `model` or `backend`: the loop stops")
        if self.person is None and not self.model and not self.backend:
            raise ProblemAt("", "needs `model`, `backend` or `person`")
        return self


def _step(value: object) -> object:
    return {"person": "A person has to look at this."} if value == "person" else value


Escalation = Annotated[
    EscalationStep, BeforeValidator(_step, json_schema_input_type=Literal["person"] | EscalationStep)
]


class EventLoopSpec(StrictModel):
    """When the loop ends, and how it goes on."""

    prompt: Annotated[str, Field(min_length=1)] | None = None
    prompt_file: Line | None = None
    """Default: PROMPT.md."""
    completion_promise: Line = DEFAULT_PROMISE
    """The last line of an answer, or the topic of an event, that says that the work is done."""
    cancellation_promise: Line | None = None
    """The same, to give up without an error."""
    required_events: tuple[Topic, ...] = Field(default=(), strict=False)
    """Must have been published before the loop can complete."""
    max_iterations: Annotated[int, Field(ge=1)] = 100
    max_runtime_seconds: Seconds = 14_400.0
    max_cost_usd: Dollars | None = None
    max_consecutive_failures: Annotated[int, Field(ge=1)] = 5
    cooldown_delay_seconds: Seconds = 0.0
    idle_timeout_secs: Seconds = 1800.0
    """End an iteration if the agent prints nothing for this long while no tool runs. 0: never."""
    tool_timeout_secs: Seconds = 0.0
    """End an iteration if one tool call takes longer. 0: never."""
    checkpoint_interval: Annotated[int, Field(ge=0)] = 1
    """Take a checkpoint after so many iterations. 0: none, and no git repository is needed."""
    stale_after: Annotated[int, Field(ge=0)] = 3
    """Stop after so many iterations with the same output, no change and no progress of tasks. 0: never."""
    retry: RetrySpec = RetrySpec()
    escalation: tuple[Escalation, ...] = Field(default=(), strict=False)
    on_usage_limit: Literal["wait", "stop"] = "wait"
    stop_at_quota_percent: Percent | None = None
    """Stop once the agent reports that so much of a subscription's quota is used."""
    starting_event: Topic | None = None
    starting_hat: Line | None = None
    persistent: bool = False
    """After completion, wait for guidance or events instead of ending."""
    enforce_hat_scope: bool = False
    """Ignore events that the active hat does not declare in `publishes`."""
    context_window_tokens: Annotated[int, Field(gt=0)] | None = None
    """Overrides what is known about the model."""


class ScratchpadSpec(StrictModel):
    enabled: bool = True
    path: Line = ".ralph/agent/scratchpad.md"


def _scratchpad(value: object) -> object:
    return {"path": value} if isinstance(value, str) else {"enabled": value} if isinstance(value, bool) else value


Scratchpad = Annotated[ScratchpadSpec, BeforeValidator(_scratchpad, json_schema_input_type=str | bool | ScratchpadSpec)]


class CoreSpec(StrictModel):
    scratchpad: Scratchpad = ScratchpadSpec()
    """Its end is part of each prompt."""
    specs_dir: Line = ".ralph/specs/"
    guardrails: tuple[Line, ...] = Field(default=DEFAULT_GUARDRAILS, strict=False)
    """Rules at the end of each prompt."""


class HatSpec(StrictModel):
    """A role: instructions that are added to the prompt when one of its triggers was published."""

    name: Line | None = None
    description: str = ""
    triggers: tuple[Topic, ...] = Field(default=(), strict=False)
    """Topics; `*` stands for any text, as in `build.*`."""
    publishes: tuple[Topic, ...] = Field(default=(), strict=False)
    default_publishes: Topic | None = None
    """Published if its iteration published nothing."""
    instructions: str = ""
    extra_instructions: tuple[str, ...] = Field(default=(), strict=False)
    backend: Line | None = None
    backend_args: tuple[str, ...] = Field(default=(), strict=False)
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    max_activations: Annotated[int, Field(ge=1)] | None = None
    scratchpad: Scratchpad | None = None
    disallowed_tools: tuple[str, ...] = Field(default=(), strict=False)
    timeout: Seconds | None = None
    """Seconds for an iteration with this hat."""


class GateSpec(StrictModel):
    """What must pass before the work counts as done: a command, or any evaluator."""

    name: Line
    """Of the evaluator, if there is no `command`."""
    command: str | tuple[str, ...] | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    """As `evaluators[].config` in a test case."""


class MemoriesSpec(StrictModel):
    enabled: bool = True
    inject: Literal["auto", "manual", "none"] = "auto"
    budget: Annotated[int, Field(ge=0)] = 0
    """Characters in the prompt; 0: the default."""


class TasksSpec(StrictModel):
    enabled: bool = True


class LoopSpec(StrictModel):
    """A whole `ralph.yml`, after flat keys of version 1 were moved to their places."""

    cli: CliSpec = CliSpec()
    event_loop: EventLoopSpec = EventLoopSpec()
    core: CoreSpec = CoreSpec()
    hats: dict[Line, HatSpec] = Field(default_factory=dict)
    gates: tuple[GateSpec, ...] = Field(default=(), strict=False)
    sandbox: Sandbox | None = None
    gateway: Gateway | None = None
    memories: MemoriesSpec = MemoriesSpec()
    tasks: TasksSpec = TasksSpec()
