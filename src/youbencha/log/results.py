"""ResultsBundle (`results.json`): one run of one test case, what came of it, and how far it can be trusted.

Unknown is null. `summary.overall_status` is the verdict; `outcome` says what kind of result it is, and whether it
measures the agent at all.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from youbencha.log.model import Count, ErrorRecord, Status, Timestamp, Usage

RESULTS_VERSION = "1.0.0"

EvaluationStatus = Literal["passed", "failed", "skipped"]
OverallStatus = Literal["passed", "failed", "partial"]
HookStatus = Literal["success", "failed", "skipped"]
OutcomeName = Literal[
    "solved", "unsolved", "limit", "refused", "agent_error", "provider_error", "infra_error", "verifier_error"
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class TestCaseInfo(_Record):
    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    name: str
    description: str = ""
    config_file: str
    config_hash: str
    """SHA-256 of the configuration with every reference resolved and every variable substituted."""
    repo: str | None = None
    """Without credentials. Null for `yb eval`, which has a directory instead."""
    branch: str | None = None
    commit: str | None = None
    """The full id of the commit that the agent started from."""
    expected_branch: str | None = None
    directory: str | None = None
    """What `yb eval` looked at."""
    expected_directory: str | None = None


class Environment(_Record):
    os: str
    python_version: str
    workspace_dir: str


class RunExecution(_Record):
    started_at: Timestamp
    completed_at: Timestamp
    duration_ms: Count
    youbencha_version: str
    environment: Environment
    interrupted: bool = False
    complete: bool = True
    """False in a bundle that was written while the run went on: what is in it was finished."""
    phases_ms: dict[str, Count] = Field(default_factory=dict)
    """How long each phase took: checkout, pre_execution, agent, freeze, evaluation, post_evaluation."""


class ModelUse(_Record):
    requests: Count
    usage: Usage


class UsageDifference(_Record):
    """The gateway's count less what the agent reported of itself. Null where one of the two said nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None


class BudgetReport(_Record):
    cap_usd: float | None = None
    cap_tokens: Count | None = None
    spent_usd: float = 0.0
    spent_tokens: Count = 0
    unsure_usd: float = 0.0
    """What calls that were cut off may have cost beyond what was seen of them: it counts against the cap."""
    unsure_tokens: Count = 0
    exceeded: bool = False
    """The gateway refused a request because this was spent."""
    reason: str | None = None
    """Which cap it was, and how much was spent."""


class CassetteReport(_Record):
    dir: str
    mode: Literal["record", "replay", "auto"]
    replayed: Count = 0
    recorded: Count = 0
    unmatched: Count = 0
    """Requests that nothing recorded was an answer to. What differed is in `mismatches`."""
    mismatches: tuple[str, ...] = ()
    """Artifacts, one for each."""


class GatewayReport(_Record):
    """What went through the gateway for the agent. Its evaluators' calls are theirs, in their own `usage`."""

    type: Literal["builtin", "litellm"]
    ledger: str
    """Relative to the artifacts directory: one line for each request."""
    requests: Count = 0
    """All of them, refused ones included."""
    failed: Count = 0
    """Answered with an error, or cut off."""
    rate_limited: Count = 0
    """Answered with 429 or 529."""
    refused: Count = 0
    """By a budget."""
    provider_wait_ms: Count = 0
    """How long the agent waited because the provider had told it to."""
    circuit_opened: bool = False
    """The provider failed so often in a row that the gateway stopped asking."""
    unpriced: str | None = None
    """Why requests were refused that no price is known for, while there is a cap in dollars."""
    usage: Usage | None = None
    prices: str | None = None
    """Where they are from: the list and its version, and how many the configuration has of its own."""
    paid_usd: float | None = None
    """Of `usage.cost_usd`, what was really paid: replayed answers are free. Null where no price is known."""
    models: dict[str, ModelUse] = Field(default_factory=dict)
    reported: Usage | None = None
    """What the agent said of itself."""
    difference: UsageDifference | None = None
    budget: BudgetReport | None = None
    """Null where there was no cap."""
    cassette: CassetteReport | None = None


class SandboxReport(_Record):
    """Where the agent ran."""

    type: str
    image: str | None = None
    image_id: str | None = None
    """The digest of what was run, whatever its name points to by now."""
    image_digest: str | None = None
    """By which a registry has it; null for an image that was made on this computer."""
    engine: str | None = None
    network: str | None = None
    fresh_home: bool | None = None
    """Whether it had a home of its own, with no settings of a person in it."""


class AgentRun(_Record):
    type: str
    agent_name: str | None = None
    version: str | None = None
    """Of the agent's CLI, as it said itself."""
    adapter_version: str | None = None
    youbencha_log_path: str | None = None
    """Relative to the artifacts directory, as every path in here."""
    status: Status | None = None
    """Null where the agent was not run to an end: interrupted, or `yb eval`."""
    exit_code: int | None = None
    duration_ms: Count | None = None
    model: str | None = None
    usage: Usage | None = None
    """As the gateway metered it; without a gateway, as the agent reported it."""
    gateway: GatewayReport | None = None
    """Null where the agent reached its model by itself."""
    budget_exceeded: bool | None = None
    """Null where nobody could tell: there was no gateway."""
    sandbox: SandboxReport | None = None
    turns: Count | None = None
    tool_calls: Count | None = None
    tools_used: dict[str, Count] | None = None
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[ErrorRecord, ...] = ()


class Artifact(_Record):
    type: str
    path: str
    description: str = ""


class EvaluationError(_Record):
    message: str
    code: str | None = None
    hint: str | None = None
    stack_trace: str | None = None


class AssertionResult(_Record):
    """One thing that was asked for, and whether it holds."""

    name: str
    passed: bool
    expected: Any = None
    actual: Any = None
    message: str = ""


class EvaluationResult(_Record):
    """What one evaluator found. It could not tell: `skipped`, with an `error` if that is somebody's fault."""

    evaluator: str
    status: EvaluationStatus
    metrics: dict[str, Any] = Field(default_factory=dict)
    message: str
    duration_ms: Count = 0
    timestamp: Timestamp
    assertions: tuple[AssertionResult, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    error: EvaluationError | None = None
    usage: Usage | None = None
    """What the evaluator itself spent on a model: a judge's tokens are never the agent's."""


class HookResult(_Record):
    hook: str
    """script, webhook, database."""
    status: HookStatus
    message: str
    duration_ms: Count
    timestamp: Timestamp
    metadata: dict[str, Any] = Field(default_factory=dict)
    error: EvaluationError | None = None


class Hooks(_Record):
    pre_execution: tuple[HookResult, ...] = ()
    post_evaluation: tuple[HookResult, ...] = ()


class Summary(_Record):
    total_evaluators: Count
    passed: Count
    failed: Count
    skipped: Count
    overall_status: OverallStatus


class Outcome(_Record):
    name: OutcomeName
    valid: bool
    """Whether this run measured the agent. If not, it belongs into no score."""
    reason: str
    retry: bool = False
    """Whether another attempt may end otherwise."""


class Identity(_Record):
    """What exactly ran."""

    run_id: str
    youbencha_version: str
    agent_type: str | None = None
    agent_version: str | None = None
    agent_executable: str | None = None
    agent_sha256: str | None = None
    model: str | None = None
    task_commit: str | None = None
    config_hash: str


class ArtifactManifest(_Record):
    agent_log: str | None = None
    diff: str | None = None
    reports: tuple[str, ...] = ()
    evaluator_artifacts: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()
    """The ledger, how a replay differed, LiteLLM's log."""


class ResultsBundle(_Record):
    version: str = RESULTS_VERSION
    test_case: TestCaseInfo
    execution: RunExecution
    agent: AgentRun | None
    """Null for `yb eval`."""
    evaluators: tuple[EvaluationResult, ...]
    summary: Summary
    outcome: Outcome | None
    """Null while the run goes on, and for `yb eval`, which measures no agent."""
    identity: Identity
    hooks: Hooks = Hooks()
    artifacts: ArtifactManifest = ArtifactManifest()
