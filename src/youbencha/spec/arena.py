"""The arena's configuration (`thunderdome.yaml`): orchestrators, tasks, and how their trials run and are validated."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from youbencha.errors import Step
from youbencha.spec.agent_files import AgentFiles, Without
from youbencha.spec.base import INT_AS_FLOAT, Line, StrictModel, VariableName, added
from youbencha.spec.gateway import Dollars, Gateway, GatewaySpec, TokenCount
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import AllowedHost, Cpus, Sandbox, Size

ValidationMode = Literal["diff", "shared", "separate"]
Minutes = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False), INT_AS_FLOAT]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False), INT_AS_FLOAT]
NAME_PATTERN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$")
MAX_NAME_CHARS = 100
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS, pattern=NAME_PATTERN.pattern)]
"""Also the name of a directory in the results."""

NULL = "null"
VARIANT_MARK = "+"
"""Between the names of an orchestrator and its variant."""
Env = dict[VariableName, str]
"""`${NAME}` is taken from `secrets.env_file`, then from the environment."""


def repo_key(repo: str) -> str:
    """The last part of an address, without `.git`: the default for a task's id."""
    return re.split(r"[/:]", repo.rstrip("/"))[-1].removesuffix(".git")


class BudgetSpec(StrictModel):
    """Limits on what may be spent."""

    per_call_usd: Dollars | None = None
    """Cost limit of one request, in dollars."""
    per_trial_usd: Dollars | None = None
    """Cost limit of one trial, in dollars."""
    per_agent_usd: Dollars | None = None
    """Cost limit of all trials of one orchestrator, in dollars."""
    total_usd: Dollars | None = None
    """Cost limit of all trials of a run, including judges, in dollars."""
    tokens_per_call: TokenCount | None = None
    """Token limit of one request."""
    tokens_per_trial: TokenCount | None = None
    """Token limit of one trial."""
    tokens_per_agent: TokenCount | None = None
    """Token limit of all trials of one orchestrator."""
    tokens_total: TokenCount | None = None
    """Token limit of all trials of a run, including judges."""

    def merged_over(self, gateway: GatewaySpec) -> GatewaySpec:
        """A gateway with what is set here in place of its own limits."""
        given = {_LIMITS[name]: getattr(self, name) for name in self.model_fields_set}
        return gateway.model_copy(update=given)


_LIMITS = {
    "per_call_usd": "budget_per_call_usd",
    "per_trial_usd": "budget_per_trial_usd",
    "per_agent_usd": "budget_per_agent_usd",
    "total_usd": "budget_total_usd",
    "tokens_per_call": "tokens_per_call",
    "tokens_per_trial": "tokens_per_trial",
    "tokens_per_agent": "tokens_per_agent",
    "tokens_total": "tokens_total",
}
"""The names of the same limits in a gateway."""


def _per_trial(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"per_trial_usd": value} if is_number else value


Budget = Annotated[BudgetSpec, BeforeValidator(_per_trial, json_schema_input_type=float | BudgetSpec)]
"""A number is dollars per trial."""


def _no_prompt(config: Mapping[str, Any]) -> None:
    for name in ("prompt", "prompt_file"):
        if name in config:
            raise ProblemAt("config", f"must not contain `{name}`: the task has the prompt")


class VariantSpec(AgentFiles):
    """The same agent with something changed. All other settings are the orchestrator's. A null removes a setting."""

    name: Annotated[str, Field(max_length=50, pattern=NAME_PATTERN.pattern)]
    """The variant's name. Results and options call the variant `<orchestrator>+<name>`."""
    image: Line | None = None
    """The image of its container, in place of the orchestrator's."""
    env: dict[VariableName, str | None] = Field(default_factory=dict)
    """Environment variables, added to the orchestrator's. A null removes one."""
    version: Line | None = None
    """The version of the agent's CLI, in place of the orchestrator's."""
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """The model, in place of the orchestrator's."""
    without: Without = added(())
    """Repository files that the agent does not get, in place of the orchestrator's list."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent, added to the orchestrator's: `effort`, `append_system_prompt`, `mcp_config` and others. A
    null removes one."""

    @model_validator(mode="after")
    def _only_the_agent(self) -> Self:
        _no_prompt(self.config)
        return self

    @property
    def changed_keys(self) -> list[str]:
        """Such as `skills` and `config.effort`, in the order of the model."""
        keys = [key for key in type(self).model_fields if key in self.model_fields_set and key != "name"]
        inside = {key: [f"{key}.{name}" for name in getattr(self, key)] for key in MERGED_KEYS}
        return [name for key in keys for name in inside.get(key, [key])]

    def changes(self, key: str, *inside: Step) -> bool:
        """Whether this key is the variant's, not the orchestrator's. `inside` are the steps from it to a value."""
        given = key in self.model_fields_set
        return given and (key not in MERGED_KEYS or not inside or inside[0] in getattr(self, key))


MERGED_KEYS = ("env", "config")
"""Keys of a variant that are merged with the orchestrator's; others replace them."""


class OrchestratorSpec(AgentFiles):
    """An agent in one configuration: a built-in agent, or an adapter script."""

    name: Name
    """The name in results and options."""
    adapter: Line | None = None
    """A script that runs the agent, relative to this file."""
    agent: Annotated[Line | None, Field(validation_alias=AliasChoices("agent", "type"))] = None
    """The type of a built-in agent, such as `claude-code`. Defaults to the name if there is no `adapter`."""
    image: Line | None = None
    """The image of the agent's container. Defaults to the sandbox's."""
    env: Env = Field(default_factory=dict)
    """Environment variables for the agent. `${NAME}` is taken from `secrets.env_file`, then from the environment."""
    version: Line | None = None
    """The version of the agent's CLI. Defaults to the one on PATH, then to the newest in the toolbox."""
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """The model. Defaults to the agent's own default."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent. The prompt is the task's."""
    without: Without = added(())
    """Files of the tasks' repositories that the agent does not get, such as `CLAUDE.md` and `.claude`. They never show
    up in its diff."""
    budget: Budget | None = None
    """Limits that override `budgets`. A number means dollars per trial."""
    variants: Annotated[tuple[VariantSpec, ...], Field(strict=False)] = ()
    """The same agent with something changed. Each variant runs in addition to the orchestrator itself, with its
    budget, and is compared with it."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.adapter is not None:
            for name in ("agent", "config", "version"):
                if name in self.model_fields_set:
                    raise ProblemAt(name, "cannot be combined with `adapter`", hint="remove one of the two")
        _no_prompt(self.config)
        if self.budget and self.budget.model_fields_set & {"total_usd", "tokens_total"}:
            raise ProblemAt("budget", "cannot limit the whole run", hint="do that in `budgets`, or use per_agent_usd")
        if self.does_nothing and (unused := self.model_fields_set & {"model", "version", "config", "budget"}):
            raise ProblemAt(min(unused), "has no effect on `null`, which does nothing", hint="add an `agent`")
        return self

    @property
    def does_nothing(self) -> bool:
        """An orchestrator `null` without a script or an agent, which shows what a task scores if nothing is done."""
        return self.needs_no_model and self.adapter is None

    @property
    def needs_no_model(self) -> bool:
        """Whether it is called `null`: it does nothing, or is a script that does nothing."""
        return self.name == NULL and self.agent is None

    def with_variant(self, variant: VariantSpec) -> Self:
        """The variant as an orchestrator of its own."""
        given = {name: getattr(variant, name) for name in variant.model_fields_set}
        for name in variant.model_fields_set & set(MERGED_KEYS):
            removed = {key for key, value in given[name].items() if value is None}
            both = {**getattr(self, name), **given[name]}
            given[name] = {key: value for key, value in both.items() if key not in removed}
        agent = self.agent or (self.name if self.adapter is None else None)
        fixed = {"name": f"{self.name}{VARIANT_MARK}{variant.name}", "agent": agent, "variants": ()}
        return self.model_copy(update={**given, **fixed})


class Weights(StrictModel):
    """How much each part counts in the score. Weights are divided by their sum."""

    tests: Weight = 0.7
    """Weight of the task's tests."""
    static_analysis: Weight = 0.3
    """Weight of build and lint."""
    rubric: Weight = 0.0
    """Weight of the rubric."""


class GreenWeights(StrictModel):
    """How much each part counts in the score of a greenfield task. Weights are divided by their sum."""

    hidden_tests: Weight = 0.385
    """Weight of the hidden tests."""
    agent_tests: Weight = 0.308
    """Weight of the agent's own tests, multiplied by their coverage."""
    build_lint: Weight = 0.154
    """Weight of build and lint."""
    code_metrics: Weight = 0.154
    """Weight of the code metrics."""
    rubric: Weight = 0.0
    """Weight of the rubric."""


class CanarySpec(StrictModel):
    """A test that must fail, for a test runner that youBencha does not know."""

    file: Line
    """Path in the repository. If the file exists, the text is appended to it; otherwise, it is created."""
    text: Annotated[str, Field(min_length=1)]
    """Must make `test_cmd` report a failed test called `{name}`, or exit with a non-zero code. `{name}` becomes a
    random name."""


Canary = Annotated[Literal["auto", "none"] | CanarySpec, Field(union_mode="left_to_right")]


class ValidationSpec(StrictModel):
    """How a trial's result is validated."""

    mode: ValidationMode = "diff"
    """`diff`: in a fresh container, from a clean checkout and the agent's diff. `shared`: where the agent worked, with
    its state, after its processes are gone. `separate`: its files, without those that git ignores, in
    `validation_image`."""
    copy_ignored: bool = False
    """For `separate`: copy the whole workspace with `.git` and the files that git ignores, such as an environment that
    the agent installed. This can make any test pass."""
    network: Literal["none", "open"] = "none"
    """Network access of the validation: `none`, or `open` for whatever the engine's default network reaches."""
    timeout_minutes: Minutes = 10.0
    """Time limit of each command, in minutes."""


class RubricSpec(StrictModel):
    """A panel of judges that assesses the result."""

    criteria: (
        Annotated[dict[Line, Any], Field(min_length=1)] | Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]
    )
    """What the judges assess: a list of texts, or a mapping of names to texts."""
    agent: Line | None = None
    """The judge's agent. Defaults to the orchestrator's."""
    model: Line | None = None
    """The judge's model."""
    votes: Annotated[int, Field(ge=1, le=9)] = 1
    """Number of independent judgements. The median counts."""
    threshold: Annotated[float, Field(ge=0, le=1), INT_AS_FLOAT] | None = None
    """Minimum score for a criterion to pass. Defaults to 0.7."""


class ResourcesSpec(StrictModel):
    """Limits of the task's containers."""

    cpus: Cpus | None = None
    """Number of CPUs, such as 0.5."""
    memory: Size | None = None
    """Memory limit, such as 4g."""
    pids: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    """Maximum number of processes and threads at the same time."""
    disk: Size | None = None
    """Limit for the files that the agent writes, such as 10g."""


class TaskSpec(StrictModel):
    """A task: a repository at a tag, a prompt, and how the result is validated."""

    id: Name | None = None
    """Identifies the task in results and options. Defaults to the last part of `repo`."""
    aliases: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Other names for `--task`."""
    name: Annotated[Line, Field(max_length=200)] | None = None
    """A readable name, shown in results."""
    repo: Line
    """The repository: an https, ssh or file URL, or a path relative to this file."""
    tag: Line
    """The tag, branch or commit that the agent starts from."""
    reference_tag: Line | None = None
    """A commit with a solution, for `thunderdome calibrate`."""
    validation_tag: Line | None = None
    """A commit whose files that differ from those of `tag` are the hidden tests."""
    category: Line | None = None
    """Groups tasks in reports, such as `greenfield/cli`. The part before the slash is the suite."""
    greenfield: bool = False
    """The agent starts from scratch and writes its own tests; hidden tests check the result."""
    prompt_file: Line = "TASK.md"
    """The task's description, a file in the repository."""
    prompt: Annotated[str, Field(min_length=1)] | None = None
    """The task's description itself, in place of the file."""
    validation_image: Line | None = None
    """The image that results are validated in. Defaults to the orchestrator's."""
    install_cmd: Line | None = None
    """Command that installs dependencies before the validation."""
    test_cmd: Line
    """Command that runs the tests."""
    build_cmd: Line | None = None
    """Command that builds the project."""
    lint_cmd: Line | None = None
    """Command that lints the code."""
    time_limit_minutes: Minutes = 30.0
    """The agent's time limit, in minutes."""
    weights: Weights = Weights.model_construct()
    """How much each part counts in the score."""
    green_weights: GreenWeights = GreenWeights.model_construct()
    """How much each part counts in the score of a greenfield task."""
    rubric: RubricSpec | None = None
    """Judges that assess the result."""
    env: Env = Field(default_factory=dict)
    """Environment variables for the agent and the validation."""
    resources: ResourcesSpec = ResourcesSpec.model_construct()
    """Limits of the task's containers."""
    protected: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Patterns of further files that the agent may not change. They are restored before the tests run."""
    without: Without = added(())
    """Repository files that no agent gets, such as `CLAUDE.md` and `.claude`. They never show up in a diff."""
    validation: ValidationSpec | None = None
    """How results are validated; overrides the arena's `validation`."""
    reward: Line | None = None
    """A file that `test_cmd` writes: a number from 0 to 1, or a flat JSON object with `reward` in it. It is the score
    of the tests, in place of what they report."""
    canary: Canary = "auto"
    """A test that must fail, added to check whether the test report can be trusted. `auto` adds one for known test
    runners, `none` disables it."""

    @property
    def key(self) -> str:
        """Identifies the task in results and options."""
        return self.id or repo_key(self.repo)

    @property
    def suite(self) -> str | None:
        return self.category.partition("/")[0] if self.category else None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.greenfield and "weights" in self.model_fields_set:
            raise ProblemAt("weights", "is for tasks that are not greenfield", hint="use `green_weights`")
        if not self.greenfield and "green_weights" in self.model_fields_set:
            raise ProblemAt("green_weights", "is only valid with `greenfield: true`", hint="use `weights`")
        if self.prompt is not None and "prompt_file" in self.model_fields_set:
            raise ProblemAt("prompt_file", "cannot be combined with `prompt`", hint="remove one of the two")
        weights = self.green_weights if self.greenfield else self.weights
        if weights.rubric and self.rubric is None:
            key = "green_weights" if self.greenfield else "weights"
            raise ProblemAt(key, "gives a weight to `rubric`, which the task does not have")
        if self.greenfield and self.validation_tag is None and self.green_weights.hidden_tests:
            raise ProblemAt("greenfield", "requires `validation_tag`, which has the hidden tests")
        return self


class NetworkSpec(StrictModel):
    """The hosts that containers reach besides the gateway."""

    allowlist: Annotated[tuple[AllowedHost, ...], Field(strict=False)] = ()
    """Hosts that containers reach besides the gateway; `*.example.org` means every subdomain."""


class SecretsSpec(StrictModel):
    """Where values for `${NAME}` come from."""

    env_file: Line | None = None
    """A file with lines of NAME=VALUE, relative to this file, which override the environment."""


class ArenaResultsSpec(StrictModel):
    """Where results are written."""

    dir: Line = "results"
    """The results directory, relative to this file."""
    keep_workspaces: bool = False
    """Keep the agents' files in addition to their diffs."""


class RetrySpec(StrictModel):
    """How trials that failed for reasons other than the agent are repeated."""

    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """Maximum number of attempts, including the first."""
    backoff_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), INT_AS_FLOAT] = 5.0
    """Seconds before the second attempt. Doubled each time, plus up to 100% jitter."""


class ArenaSpec(StrictModel):
    """An arena (`thunderdome.yaml`): which agents do which tasks, and how the results are validated."""

    orchestrators: Annotated[tuple[OrchestratorSpec, ...], Field(strict=False, min_length=1)]
    """The agents to compare."""
    tasks: Annotated[tuple[TaskSpec, ...], Field(strict=False, min_length=1)]
    """The tasks that the agents do."""
    baseline: Line | None = None
    """The orchestrator or variant that all others are compared with. Defaults to a variant's orchestrator."""
    trials: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How often each orchestrator does each task."""
    parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    """Maximum number of trials at the same time."""
    parallel_per_provider: dict[Literal["anthropic", "openai", "gemini"], Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict
    )
    """Maximum number of trials of one provider at the same time."""
    container_starts: Annotated[int, Field(ge=1, le=256)] = 4
    """Maximum number of containers that start at the same time; any number may run."""
    gateway: Gateway | None = None
    """How agents reach their models."""
    budgets: BudgetSpec = BudgetSpec.model_construct()
    """Limits on what may be spent."""
    network: NetworkSpec = NetworkSpec.model_construct()
    """The hosts that containers reach besides the gateway."""
    sandbox: Sandbox | None = None
    """Where agents run. Defaults to `docker`."""
    validation: ValidationSpec = ValidationSpec.model_construct()
    """How results are validated."""
    retries: RetrySpec = RetrySpec.model_construct()
    """How trials that failed for reasons other than the agent are repeated."""
    secrets: SecretsSpec = SecretsSpec.model_construct()
    """Where values for `${NAME}` come from."""
    results: ArenaResultsSpec = ArenaResultsSpec.model_construct()
    """Where results are written."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.network.allowlist and self.sandbox is not None and self.sandbox.network != "gateway":
            raise ProblemAt("network", "cannot be combined with the sandbox's `network`", hint="remove one of the two")
        return self
