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
