"""The configuration of a loop (`ralph.yml`): the agent, when to stop, hats, and the gates that must pass."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, Line, ShortForm, StrictModel
from youbencha.spec.gateway import Dollars, Gateway
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox

Seconds = Annotated[float, Field(ge=0, le=3_153_600_000, allow_inf_nan=False), INT_AS_FLOAT]
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), INT_AS_FLOAT]
Topic = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s\x00]+$")]
DEFAULT_PROMISE = "LOOP_COMPLETE"
DEFAULT_GUARDRAILS = (
    "Search before you assume that something is missing.",
    "Verify before you say that something is done: run the tests, the type checker and the linter.",
)
ModelName = Annotated[Line, Field(pattern=r"^[^-\s]\S*$")]


_PTY_WORDS = {"always": True, "observe": True, "auto": False, "never": False}


def _pty_mode(value: object) -> object:
    return _PTY_WORDS.get(value, value) if isinstance(value, str) else value


PtyMode = Annotated[
    bool,
    BeforeValidator(_pty_mode, json_schema_input_type=bool | Literal["always", "observe", "auto", "never"]),
]


class CliSpec(StrictModel):
    """The agent that runs in each iteration."""

    backend: Line = "auto"
    """`auto` takes the first that is installed; else a name of the table in `loop/backends.py`, or `custom`."""
    command: Line | None = None
    """The program; required for `custom`. For another backend, the path of its CLI."""
    args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for it."""
    prompt_mode: Literal["arg", "stdin", "file"] = "arg"
    """How a `custom` program gets the prompt."""
    prompt_flag: str | None = None
    """The flag before the prompt, if `custom` needs one."""
    pty_mode: PtyMode = False
    """Give the agent a terminal. Claude Code always gets one."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    agent_priority: tuple[Line, ...] = Field(default=(), strict=False)
    """Where `auto` looks first; the other backends follow."""
    model: ModelName | None = None
    env: dict[str, str] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent's adapter, as `agent.config` in a test case."""

    @model_validator(mode="after")
    def _custom_has_a_program(self) -> Self:
        if self.backend == "custom" and self.command is None:
            raise ProblemAt("backend", "custom needs `command`: the program")
        return self


class LoopRetrySpec(StrictModel):
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

    model: ModelName | None = None
    backend: Line | None = None
    person: Line | None = None
    """Stop, with this message."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.person is not None and (self.model or self.backend):
            raise ProblemAt("person", "cannot be combined with `model` or `backend`: the loop stops")
        if self.person is None and not self.model and not self.backend:
            raise ValueError("needs `model`, `backend` or `person`")
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
    complete_by_gates: bool = False
    """Run the gates after every iteration: the work is done once they pass, whatever the agent says."""
    cancellation_promise: Annotated[Line | None, BeforeValidator(lambda text: text or None)] = None
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
    retry: LoopRetrySpec = LoopRetrySpec.model_construct()
    escalation: tuple[Escalation, ...] = Field(default=(), strict=False)
    on_usage_limit: Literal["wait", "stop"] = "wait"
    stop_at_quota_percent: Percent | None = None
    """Stop once the agent reports that so much of a subscription's quota is used."""
    starting_event: Topic | None = None
    starting_hat: Line | None = None
    enforce_hat_scope: bool = False
    """Ignore events that the active hat does not declare in `publishes`."""
    context_window_tokens: Annotated[int, Field(gt=0)] | None = None
    """Overrides what is known about the model."""

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.prompt is not None and self.prompt_file is not None:
            raise ProblemAt("prompt_file", "cannot be combined with `prompt`", hint="remove one of the two")
        return self


class ScratchpadSpec(StrictModel):
    """The file in which an agent leaves notes for the next iteration."""

    enabled: bool = True
    path: Line = ".ralph/agent/scratchpad.md"


def _scratchpad(value: object) -> object:
    return {"path": value} if isinstance(value, str) else {"enabled": value} if isinstance(value, bool) else value


Scratchpad = Annotated[ScratchpadSpec, BeforeValidator(_scratchpad, json_schema_input_type=str | bool | ScratchpadSpec)]


class CoreSpec(StrictModel):
    """What all prompts have in common."""

    scratchpad: Scratchpad = ScratchpadSpec.model_construct()
    """Its end is part of each prompt."""
    specs_dir: Line | None = None
    """Where specifications are; named in each prompt."""
    guardrails: tuple[Line, ...] = Field(default=DEFAULT_GUARDRAILS, strict=False)
    """Rules at the end of each prompt."""


class HatBackend(StrictModel):
    """The backend of a hat: its name, or a mapping."""

    type: Line = "custom"
    agent: Line | None = None
    """A custom agent of the CLI, if it has such."""
    command: Line | None = None
    """The program of a `custom` backend."""
    args: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if "type" not in self.model_fields_set and self.command is None:
            raise ValueError("needs `type` or `command`")
        if self.type != "custom" and self.command is not None:
            raise ProblemAt("command", "is only valid for a `custom` backend")
        return self


def _null_as_empty(value: object) -> object:
    """Accept a hat without keys, which YAML reads as null."""
    return {} if value is None else value


class HatSpec(StrictModel):
    """A role: instructions that are added to the prompt when one of its triggers was published."""

    name: Line | None = None
    description: str = ""
    triggers: tuple[Topic, ...] = Field(default=(), strict=False)
    """Topics; in `build.*`, the star stands for one part of a topic."""
    publishes: tuple[Topic, ...] = Field(default=(), strict=False)
    default_publishes: Topic | None = None
    """Published if its iteration published nothing."""
    instructions: str = ""
    extra_instructions: tuple[str, ...] = Field(default=(), strict=False)
    backend: Annotated[HatBackend, ShortForm("type", {"minLength": 1})] | None = None
    """Instead of `cli.backend`."""
    backend_args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for it."""
    model: ModelName | None = None
    max_activations: Annotated[int, Field(ge=1)] | None = None
    scratchpad: Scratchpad | None = None
    disallowed_tools: tuple[str, ...] = Field(default=(), strict=False)
    """Enforced for Claude Code; a rule in the prompt of other agents."""
    timeout: Seconds | None = None
    """Seconds for an iteration with this hat."""


Hat = Annotated[HatSpec, BeforeValidator(_null_as_empty, json_schema_input_type=HatSpec | None)]


class GateSpec(StrictModel):
    """What must pass before the work counts as done: a command, or any evaluator."""

    name: Line
    """Of the evaluator, if there is no `command`."""
    command: str | Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """A line for a shell, or a program with its arguments. It runs in the directory of the loop, not in a copy."""
    config: dict[str, Any] = Field(default_factory=dict)
    """As `evaluators[].config` in a test case."""
    on_fail: Line | None = None
    """For the next prompt, besides the output, if it fails."""


class MemoryFilter(StrictModel):
    """Which memories are part of prompts. Empty: all."""

    types: tuple[str, ...] = Field(default=(), strict=False)
    tags: tuple[str, ...] = Field(default=(), strict=False)
    recent: Annotated[int, Field(ge=0)] = 0
    """Days; 0: any age."""


class MemoriesSpec(StrictModel):
    """What agents remember across loops (`ralph tools memory`)."""

    enabled: bool = True
    inject: Literal["auto", "manual", "none"] = "auto"
    budget: Annotated[int, Field(ge=0)] = 0
    """Tokens in the prompt; 0: all."""
    filter: MemoryFilter = MemoryFilter.model_construct()


class TasksSpec(StrictModel):
    """Open work (`ralph tools task`)."""

    enabled: bool = True


class TopicSpec(StrictModel):
    """What an event means, for the prompts of hats that get or publish it."""

    description: str = ""
    on_trigger: str = ""
    """In the prompt of a hat that gets it."""
    on_publish: str = ""
    """In the prompt of a hat that may publish it."""


class AdapterSpec(StrictModel):
    """Settings of one backend."""

    enabled: bool = True
    """Whether `auto` may choose it."""


class LoopSpec(StrictModel):
    """A whole `ralph.yml`, after keys of Ralph were translated."""

    name: str | None = None
    """For people, as in the presets of Ralph."""
    description: str | None = None
    cli: CliSpec = CliSpec.model_construct()
    event_loop: EventLoopSpec = EventLoopSpec.model_construct()
    core: CoreSpec = CoreSpec.model_construct()
    hats: dict[Line, Hat] = Field(default_factory=dict)
    events: dict[Topic, TopicSpec] = Field(default_factory=dict)
    gates: tuple[GateSpec, ...] = Field(default=(), strict=False)
    sandbox: Sandbox | None = None
    gateway: Gateway | None = None
    memories: MemoriesSpec = MemoriesSpec.model_construct()
    tasks: TasksSpec = TasksSpec.model_construct()
    adapters: dict[Line, AdapterSpec] = Field(default_factory=dict)
    suppress_warnings: bool = False

    @model_validator(mode="after")
    def _refers_to_what_exists(self) -> Self:
        if self.event_loop.starting_hat is not None and self.event_loop.starting_hat not in self.hats:
            raise ProblemAt("event_loop", "starting_hat is not one of `hats`")
        if self.event_loop.complete_by_gates and not self.gates:
            raise ProblemAt("event_loop", "complete_by_gates needs `gates`")
        return self
