"""The arena's configuration (`thunderdome.yaml`): orchestrators, tasks, and how their trials run and are validated."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, Line, ShortForm, StrictModel, VariableName
from youbencha.spec.gateway import Dollars, Gateway, TokenCount
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Cpus, Sandbox, Size

ValidationMode = Literal["diff", "shared", "separate"]
Minutes = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False), INT_AS_FLOAT]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False), INT_AS_FLOAT]
Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$")]
"""Also the name of a directory in the results."""

Env = dict[VariableName, str]
"""`${NAME}` is taken from `secrets.env_file`, then from the environment."""


class BudgetSpec(StrictModel):
    """The most that may be spent. A number alone is dollars per trial."""

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


class OrchestratorSpec(StrictModel):
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
    model: Line | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    """Further options of the agent's adapter."""
    budget: Dollars | BudgetSpec | None = None
    """A number is dollars per trial. Overrides `budgets`."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.adapter is not None:
            for name in ("agent", "config", "version"):
                if name in self.model_fields_set:
                    raise ProblemAt(name, "cannot be combined with `adapter`", hint="remove one of the two")
        return self


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


class ValidationSpec(StrictModel):
    """How a trial's result is validated."""

    mode: ValidationMode = "diff"
    """`diff`: in a fresh container, from a clean checkout and the agent's diff. `shared`: where the agent worked, with
    its state, after its processes are gone. `separate`: a copy of its workspace in `validation_image`."""
    network: Literal["none", "open"] = "none"
    timeout_minutes: Minutes = 10.0
    """Of each command."""


class RubricSpec(StrictModel):
    """A panel of judges that scores the result."""

    criteria: Annotated[dict[Line, Any] | tuple[Any, ...], Field(strict=False, min_length=1)]
    """The assertions of an agentic-judge: texts, or a mapping of names to texts."""
    agent: Line | None = None
    """The judge's agent. Defaults to the orchestrator's."""
    model: Line | None = None
    votes: Annotated[int, Field(ge=1, le=9)] = 1


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
    name: Line | None = None
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
    validation: ValidationSpec | None = None
    """Overrides the arena's."""

    @property
    def key(self) -> str:
        """Identifies the task in results and options."""
        return self.id or self.repo.rstrip("/").rpartition("/")[2].removesuffix(".git")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.greenfield and "weights" in self.model_fields_set:
            raise ProblemAt("weights", "is for tasks that are not greenfield", hint="use `green_weights`")
        if not self.greenfield and "green_weights" in self.model_fields_set:
            raise ProblemAt("green_weights", "is only valid with `greenfield: true`", hint="use `weights`")
        if self.greenfield and self.validation_tag is None and self.green_weights.hidden_tests:
            raise ProblemAt("greenfield", "requires `validation_tag`, which has the hidden tests")
        return self


class NetworkSpec(StrictModel):
    """What agents reach besides the gateway."""

    allowlist: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Hosts; `*.example.org` includes subdomains."""


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
    trials: Annotated[int, Field(ge=1, le=100_000)] = 1
    parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    """Trials at the same time."""
    parallel_per_provider: dict[Literal["anthropic", "openai", "gemini"], Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict
    )
    container_starts: Annotated[int, Field(ge=1, le=256)] = 4
    """Containers that start at the same time; any number may run."""
    gateway: Gateway | None = None
    proxy: dict[str, Any] | None = None
    """The gateway in the original's form: gateway, log_dir, budget_per_trial_usd."""
    budgets: BudgetSpec = BudgetSpec.model_construct()
    network: Annotated[NetworkSpec, ShortForm("allowlist", {})] | None = None
    sandbox: Sandbox | None = None
    """Defaults to `docker`."""
    validation: ValidationSpec = ValidationSpec.model_construct()
    retries: RetrySpec = RetrySpec.model_construct()
    secrets: SecretsSpec = SecretsSpec.model_construct()
    results: ArenaResultsSpec = ArenaResultsSpec.model_construct()
