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
    """The agent: a name from `ralph doctor`, `custom` for a program of your own, or `auto` for the first
    installed agent."""
    command: Line | None = None
    """The program of a `custom` backend, which requires it. For another backend, the path of its CLI."""
    args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for the agent's CLI."""
    prompt_mode: Literal["arg", "stdin", "file"] = "arg"
    """How a `custom` program gets the prompt: as an argument, on stdin or in a file."""
    prompt_flag: str | None = None
    """The flag before the prompt or its file, if a `custom` program needs one."""
    pty_mode: PtyMode = False
    """Give the agent a terminal. Claude Code always gets one."""
    output_format: Literal["stream-json", "text"] = "stream-json"
    """Claude Code's output: `stream-json`, or `text`, which shows nothing until the end."""
    agent_priority: tuple[Line, ...] = Field(default=(), strict=False)
    """Backends that `auto` tries first, in this order."""
    model: ModelName | None = None
    """The agent's model. Defaults to the agent's own default."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables for the agent; in a container, the only ones. `${NAME}` is taken from your environment."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent, as `agent.config` in a test case."""

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
    """Seconds before the first retry."""
    factor: Annotated[float, Field(ge=1, le=100), INT_AS_FLOAT] = 2.0
    """The delay is multiplied by this before each further retry."""
    max_delay_seconds: Seconds = 300.0
    """The longest delay, in seconds."""
    jitter: Annotated[float, Field(ge=0, le=1), INT_AS_FLOAT] = 0.2
    """The share by which a delay is changed at random, from 0 to 1."""


class EscalationStep(StrictModel):
    """A step when retries are used up: another model, another backend, or stop for a person."""

    model: ModelName | None = None
    """Continue with this model."""
    backend: Line | None = None
    """Continue with this backend."""
    person: Line | None = None
    """Stop the loop with this message for a person."""

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
    """The prompt, when the loop stops, and how it continues."""

    prompt: Annotated[str, Field(min_length=1)] | None = None
    """The task, as text."""
    prompt_file: Line | None = None
    """A file with the task. Defaults to PROMPT.md."""
    completion_promise: Line = DEFAULT_PROMISE
    """The last line of an answer, or the topic of an event, that declares the work done."""
    complete_by_gates: bool = False
    """Run the gates after every iteration. The work is done once they pass, whatever the agent says."""
    cancellation_promise: Annotated[Line | None, BeforeValidator(lambda text: text or None)] = None
    """Like `completion_promise`, but to give up without an error."""
    required_events: tuple[Topic, ...] = Field(default=(), strict=False)
    """Topics that must have been published before the loop can complete."""
    max_iterations: Annotated[int, Field(ge=1)] = 100
    """Maximum number of agent sessions, including retries."""
    max_runtime_seconds: Seconds = 14_400.0
    """Loop time limit in seconds, excluding usage-limit waits."""
    max_cost_usd: Dollars | None = None
    """Cost limit of the loop, in dollars."""
    max_consecutive_failures: Annotated[int, Field(ge=1)] = 5
    """Stop after this many failed iterations in a row."""
    cooldown_delay_seconds: Seconds = 0.0
    """Seconds between iterations."""
    idle_timeout_secs: Seconds = 1800.0
    """Stop an iteration if the agent prints nothing for this many seconds while no tool runs. 0 disables it."""
    tool_timeout_secs: Seconds = 0.0
    """Stop an iteration if one tool call takes longer than this many seconds. 0 disables it."""
    checkpoint_interval: Annotated[int, Field(ge=0)] = 1
    """Take a checkpoint after every N iterations. 0 disables checkpoints; no git repository is then needed."""
    stale_after: Annotated[int, Field(ge=0)] = 3
    """Stop after N iterations with the same output, no change and no progress of tasks. 0 disables it."""
    retry: LoopRetrySpec = LoopRetrySpec.model_construct()
    """How failed iterations are repeated."""
    escalation: tuple[Escalation, ...] = Field(default=(), strict=False)
    """The steps to take, in this order, when retries are used up."""
    on_usage_limit: Literal["wait", "stop"] = "wait"
    """When the agent reports a usage limit: `wait` until it is lifted, or `stop`."""
    stop_at_quota_percent: Percent | None = None
    """Stop once the agent reports that this share of a subscription's quota is used."""
    starting_event: Topic | None = None
    """The topic that is published first. Defaults to `task.start`."""
    starting_hat: Line | None = None
    """The hat that begins. By default, the starting event decides."""
    enforce_hat_scope: bool = False
    """Ignore events that the active hat does not declare in `publishes`."""
    context_window_tokens: Annotated[int, Field(gt=0)] | None = None
    """The model's context window, if it is unknown or wrong."""

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        if self.prompt is not None and self.prompt_file is not None:
            raise ProblemAt("prompt_file", "cannot be combined with `prompt`", hint="remove one of the two")
        return self


class ScratchpadSpec(StrictModel):
    """The file in which an agent leaves notes for the next iteration."""

    enabled: bool = True
    """Whether there is a scratchpad."""
    path: Line = ".ralph/agent/scratchpad.md"
    """The scratchpad's path."""


def _scratchpad(value: object) -> object:
    return {"path": value} if isinstance(value, str) else {"enabled": value} if isinstance(value, bool) else value


Scratchpad = Annotated[ScratchpadSpec, BeforeValidator(_scratchpad, json_schema_input_type=str | bool | ScratchpadSpec)]


class CoreSpec(StrictModel):
    """Settings that all prompts share."""

    scratchpad: Scratchpad = ScratchpadSpec.model_construct()
    """The file with notes for the next iteration. Its last part is included in each prompt."""
    specs_dir: Line | None = None
    """The directory with specifications, which each prompt names."""
    guardrails: tuple[Line, ...] = Field(default=DEFAULT_GUARDRAILS, strict=False)
    """Rules at the end of each prompt."""


class HatBackend(StrictModel):
    """The backend of a hat: its name, or a mapping."""

    type: Line = "custom"
    """The backend's name."""
    agent: Line | None = None
    """A custom agent, if the backend's CLI supports them."""
    command: Line | None = None
    """The program of a `custom` backend."""
    args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for the program."""

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
    """A readable name. Defaults to the hat's key."""
    description: str = ""
    """A description of the hat, for people and for the prompts of other hats."""
    triggers: tuple[Topic, ...] = Field(default=(), strict=False)
    """Topics that activate the hat. In `build.*`, the star stands for one part of a topic."""
    publishes: tuple[Topic, ...] = Field(default=(), strict=False)
    """Topics that the hat may publish."""
    default_publishes: Topic | None = None
    """The topic that is published if the hat's iteration publishes nothing."""
    instructions: str = ""
    """Instructions that are added to the prompt."""
    extra_instructions: tuple[str, ...] = Field(default=(), strict=False)
    """Further instructions, such as YAML aliases of shared texts."""
    backend: Annotated[HatBackend, ShortForm("type", {"minLength": 1})] | None = None
    """The hat's own backend, in place of `cli.backend`."""
    backend_args: tuple[str, ...] = Field(default=(), strict=False)
    """Further arguments for the backend's CLI."""
    model: ModelName | None = None
    """The hat's own model."""
    max_activations: Annotated[int, Field(ge=1)] | None = None
    """How often the hat may be active. After that, `NAME.exhausted` is published instead."""
    scratchpad: Scratchpad | None = None
    """The hat's own scratchpad, in place of `core.scratchpad`."""
    disallowed_tools: tuple[str, ...] = Field(default=(), strict=False)
    """Tools that the hat must not use: enforced for Claude Code, a rule in the prompt of other agents."""
    timeout: Seconds | None = None
    """Time limit of an iteration with this hat, in seconds."""


Hat = Annotated[HatSpec, BeforeValidator(_null_as_empty, json_schema_input_type=HatSpec | None)]


class GateSpec(StrictModel):
    """A check that must pass before the work counts as done: a command, or any evaluator."""

    name: Line
    """The gate's name; without `command`, that of the evaluator."""
    command: str | Annotated[tuple[str, ...], Field(strict=False)] | None = None
    """A line for the shell, or a program with its arguments. It runs in the loop's directory, not in a copy."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the evaluator, as `evaluators[].config` in a test case."""
    on_fail: Line | None = None
    """A text for the next prompt if the gate fails, in addition to its output."""


class MemoryFilter(StrictModel):
    """Which memories are part of prompts. An empty filter includes all."""

    types: tuple[str, ...] = Field(default=(), strict=False)
    """Types of memories to include."""
    tags: tuple[str, ...] = Field(default=(), strict=False)
    """Tags of memories to include."""
    recent: Annotated[int, Field(ge=0)] = 0
    """Only memories of the last N days. 0 includes any age."""


class MemoriesSpec(StrictModel):
    """Notes that agents keep across loops (`ralph tools memory`)."""

    enabled: bool = True
    """Whether agents can keep memories."""
    inject: Literal["auto", "manual", "none"] = "auto"
    """`auto`: in each prompt. `manual`: only if the agent asks for them. `none`: not even mentioned."""
    budget: Annotated[int, Field(ge=0)] = 0
    """Maximum number of tokens in the prompt. 0 includes all."""
    filter: MemoryFilter = MemoryFilter.model_construct()
    """Which memories are part of prompts."""


class TasksSpec(StrictModel):
    """The list of open work (`ralph tools task`)."""

    enabled: bool = True
    """Whether open tasks are part of each prompt."""


class TopicSpec(StrictModel):
    """Texts about an event for the prompts of hats that receive or publish it."""

    description: str = ""
    """The meaning of the event."""
    on_trigger: str = ""
    """Text added to the prompt of a hat that receives the event."""
    on_publish: str = ""
    """Text added to the prompt of a hat that may publish the event."""


class AdapterSpec(StrictModel):
    """Settings of one backend."""

    enabled: bool = True
    """Whether `auto` may choose this backend."""


class LoopSpec(StrictModel):
    """A loop (`ralph.yml`): which agent works on a prompt again and again, and when the work is done."""

    name: str | None = None
    """A name for readers of the file; it has no effect."""
    description: str | None = None
    """A description for readers of the file; it has no effect."""
    cli: CliSpec = CliSpec.model_construct()
    """The agent that runs in each iteration."""
    event_loop: EventLoopSpec = EventLoopSpec.model_construct()
    """The prompt, when the loop stops, and how it continues."""
    core: CoreSpec = CoreSpec.model_construct()
    """Settings that all prompts share."""
    hats: dict[Line, Hat] = Field(default_factory=dict)
    """Roles, by name."""
    events: dict[Topic, TopicSpec] = Field(default_factory=dict)
    """Descriptions of events, by topic."""
    gates: tuple[GateSpec, ...] = Field(default=(), strict=False)
    """Checks that must pass before the work counts as done."""
    sandbox: Sandbox | None = None
    """Where the agent runs. Defaults to `local`."""
    gateway: Gateway | None = None
    """How the agent reaches its model. Defaults to the gateway in the settings."""
    memories: MemoriesSpec = MemoriesSpec.model_construct()
    """Notes that agents keep across loops."""
    tasks: TasksSpec = TasksSpec.model_construct()
    """The list of open work."""
    adapters: dict[Line, AdapterSpec] = Field(default_factory=dict)
    """Settings of backends, by name."""
    suppress_warnings: bool = False
    """Do not warn about keys that have no effect."""

    @model_validator(mode="after")
    def _refers_to_what_exists(self) -> Self:
        if self.event_loop.starting_hat is not None and self.event_loop.starting_hat not in self.hats:
            raise ProblemAt("event_loop", "starting_hat is not one of `hats`")
        if self.event_loop.complete_by_gates and not self.gates:
            raise ProblemAt("event_loop", "complete_by_gates needs `gates`")
        return self
