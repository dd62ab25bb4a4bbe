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
    description: str = ""
    config_file: str
    config_hash: Unmasked
    """SHA-256 of the configuration with every reference resolved and every variable substituted."""
    repo: str | None = OPTIONAL
    """Without credentials. `yb eval` has a directory instead."""
    branch: str | None = OPTIONAL
    commit: Unmasked | None = OPTIONAL
    """The full id of the commit that the agent started from."""
    expected_branch: str | None = OPTIONAL
    directory: str | None = OPTIONAL
    """What `yb eval` evaluated."""
    expected_directory: str | None = OPTIONAL


class Environment(Record):
    os: str
    python_version: Unmasked
    workspace_dir: str


class RunExecution(Record):
    started_at: Timestamp
    completed_at: Timestamp
    duration_ms: Count
    youbencha_version: Unmasked
    environment: Environment
    interrupted: bool = False
    complete: bool = True
    """False in results that were written before the run was finished."""
    phases_ms: dict[Unmasked, Count] = Field(default_factory=dict)
    """How long each phase took: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""


class ModelUse(Record):
    requests: Count
    usage: Usage


class UsageDifference(Record):
    """The gateway's numbers minus the agent's. Null where one of the two is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


class BudgetReport(Record):
    cap_usd: float | None = None
    cap_tokens: Count | None = None
    spent_usd: float = 0.0
    spent_tokens: Count = 0
    unsure_usd: float = 0.0
    """What interrupted calls may have cost beyond what was measured. Counts against the cap."""
    unsure_tokens: Count = 0
    exceeded: bool = False
    """Whether more was spent than a cap allows, or the gateway refused a request because of one."""
    reason: str | None = None
    """Why a request was refused: which cap is spent, and by how much. Null if none was."""
    refused_by: str | None = None
    """Whose cap that is: the agent's in this trial, that of all its trials, or the run's."""


class CassetteReport(Record):
    dir: str
    mode: Literal["record", "replay", "auto"]
    replayed: Count = 0
    recorded: Count = 0
    unmatched: Count = 0
    """Requests without a recorded answer."""
    mismatches: tuple[str, ...] = ()
    """Artifacts that show how the unmatched requests differ from the recorded ones."""


class GatewayReport(Record):
    """The agent's requests through the gateway. Those of evaluators are in the evaluators' `usage`."""

    type: Literal["builtin", "litellm"]
    ledger: str
    """Relative to the artifacts directory: one line for each request."""
    requests: Count = 0
    """All requests, including refused ones."""
    failed: Count = 0
    """Answered with an error, or interrupted."""
    rate_limited: Count = 0
    """Answered with 429 or 529."""
    refused: Count = 0
    """By a budget."""
    provider_wait_ms: Count = 0
    """How long the agent waited at the provider's request, or for an answer that never began."""
    circuit_opened: bool = False
    """The provider failed so often in a row that the gateway stopped sending requests."""
    provider_failure: str | None = None
    """How the agent's calls since its last answer failed. Null if there are none: then the provider is not to blame."""
    provider_silent_ms: Count | None = None
    """How long its calls since then waited in vain when they ended. Null if that was not unusually long."""
    ended_in_tool: bool = False
    """Whether the model's last answer called a tool: then the agent had not finished when it ended."""
    unusable_model: str | None = None
    """Why the configured model is unusable: the provider does not know it, or its price is unknown. Null if usable."""
    unpriced: str | None = None
    """Why requests were refused: there is a cap in dollars, and the model's price is unknown."""
    usage: Usage | None = None
    prices: str | None = None
    """The source of the prices: the list and its version, and how many the configuration adds."""
    paid_usd: float | None = None
    """The part of `usage.cost_usd` that was really paid: replayed answers are free. Null if a price is unknown."""
    models: dict[str, ModelUse] = Field(default_factory=dict)
    reported: Usage | None = None
    """As the agent reported it."""
    difference: UsageDifference | None = None
    budget: BudgetReport | None = None
    """Null without a cap."""
    cassette: CassetteReport | None = None
    request_fingerprints: tuple[str, ...] | None = None
    """Of what the requests asked for: the model, its parameters, the system prompt, the tools, and what the main
    conversation began with. Without what differs in every run. Null: not known."""


class DeniedHost(Record):
    """A host that the agent tried to reach, and that is not in the allowlist."""

    host: str
    """With its port, unless that is 80 or 443."""
    attempts: Annotated[int, Field(ge=1)]
    first_at: Timestamp


class SandboxReport(Record):
    """Where the agent ran."""

    type: Unmasked
    image: str | None = None
    image_id: str | None = None
    """The digest of the image that was run."""
    image_digest: str | None = None
    """The digest in the registry; null for an image that was built locally."""
    engine: str | None = None
    network: str | None = None
    allowlist: tuple[str, ...] = ()
    """Hosts that the agent could reach besides the gateway."""
    denied: tuple[DeniedHost, ...] | None = None
    """Others that it tried to reach. Null: not known, because there was no allowlist."""
    cpus: float | None = None
    """The limit. Null: not limited, as `memory`."""
    memory: Count | None = None
    """Bytes."""
    fresh_home: bool | None = None
    """Whether the agent had a new home directory, without the user's settings."""


class AgentRun(Record):
    type: Unmasked
    agent_name: str | None = None
    version: str | None = None
    """Of the agent's CLI, as it reports it."""
    adapter_version: str | None = None
    youbencha_log_path: str | None = OPTIONAL
    """Relative to the artifacts directory, as all paths in the results."""
    status: Status | None = OPTIONAL
    """Absent if the agent was interrupted."""
    exit_code: int | None = OPTIONAL
    duration_ms: Count | None = None
    model: str | None = None
    usage: Usage | None = None
    """As the gateway metered it; without a gateway, or if nothing went through it, as the agent reported it."""
    gateway: GatewayReport | None = None
    """Null if the agent reached its model directly."""
    budget_exceeded: bool | None = None
    """Null without a gateway."""
    sandbox: SandboxReport | None = None
    turns: Count | None = None
    tool_calls: Count | None = None
    tools_used: dict[str, Count] | None = None
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[ErrorRecord, ...] = ()


class Artifact(Record):
    type: str
    path: str
    description: str = ""


class EvaluationError(Record):
    message: str
    code: str | None = None
    hint: str | None = None
    stack_trace: str | None = OPTIONAL


class AssertionResult(Record):
    """One requirement, and whether it is met."""

    name: str
    passed: bool
    expected: Any = None
    actual: Any = None
    message: str = ""


def _listed(assertions: Any) -> Any:
    return tuple(assertions.values()) if isinstance(assertions, Mapping) else assertions


def _by_name(assertions: Sequence[AssertionResult]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for each in assertions:
        written[f"{each.name} ({len(written) + 1})" if each.name in written else each.name] = each.model_dump()
    return written


def _object_schema(schema: dict[str, Any]) -> None:
    schema.update(type="object", additionalProperties=schema.pop("items"), default={})


Assertions = Annotated[
    tuple[AssertionResult, ...],
    BeforeValidator(_listed),
    PlainSerializer(_by_name),
    Field(json_schema_extra=_object_schema),
]
"""In JSON an object with the names as keys; a list, as in older results, can be read."""


class EvaluationResult(Record):
    """The result of one evaluator: `skipped` if it could not evaluate, with an `error` if it failed."""

    evaluator: Unmasked
    status: EvaluationStatus
    metrics: dict[str, Any] = Field(default_factory=dict)
    message: str
    duration_ms: Count = 0
    timestamp: Timestamp
    assertions: Assertions = ()
    artifacts: tuple[Artifact, ...] = ()
    error: EvaluationError | None = OPTIONAL
    usage: Usage | None = None
    """Of the evaluator itself, such as a judge; not part of the agent's usage."""
    advisory: bool = False
    """Whether the verdict is only reported: the run may pass although this evaluator failed or was skipped."""


class HookResult(Record):
    hook: Unmasked
    """script, webhook, database."""
    status: HookStatus
    message: str
    duration_ms: Count
    timestamp: Timestamp
    metadata: dict[str, Any] = Field(default_factory=dict)
    error: EvaluationError | None = OPTIONAL


class Hooks(Record):
    pre_execution: tuple[HookResult, ...] = ()
    post_evaluation: tuple[HookResult, ...] = ()


class Summary(Record):
    total_evaluators: Count
    passed: Count
    failed: Count
    skipped: Count
    overall_status: OverallStatus


class Outcome(Record):
    name: OutcomeName
    valid: bool
    """Whether this run measured the agent. If not, it must be excluded from scores."""
    reason: str
    retry: bool = False
    """Whether another attempt may succeed."""


class Identity(Record):
    """What exactly ran."""

    run_id: str
    youbencha_version: Unmasked
    agent_type: Unmasked | None = None
    agent_version: str | None = None
    agent_executable: str | None = None
    agent_sha256: Unmasked | None = None
    model: str | None = None
    task_commit: Unmasked | None = None
    commit_files: Annotated[tuple[str, ...], Field(exclude_if=lambda files: not files)] = ()
    """Files of the task's commit that the agent reads on its own: its instructions, skills and settings."""
    config_hash: Unmasked


class ArtifactManifest(Record):
    agent_log: str | None = OPTIONAL
    diff: str | None = None
    agent_files: str | None = OPTIONAL
    """The directory with the files that the agent was given."""
    reports: tuple[str, ...] = ()
    evaluator_artifacts: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()
    """The ledger, the mismatches of a replay, LiteLLM's log."""


class ResultsBundle(Record):
    version: Unmasked = RESULTS_VERSION
    test_case: TestCaseInfo
    execution: RunExecution
    agent: AgentRun | None = OPTIONAL
    """Absent for `yb eval`."""
    evaluators: tuple[EvaluationResult, ...]
    summary: Summary
    outcome: Outcome | None
    """Null before the run is finished, and for `yb eval`, which runs no agent."""
    identity: Identity
    hooks: Hooks = Hooks()
    artifacts: ArtifactManifest = ArtifactManifest()
