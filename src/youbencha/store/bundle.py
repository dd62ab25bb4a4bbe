"""ResultsBundle (`results.json`): the results of one run of one test case.

Unknown is null, but a key of the original youBencha's results is then absent (`OPTIONAL`), as it was there.
`summary.overall_status` is the verdict; `outcome` classifies the run, and says whether it is a valid measurement of the
agent.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from youbencha.log.model import (
    Count,
    ErrorRecord,
    Record,
    Status,
    Timestamp,
    Unmasked,
    Usage,
)

RESULTS_VERSION = "1.0.0"
EvaluationStatus = Literal["passed", "failed", "skipped"]
OverallStatus = Literal["passed", "failed", "partial"]
HookStatus = Literal["success", "failed", "skipped"]
OutcomeName = Literal[
    "solved", "unsolved", "limit", "refused", "agent_error", "provider_error", "infra_error", "verifier_error"
]


OPTIONAL: Any = Field(default=None, exclude_if=lambda value: value is None)
"""Left out if unknown, as in the original's results."""


class TestCaseInfo(Record):
    __test__ = False  # its name makes pytest collect it

    name: str
    """The name of the test case."""
    description: str = ""
    """Its description."""
    config_file: str
    """The path of its file."""
    config_hash: Unmasked
    """SHA-256 of the configuration with every reference resolved and every variable substituted."""
    repo: str | None = OPTIONAL
    """The repository, without credentials. `yb eval` has a directory instead."""
    branch: str | None = OPTIONAL
    """The branch that was checked out."""
    commit: Unmasked | None = OPTIONAL
    """The full id of the commit that the agent started from."""
    expected_branch: str | None = OPTIONAL
    """The branch with the expected result."""
    directory: str | None = OPTIONAL
    """The directory that `yb eval` evaluated."""
    expected_directory: str | None = OPTIONAL
    """The directory that it was compared with."""


class Environment(Record):
    os: str
    """The operating system and its release."""
    python_version: Unmasked
    """The version of the Python that ran youBencha."""
    workspace_dir: str
    """The run directory."""


class RunExecution(Record):
    started_at: Timestamp
    """When the run began."""
    completed_at: Timestamp
    """When these results were written."""
    duration_ms: Count
    """The time from start to completion, in milliseconds."""
    youbencha_version: Unmasked
    """The version of youBencha."""
    environment: Environment
    """The machine of the run."""
    interrupted: bool = False
    """Whether the run was interrupted."""
    complete: bool = True
    """Whether the run was finished when these results were written."""
    phases_ms: dict[Unmasked, Count] = Field(default_factory=dict)
    """The duration of each phase: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""


class ModelUse(Record):
    requests: Count
    """How many requests went to the model."""
    usage: Usage
    """Their tokens and cost."""


class UsageDifference(Record):
    """The gateway's numbers minus the agent's. Null where one of the two is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


class BudgetReport(Record):
    cap_usd: float | None = None
    """The cap in dollars; null if there is none."""
    cap_tokens: Count | None = None
    """The cap in tokens; null if there is none."""
    spent_usd: float = 0.0
    """Dollars spent."""
    spent_tokens: Count = 0
    """Tokens spent."""
    unsure_usd: float = 0.0
    """Possible additional cost of interrupted calls. It counts against the cap."""
    unsure_tokens: Count = 0
    """Like `unsure_usd`, in tokens."""
    exceeded: bool = False
    """Whether more was spent than a cap allows, or the gateway refused a request because of one."""
    reason: str | None = None
    """The reason for a refused request: the exhausted cap, and by how much. Null if no request was refused."""
    refused_by: str | None = None
    """The cap that refused the request: the agent's for this trial, the agent's for all trials, or the run's."""


class CassetteReport(Record):
    dir: str
    """The directory of the cassette."""
    mode: Literal["record", "replay", "auto"]
    """The mode: whether the cassette was recorded or replayed."""
    replayed: Count = 0
    """Requests that were answered from the cassette."""
    recorded: Count = 0
    """Requests that were recorded."""
    unmatched: Count = 0
    """Requests without a recorded answer."""
    mismatches: tuple[str, ...] = ()
    """Artifacts that show how the unmatched requests differ from the recorded ones."""


class GatewayReport(Record):
    """The agent's requests through the gateway. Those of evaluators are in the evaluators' `usage`."""

    type: Literal["builtin", "litellm"]
    """The kind of gateway."""
    ledger: str
    """The file with one line for each request, relative to the artifacts directory."""
    requests: Count = 0
    """All requests, including refused ones."""
    failed: Count = 0
    """Requests that were answered with an error, or interrupted."""
    rate_limited: Count = 0
    """Requests that were answered with 429 or 529."""
    refused: Count = 0
    """Requests that a budget refused."""
    provider_wait_ms: Count = 0
    """How long the agent waited at the provider's request, or for an answer that never began."""
    circuit_opened: bool = False
    """Whether the gateway stopped sending requests, because the provider failed repeatedly."""
    provider_failure: str | None = None
    """How the agent's calls since its last answer failed. Null if none failed, so the provider was not the cause."""
    provider_silent_ms: Count | None = None
    """How long the agent's later calls waited without an answer. Null if that was not unusually long."""
    ended_in_tool: bool = False
    """Whether the model's last answer called a tool, which means that the agent stopped before it had finished."""
    unusable_model: str | None = None
    """Why the configured model is unusable: the provider does not know it, or its price is unknown. Null if usable."""
    unpriced: str | None = None
    """Why requests were refused: the model's price is unknown, so a cap in dollars cannot be enforced."""
    usage: Usage | None = None
    """Tokens and cost of the requests."""
    prices: str | None = None
    """The source of the prices: the list and its version, and how many the configuration adds."""
    paid_usd: float | None = None
    """The part of `usage.cost_usd` that was actually paid. Replayed answers are free. Null if a price is unknown."""
    models: dict[str, ModelUse] = Field(default_factory=dict)
    """Requests and usage of each model."""
    reported: Usage | None = None
    """The agent's own count."""
    difference: UsageDifference | None = None
    """The difference between the gateway's and the agent's count."""
    budget: BudgetReport | None = None
    """The budget; null without a cap."""
    cassette: CassetteReport | None = None
    """The recording that was made or replayed."""
    request_fingerprints: tuple[str, ...] | None = None
    """Digests of the requests: the model, its parameters, the system prompt, the tools, and the start of
    the main conversation, excluding parts that differ in every run. Null if unknown."""


class DeniedHost(Record):
    """A host outside the allowlist that the agent tried to reach."""

    host: str
    """The host's name, with the port unless that is 80 or 443."""
    attempts: Annotated[int, Field(ge=1)]
    """How often the agent tried."""
    first_at: Timestamp
    """When it first tried."""


class SandboxReport(Record):
    """Where the agent ran."""

    type: Unmasked
    """The kind of sandbox: local or docker."""
    image: str | None = None
    """The name of the image."""
    image_id: str | None = None
    """The digest of the image that was run."""
    image_digest: str | None = None
    """The digest in the registry; null for an image that was built locally."""
    engine: str | None = None
    """The container engine and its version."""
    network: str | None = None
    """The network mode."""
    allowlist: tuple[str, ...] = ()
    """Hosts that the agent could reach besides the gateway."""
    denied: tuple[DeniedHost, ...] | None = None
    """Other hosts that it tried to reach. Null if unknown, because there was no allowlist."""
    cpus: float | None = None
    """The CPU limit; null if there is none."""
    memory: Count | None = None
    """The memory limit in bytes; null if there is none."""
    fresh_home: bool | None = None
    """Whether the agent had a new home directory, without the user's settings."""


class AgentRun(Record):
    type: Unmasked
    """The kind of agent, such as claude-code."""
    agent_name: str | None = None
    """The name of the agent definition used."""
    version: str | None = None
    """The version of the agent's CLI, as it reports it."""
    adapter_version: str | None = None
    """The version of its adapter."""
    youbencha_log_path: str | None = OPTIONAL
    """The log file, relative to the artifacts directory, like all paths in the results."""
    status: Status | None = OPTIONAL
    """How the agent ended. Absent if it was interrupted."""
    exit_code: int | None = OPTIONAL
    """Its exit code."""
    duration_ms: Count | None = None
    """How long it ran."""
    model: str | None = None
    """The model as the agent reports it; until then, as configured."""
    usage: Usage | None = None
    """Tokens and cost as the gateway metered them; as the agent reported them, if nothing went through a gateway."""
    gateway: GatewayReport | None = None
    """The requests through the gateway. Null if the agent reached its model directly."""
    budget_exceeded: bool | None = None
    """Whether a budget was exceeded. Null without a gateway."""
    sandbox: SandboxReport | None = None
    """The environment in which the agent ran."""
    turns: Count | None = None
    """How many turns it took."""
    tool_calls: Count | None = None
    """How many tools it called."""
    tools_used: dict[str, Count] | None = None
    """How often it called each tool."""
    errors: tuple[ErrorRecord, ...] = ()
    """Why it failed."""
    warnings: tuple[ErrorRecord, ...] = ()
    """Warnings from the adapter and youBencha."""


class Artifact(Record):
    type: str
    """The kind of file."""
    path: str
    """The path, relative to the artifacts directory."""
    description: str = ""
    """A description of the contents."""


class EvaluationError(Record):
    message: str
    """The error message."""
    code: str | None = None
    """The error code."""
    hint: str | None = None
    """How to fix it."""
    stack_trace: str | None = OPTIONAL
    """The stack trace."""


class AssertionResult(Record):
    """A requirement and its verdict."""

    name: str
    """The name of the requirement."""
    passed: bool
    """Whether the requirement is met."""
    expected: Any = None
    """The value that was required."""
    actual: Any = None
    """The value that was measured."""
    message: str = ""
    """An explanation."""


def _listed(assertions: Any) -> Any:
    return tuple(assertions.values()) if isinstance(assertions, Mapping) else assertions


def _by_name(assertions: Sequence[AssertionResult]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for assertion in assertions:
        name = assertion.name
        written[f"{name} ({len(written) + 1})" if name in written else name] = assertion.model_dump()
    return written


def _object_schema(schema: dict[str, Any]) -> None:
    schema.update(type="object", additionalProperties=schema.pop("items"), default={})


Assertions = Annotated[
    tuple[AssertionResult, ...],
    BeforeValidator(_listed),
    PlainSerializer(_by_name),
    Field(json_schema_extra=_object_schema),
]
"""Assertions by name: an object in JSON; a list, as in older results, can also be read."""


class EvaluationResult(Record):
    """The result of one evaluator: `skipped` if it could not evaluate, with an `error` if it failed."""

    evaluator: Unmasked
    """The name of the evaluator."""
    status: EvaluationStatus
    """Its verdict."""
    metrics: dict[str, Any] = Field(default_factory=dict)
    """The measured values."""
    message: str
    """A summary in one line."""
    duration_ms: Count = 0
    """How long it took."""
    timestamp: Timestamp
    """When it ended."""
    assertions: Assertions = ()
    """Its requirements, each with its verdict."""
    artifacts: tuple[Artifact, ...] = ()
    """The files that it wrote."""
    error: EvaluationError | None = OPTIONAL
    """Why it could not evaluate."""
    usage: Usage | None = None
    """Tokens and cost of the evaluator itself, such as a judge; not part of the agent's usage."""
    advisory: bool = False
    """Whether the verdict is only reported: the run may pass although this evaluator failed or was skipped."""


class HookResult(Record):
    hook: Unmasked
    """The kind of hook: script, webhook or database."""
    status: HookStatus
    """How it ended."""
    message: str
    """A summary in one line."""
    duration_ms: Count
    """How long it took."""
    timestamp: Timestamp
    """When it ended."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Details, such as its output."""
    error: EvaluationError | None = OPTIONAL
    """Why it failed."""


class Hooks(Record):
    pre_execution: tuple[HookResult, ...] = ()
    """The hooks before the agent."""
    post_evaluation: tuple[HookResult, ...] = ()
    """The hooks after the evaluation."""


class Summary(Record):
    total_evaluators: Count
    """How many evaluators the test case has."""
    passed: Count
    """How many passed."""
    failed: Count
    """How many failed."""
    skipped: Count
    """How many could not evaluate."""
    overall_status: OverallStatus
    """The verdict of the run."""


class Outcome(Record):
    name: OutcomeName
    """The class of the outcome."""
    valid: bool
    """Whether this run measured the agent. If not, it must be excluded from scores."""
    reason: str
    """The reason for the outcome."""
    retry: bool = False
    """Whether another attempt may succeed."""


class Identity(Record):
    """The exact versions and inputs of the run."""

    run_id: str
    """The name of the run."""
    youbencha_version: Unmasked
    """The version of youBencha."""
    agent_type: Unmasked | None = None
    """The kind of agent."""
    agent_version: str | None = None
    """The version of the agent's CLI."""
    agent_executable: str | None = None
    """The program that was started."""
    agent_sha256: Unmasked | None = None
    """The SHA-256 of that program."""
    model: str | None = None
    """The model, as the agent reports it."""
    task_commit: Unmasked | None = None
    """The commit that the agent started from."""
    commit_files: Annotated[tuple[str, ...], Field(exclude_if=lambda files: not files)] = ()
    """Files of the task's commit that the agent reads by itself: instructions, skills and settings."""
    config_hash: Unmasked
    """The same value as in `test_case`."""


class ArtifactManifest(Record):
    agent_log: str | None = OPTIONAL
    """The log of the agent."""
    diff: str | None = None
    """The agent's changes, as a patch."""
    agent_files: str | None = OPTIONAL
    """The directory with the files that the agent was given."""
    reports: tuple[str, ...] = ()
    """The reports."""
    evaluator_artifacts: tuple[str, ...] = ()
    """The files that evaluators wrote."""
    gateway: tuple[str, ...] = ()
    """The ledger, the mismatches of a replay, LiteLLM's log."""


class ResultsBundle(Record):
    version: Unmasked = RESULTS_VERSION
    """The version of this format."""
    test_case: TestCaseInfo
    """The test case."""
    execution: RunExecution
    """The time and place of the run."""
    agent: AgentRun | None = OPTIONAL
    """The agent's run. Absent for `yb eval`."""
    evaluators: tuple[EvaluationResult, ...]
    """The results of the evaluators."""
    summary: Summary
    """The verdict."""
    outcome: Outcome | None
    """The class of the outcome. Null before the run is finished, and for `yb eval`, which runs no agent."""
    identity: Identity
    """The exact versions and inputs of the run."""
    hooks: Hooks = Hooks()
    """The results of hooks."""
    artifacts: ArtifactManifest = ArtifactManifest()
    """The files in the artifacts directory."""
