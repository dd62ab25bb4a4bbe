"""Models of the arena's results: `meta.json` (one trial) and `run.json` (one run).

Unknown is null; a score of 0 was measured. `meta.json` has the original Thunderdome's keys and more; the files of the
original have only those up to `budget_exceeded`.
"""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from youbencha.files import read_nofollow
from youbencha.log.model import Count, Record, Timestamp, Usage
from youbencha.store.bundle import OutcomeName
from youbencha.store.layout import META_FILE, RUN_FILE

RUN_FORMAT = 1
_MAX_RUN_BYTES, _MAX_META_BYTES = 64 * 1024 * 1024, 4 * 1024 * 1024
Score = Annotated[float, Field(ge=0, le=1)]
CompositeScore = Annotated[float, Field(ge=0, le=1 + 1e-9)]
"""A weighted sum, which may be rounded to a little more than 1."""
Amount = Annotated[float, Field(ge=0, le=1e12)]
"""Seconds or dollars."""
Tokens = Annotated[int, Field(ge=0, le=10**15)]
ExitReason = Literal[
    "completed", "gave_up", "timeout", "out_of_memory", "crashed", "budget_exceeded", "refused", "not_measured"
]
FlagKind = Literal[
    "hidden_path", "solution_search", "test_edit", "test_runner", "network", "forged_report", "tests_missing"
]
FlagSeverity = Literal["evidence", "note"]


class TrialKey(NamedTuple):
    """Identifies a trial in a run; also its directory: `trials/<orchestrator>/<task>/trial-<number>`."""

    orchestrator: str
    task: str
    number: int

    def __str__(self) -> str:
        return f"{self.orchestrator} · {self.task} · trial {self.number}"


def arena_run_started_at(name: str) -> datetime | None:
    """Return the time in the name of a run of the arena; None if there is none in it."""
    try:
        return datetime.strptime(f"{name[:19]} +0000", "%Y-%m-%dT%H-%M-%S %z")
    except ValueError:
        return None


class Scores(Record):
    """The scores of a trial. Null values were not measured."""

    tests: Score | None = None
    """The share of tests that pass."""
    static_analysis: Score | None = None
    """The score of linters."""
    hidden_tests: Score | None = None
    """The share of hidden tests that pass."""
    agent_tests: Score | None = None
    """The score of the agent's own tests."""
    coverage: Score | None = None
    """The share of lines that tests cover."""
    code_metrics: Score | None = None
    """The score of the size and complexity of the code."""
    rubric: Score | None = None
    """The judge's score."""


class IntegrityFlag(Record):
    """Something that an agent did, or that happened in its trial, to look at before trusting a score."""

    kind: FlagKind
    """The kind of flag."""
    evidence: str
    """The evidence, with its location."""
    severity: FlagSeverity = "note"
    """`evidence` of an attempt to cheat, or only a `note`, which honest work can also cause."""


NOT_FAILED = ("killed", "interrupted")
"""Outcomes of attempts that are repeated through no fault of the agent, the provider or the validation."""


class AttemptInfo(Record):
    """One attempt of a trial. All but the last failed for reasons other than the agent, or were killed."""

    number: Annotated[int, Field(ge=1)]
    """Its number, from 1."""
    outcome: OutcomeName | Literal["killed", "interrupted"]
    """How it ended."""
    reason: str = ""
    """The reason for that outcome."""
    started_at: Timestamp | None = None
    """When it began."""
    duration_s: Amount | None = None
    """How long it took."""
    total_tokens: Tokens | None = None
    """Tokens used, for budgets. Null if there is a gateway, but only the agent reported them."""
    cost_usd: Amount | None = None
    """Cost in dollars, including judges; null in the same case as `total_tokens`."""
    partial: bool = False
    """Whether tokens and cost are lower bounds."""


class TrialIdentity(Record):
    """The exact versions and inputs of the run."""

    agent_hash: str
    """Digest of everything that the agent's work depends on: its configuration, the task, limits, the sandbox."""
    validation_hash: str
    """Digest of everything else that the scores depend on."""
    youbencha_version: str | None = None
    """The version of youBencha."""
    agent_type: str | None = None
    """The kind of agent."""
    agent_version: str | None = None
    """The version of the agent's CLI."""
    agent_sha256: str | None = None
    """The SHA-256 of its program."""
    model: str | None = None
    """The model, as the agent reports it."""
    image: str | None = None
    """The name of the image."""
    image_id: str | None = None
    """The digest of the image."""
    task_commit: str | None = None
    """The commit that the agent started from."""
    commit_files: Annotated[tuple[str, ...], Field(exclude_if=lambda files: not files)] = ()
    """Files of the task's commit that the agent reads by itself: instructions, skills and settings."""
    validation_commit: str | None = None
    """The commit with the tests."""
    cpus: float | None = None
    """The CPU limit; null if there is none."""
    memory: Count | None = None
    """The memory limit in bytes; null if there is none."""
    changes: tuple[str, ...] = ()
    """Keys in which a variant differs from its orchestrator, such as `skills` and `config.effort`."""
    request_fingerprints: tuple[str, ...] | None = None
    """Digests of the agent's requests to its model, excluding the conversation. Null if unknown."""


class TrialMeta(Record):
    orchestrator: str
    """The agent, with its variant."""
    task: str
    """The task."""
    trial: Annotated[int, Field(ge=1)]
    """The number of the trial, from 1."""
    duration_s: Amount | None = None
    """How long the agent ran."""
    exit_code: int | None = None
    """The agent's exit code."""
    exit_reason: str | None = None
    """Why the agent ended: one of `ExitReason`, or another one of the original."""
    scores: Scores = Scores()
    """The individual scores."""
    composite_score: CompositeScore | None = None
    """The weighted sum of the scores; null if the agent was not measured."""
    total_tokens: Tokens | None = None
    """Tokens of the attempt that counts."""
    input_tokens: Tokens | None = None
    """Tokens that were sent, excluding cached ones."""
    output_tokens: Tokens | None = None
    """Tokens that the model wrote."""
    cache_read_tokens: Tokens | None = None
    """Tokens that were read from a cache."""
    cache_creation_tokens: Tokens | None = None
    """Tokens that were written to a cache."""
    total_cost_usd: Amount | None = None
    """Cost in dollars of the attempt that counts."""
    budget_exceeded: bool | None = None
    """Whether a budget was exceeded."""
    usage_partial: bool | None = None
    """Whether tokens and cost are lower bounds."""
    reported: Usage | None = None
    """The agent's own count, if there is also a gateway's."""
    outcome: OutcomeName | None = None
    """The class of the outcome."""
    valid: bool | None = None
    """Whether the agent was measured. If not, the trial is excluded from scores."""
    reason: str | None = None
    """The reason for the outcome."""
    category: str | None = None
    """The category of the task."""
    all_attempts_cost_usd: Amount | None = None
    """Dollars spent on all attempts, including those that do not count. Null if the cost of one is unknown."""
    attempts: tuple[AttemptInfo, ...] = ()
    """All attempts; the last one counts."""
    flags: tuple[IntegrityFlag, ...] = ()
    """Things to look at before trusting the score."""
    identity: TrialIdentity | None = None
    """The exact versions and inputs of the run."""
    reused_from: str | None = None
    """The run that this result was reused from."""
    rerun: Annotated[bool, Field(exclude_if=lambda rerun: not rerun)] = False
    """Whether a run that this one reuses had an invalid result of the same trial."""
    started_at: Timestamp | None = None
    """When the attempt that counts began."""
    completed_at: Timestamp | None = None
    """When it ended."""

    @property
    def key(self) -> TrialKey:
        return TrialKey(self.orchestrator, self.task, self.trial)

    @property
    def retried(self) -> bool:
        """Whether it is valid only after an attempt that was not."""
        earlier = any(attempt.outcome not in NOT_FAILED for attempt in self.attempts[:-1])
        return self.valid is not False and (self.rerun or earlier)

    @property
    def last_attempt_cost_usd(self) -> float | None:
        """What the attempt that counts cost, with its judges."""
        return self.attempts[-1].cost_usd if self.attempts else None

    @property
    def evidence(self) -> tuple[IntegrityFlag, ...]:
        """The flags that are evidence of an attempt to cheat."""
        return tuple(flag for flag in self.flags if flag.severity == "evidence")

    @property
    def flag_notes(self) -> tuple[IntegrityFlag, ...]:
        """The flags that honest work can also cause."""
        return tuple(flag for flag in self.flags if flag.severity == "note")


class CellInfo(Record):
    """One orchestrator on one task."""

    orchestrator: str
    """The agent, with its variant."""
    task: str
    """The task."""
    category: str | None = None
    """The category of the task."""
    agent_hash: str
    """Digest of everything that the agent's work depends on."""
    validation_hash: str
    """Digest of everything else that the scores depend on."""
    rerun: Annotated[tuple[int, ...], Field(exclude_if=lambda numbers: not numbers)] = ()
    """The numbers of the trials of which a run that this one reuses had a result that was not valid."""


class UntilDecided(Record):
    """When a run with `--until-decided` ends."""

    margin: Annotated[float, Field(gt=0, lt=1)]
    """Differences of scores within plus or minus this are called equivalent."""
    max_trials: Annotated[int, Field(ge=2)]
    """How many trials the whole run has at most."""


class RunInfo(Record):
    """What a run consists of. Written before anything runs."""

    format: int = RUN_FORMAT
    """The version of this format."""
    youbencha_version: str
    """The version of youBencha."""
    created_at: Timestamp
    """When the run began."""
    config_file: str | None = None
    """The configuration file."""
    config_hash: str | None = None
    """SHA-256 of the configuration file."""
    selection: dict[str, Any] = Field(default_factory=dict)
    """The options that chose orchestrators and tasks."""
    trials: Annotated[int, Field(ge=1)]
    """How many trials each orchestrator has on each task."""
    cells: tuple[CellInfo, ...]
    """Each orchestrator on each task."""
    baselines: dict[str, str] = Field(default_factory=dict)
    """The baseline of each orchestrator and variant that has one."""
    until_decided: UntilDecided | None = None
    """Set if the trials end as soon as every comparison is decided. Then `trials` is an upper limit."""
    options: dict[str, Any] = Field(default_factory=dict)
    """How the trials run, which does not affect their results."""

    @property
    def total(self) -> int:
        """How many trials there are at most."""
        return self.until_decided.max_trials if self.until_decided else len(self.cells) * self.trials


def read_meta(directory: Path, name: str = META_FILE) -> TrialMeta:
    """Read the result of a trial. Raises OSError or ValidationError."""
    return TrialMeta.model_validate_json(read_nofollow(directory, name, _MAX_META_BYTES), extra="ignore")


def read_run_info(run: Path) -> RunInfo:
    """Read `run.json`. Raises OSError or ValidationError."""
    return RunInfo.model_validate_json(read_nofollow(run, RUN_FILE, _MAX_RUN_BYTES), extra="ignore")
