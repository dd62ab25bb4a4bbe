"""The arena's configuration (`thunderdome.yaml`): orchestrators, tasks, and how their trials run and are validated."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from youbencha.errors import Step
from youbencha.spec.agent_files import AgentFiles, Without
from youbencha.spec.base import INT_AS_FLOAT, Line, StrictModel, VariableName
from youbencha.spec.gateway import Dollars, Gateway, GatewaySpec, TokenCount
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import AllowedHost, Cpus, Sandbox, Size

ValidationMode = Literal["diff", "shared", "separate"]
Minutes = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False), INT_AS_FLOAT]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False), INT_AS_FLOAT]
NAME_PATTERN = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$")
LONGEST_NAME = 100
Name = Annotated[str, Field(max_length=LONGEST_NAME, pattern=NAME_PATTERN.pattern)]
"""Also the name of a directory in the results."""

NULL = "null"
VARIANT_MARK = "+"
"""Between the names of an orchestrator and its variant."""
Env = dict[VariableName, str]
"""`${NAME}` is taken from `secrets.env_file`, then from the environment."""


def key_of_repo(repo: str) -> str:
    """The last part of an address, without `.git`: the default for a task's id."""
    return re.split(r"[/:]", repo.rstrip("/"))[-1].removesuffix(".git")


class BudgetSpec(StrictModel):
    """The most that may be spent."""

    per_call_usd: Dollars | None = None
    per_trial_usd: Dollars | None = None
    per_agent_usd: Dollars | None = None
    """All trials of an orchestrator together."""
    total_usd: Dollars | None = None
    """All trials of a run together, judges included."""
    tokens_per_call: TokenCount | None = None
    tokens_per_trial: TokenCount | None = None
    tokens_per_agent: TokenCount | None = None
    tokens_total: TokenCount | None = None

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
    """The same agent with something changed. What is not given is as in its orchestrator; a null removes it."""

    name: Annotated[str, Field(max_length=50, pattern=NAME_PATTERN.pattern)]
    """In the results, the variant is called `<orchestrator>+<name>`."""
    image: Line | None = None
    env: dict[VariableName, str | None] = Field(default_factory=dict)
    """Added to the orchestrator's. A null removes a variable."""
    version: Line | None = None
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    without: Without = ()
    """In place of the orchestrator's."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Added to the orchestrator's: `effort`, `append_system_prompt`, `mcp_config` and others. A null removes a key."""

    @model_validator(mode="after")
    def _only_the_agent(self) -> Self:
        _no_prompt(self.config)
        return self

    @property
    def changed_keys(self) -> list[str]:
        """Such as `skills` and `config.effort`, in the order of the model."""
        keys = [key for key in type(self).model_fields if key in self.model_fields_set and key != "name"]
        inside = {key: [f"{key}.{name}" for name in getattr(self, key)] for key in _ADDED}
        return [name for key in keys for name in inside.get(key, [key])]

    def changes(self, key: str, *inside: Step) -> bool:
        """Whether this key is the variant's, not the orchestrator's. `inside` are the steps from it to a value."""
        given = key in self.model_fields_set
        return given and (key not in _ADDED or not inside or inside[0] in getattr(self, key))


_ADDED = ("env", "config")
"""Keys of a variant that are merged with the orchestrator's; others replace them."""


class OrchestratorSpec(AgentFiles):
    """An agent in one configuration: an adapter script, or an agent that youBencha knows."""

    name: Name
    adapter: Line | None = None
    """A script that runs the agent, relative to this file."""
    agent: Annotated[Line | None, Field(validation_alias=AliasChoices("agent", "type"))] = None
    """The type of a built-in agent, such as `claude-code`. Defaults to the name, if there is no `adapter`."""
    image: Line | None = None
    """Of the agent's container."""
    env: Env = Field(default_factory=dict)
    version: Line | None = None
    """Of the agent's CLI, from the toolbox."""
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent's adapter."""
    without: Without = ()
    """Files of the tasks' repositories, such as `CLAUDE.md` and `.claude`, that the agent does not get. They are never
    in its diff."""
    budget: Budget | None = None
    """Overrides `budgets`."""
    variants: Annotated[tuple[VariantSpec, ...], Field(strict=False)] = ()
    """Run besides the orchestrator itself, with its budget, and compared with it."""

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
        for name in variant.model_fields_set & set(_ADDED):
            removed = {key for key, value in given[name].items() if value is None}
            both = {**getattr(self, name), **given[name]}
            given[name] = {key: value for key, value in both.items() if key not in removed}
        agent = self.agent or (self.name if self.adapter is None else None)
        fixed = {"name": f"{self.name}{VARIANT_MARK}{variant.name}", "agent": agent, "variants": ()}
        return self.model_copy(update={**given, **fixed})


class Weights(StrictModel):
    """How much each part counts in the composite score. They are normalised by their sum."""

    tests: Weight = 0.7
    static_analysis: Weight = 0.3
    rubric: Weight = 0.0


class GreenWeights(StrictModel):
    """The same, for tasks that begin with nothing."""

    hidden_tests: Weight = 0.385
    agent_tests: Weight = 0.308
    """Multiplied by their coverage."""
    build_lint: Weight = 0.154
    code_metrics: Weight = 0.154
    rubric: Weight = 0.0


class CanarySpec(StrictModel):
    """A test that must fail, for a test runner that youBencha does not know."""

    file: Line
    """Path in the repository. A file that exists gets the text added at its end; otherwise it is created."""
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
    """For `separate`: copy the whole workspace, with `.git` and the files that git ignores, such as an environment
    that the agent installed. It can make any test pass."""
    network: Literal["none", "open"] = "none"
    timeout_minutes: Minutes = 10.0
    """Of each command."""


class RubricSpec(StrictModel):
    """A panel of judges that scores the result."""

    criteria: (
        Annotated[dict[Line, Any], Field(min_length=1)] | Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]
    )
    """The assertions of an agentic-judge: texts, or a mapping of names to texts."""
    agent: Line | None = None
    """The judge's agent. Defaults to the orchestrator's."""
    model: Line | None = None
    votes: Annotated[int, Field(ge=1, le=9)] = 1
    threshold: Annotated[float, Field(ge=0, le=1), INT_AS_FLOAT] | None = None
    """Minimum score for a criterion to pass. Defaults to 0.7, like an agentic-judge's."""


class ResourcesSpec(StrictModel):
    """Limits of a trial's container."""

    cpus: Cpus | None = None
    memory: Size | None = None
    pids: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    disk: Size | None = None


class TaskSpec(StrictModel):
    """A task: a repository at a tag, with the task's description in it, and how the result is validated."""

    id: Name | None = None
    """Defaults to the last part of `repo`."""
    aliases: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Other names for `--task`."""
    name: Annotated[Line, Field(max_length=200)] | None = None
    """For people; also in the results."""
    repo: Line
    """An https, ssh or file URL, or a path relative to this file."""
    tag: Line
    """The tag, branch or commit that the agent starts from."""
    reference_tag: Line | None = None
    """With a solution, for `thunderdome calibrate`."""
    validation_tag: Line | None = None
    """Its files that differ from those of `tag` are the hidden tests."""
    category: Line | None = None
    """Such as `greenfield/cli`; the part before the slash is the suite."""
    greenfield: bool = False
    prompt_file: Line = "TASK.md"
    """The task's description in the repository."""
    prompt: Annotated[str, Field(min_length=1)] | None = None
    """The description itself, in place of the file."""
    validation_image: Line | None = None
    """Defaults to the orchestrator's image."""
    install_cmd: Line | None = None
    test_cmd: Line
    build_cmd: Line | None = None
    lint_cmd: Line | None = None
    time_limit_minutes: Minutes = 30.0
    """For the agent."""
    weights: Weights = Weights.model_construct()
    green_weights: GreenWeights = GreenWeights.model_construct()
    rubric: RubricSpec | None = None
    env: Env = Field(default_factory=dict)
    """For the agent and the validation."""
    resources: ResourcesSpec = ResourcesSpec.model_construct()
    protected: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Patterns of further files that the agent may not change: they are restored before tests are run."""
    without: Without = ()
    """Files of the repository, such as `CLAUDE.md` and `.claude`, that no agent gets. They are never in a diff."""
    validation: ValidationSpec | None = None
    """Overrides the arena's."""
    reward: Line | None = None
    """File that `test_cmd` writes: a number from 0 to 1, or a flat JSON object with `reward` in it. It is the score of
    the tests, in place of what they report."""
    canary: Canary = "auto"
    """Test that must fail, added to check whether the test report can be trusted. `none` disables it."""

    @property
    def key(self) -> str:
        """Identifies the task in results and options."""
        return self.id or key_of_repo(self.repo)

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
    """What agents reach besides the gateway."""

    allowlist: Annotated[tuple[AllowedHost, ...], Field(strict=False)] = ()
    """As `allowlist` of a sandbox."""


class SecretsSpec(StrictModel):
    env_file: Line | None = None
    """Lines of NAME=VALUE, relative to this file."""


class ArenaResultsSpec(StrictModel):
    dir: Line = "results"
    keep_workspaces: bool = False
    """Keep the agents' files besides their diffs."""


class RetrySpec(StrictModel):
    """When a trial failed for reasons other than the agent."""

    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    """In all."""
    backoff_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False), INT_AS_FLOAT] = 5.0
    """Before the second; doubled each time, with up to as much again at random."""


class ArenaSpec(StrictModel):
    """An arena (`thunderdome.yaml`)."""

    orchestrators: Annotated[tuple[OrchestratorSpec, ...], Field(strict=False, min_length=1)]
    tasks: Annotated[tuple[TaskSpec, ...], Field(strict=False, min_length=1)]
    baseline: Line | None = None
    """The orchestrator, or the variant, that all others are compared with. Defaults to a variant's orchestrator."""
    trials: Annotated[int, Field(ge=1, le=100_000)] = 1
    parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    """Trials at the same time."""
    parallel_per_provider: dict[Literal["anthropic", "openai", "gemini"], Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict
    )
    container_starts: Annotated[int, Field(ge=1, le=256)] = 4
    """Containers that start at the same time; any number may run."""
    gateway: Gateway | None = None
    budgets: BudgetSpec = BudgetSpec.model_construct()
    network: NetworkSpec = NetworkSpec.model_construct()
    sandbox: Sandbox | None = None
    """Defaults to `docker`."""
    validation: ValidationSpec = ValidationSpec.model_construct()
    retries: RetrySpec = RetrySpec.model_construct()
    secrets: SecretsSpec = SecretsSpec.model_construct()
    results: ArenaResultsSpec = ArenaResultsSpec.model_construct()

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.network.allowlist and self.sandbox is not None and self.sandbox.network != "gateway":
            raise ProblemAt("network", "cannot be combined with the sandbox's `network`", hint="remove one of the two")
        return self
