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
"""Of seconds or dollars."""
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
    """Null: not measured."""

    tests: Score | None = None
    static_analysis: Score | None = None
    hidden_tests: Score | None = None
    agent_tests: Score | None = None
    coverage: Score | None = None
    code_metrics: Score | None = None
    rubric: Score | None = None


class IntegrityFlag(Record):
    """Something that an agent did, or that happened in its trial, to look at before trusting a score."""

    kind: FlagKind
    evidence: str
    severity: FlagSeverity = "note"
    """`evidence` of an attempt to cheat, or only a `note`, which honest work can also cause."""


NOT_FAILED = ("killed", "interrupted")
"""How an attempt ended that is repeated through no fault of the agent, the provider or the validation."""


class AttemptInfo(Record):
    """One attempt of a trial. Those before the last failed for reasons other than the agent, or were killed."""

    number: Annotated[int, Field(ge=1)]
    outcome: OutcomeName | Literal["killed", "interrupted"]
    reason: str = ""
    started_at: Timestamp | None = None
    duration_s: Amount | None = None
    total_tokens: Tokens | None = None
    cost_usd: Amount | None = None
    """As tokens, null if only the agent knows what it used, although there is a gateway: budgets do not trust it."""
    partial: bool = False
    """Tokens and cost are lower bounds."""


class TrialIdentity(Record):
    """What exactly ran."""

    agent_hash: str
    """Of everything that the agent's work depends on: its configuration, the task, limits, the sandbox."""
    validation_hash: str
    """Of everything else that the scores depend on."""
    youbencha_version: str | None = None
    agent_type: str | None = None
    agent_version: str | None = None
    agent_sha256: str | None = None
    model: str | None = None
    image: str | None = None
    image_id: str | None = None
    task_commit: str | None = None
    commit_files: Annotated[tuple[str, ...], Field(exclude_if=lambda files: not files)] = ()
    """Files of the task's commit that the agent reads on its own: its instructions, skills and settings."""
    validation_commit: str | None = None
    cpus: float | None = None
    memory: Count | None = None
    """Bytes. Null: not limited."""
    changes: tuple[str, ...] = ()
    """Keys in which a variant differs from its orchestrator, such as `skills` and `config.effort`."""
    request_fingerprints: tuple[str, ...] | None = None
    """Digests of what the agent asked its model for, apart from the conversation. Null if unknown."""


class TrialMeta(Record):
    orchestrator: str
    task: str
    trial: Annotated[int, Field(ge=1)]
    duration_s: Amount | None = None
    exit_code: int | None = None
    exit_reason: str | None = None
    """One of `ExitReason`; the original has others, too."""
    scores: Scores = Scores()
    composite_score: CompositeScore | None = None
    total_tokens: Tokens | None = None
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_tokens: Tokens | None = None
    cache_creation_tokens: Tokens | None = None
    total_cost_usd: Amount | None = None
    """Of the attempt that counts."""
    budget_exceeded: bool | None = None
    usage_partial: bool | None = None
    """Tokens and cost are lower bounds."""
    reported: Usage | None = None
    """The agent's own count, if there is also a gateway's."""
    outcome: OutcomeName | None = None
    valid: bool | None = None
    """Whether the agent was measured. If not, the trial is in no score."""
    reason: str | None = None
    category: str | None = None
    all_attempts_cost_usd: Amount | None = None
    """What was spent in all, on attempts that do not count, too. Null if one is unknown."""
    attempts: tuple[AttemptInfo, ...] = ()
    flags: tuple[IntegrityFlag, ...] = ()
    identity: TrialIdentity | None = None
    reused_from: str | None = None
    """The run that this result was taken over from."""
    rerun: Annotated[bool, Field(exclude_if=lambda rerun: not rerun)] = False
    """Whether a run that this one reuses had a result of the same trial that was not valid."""
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None

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
        """The flags that honest work can cause, too."""
        return tuple(flag for flag in self.flags if flag.severity == "note")


class CellInfo(Record):
    """One orchestrator on one task."""

    orchestrator: str
    task: str
    category: str | None = None
    agent_hash: str
    validation_hash: str
    rerun: Annotated[tuple[int, ...], Field(exclude_if=lambda numbers: not numbers)] = ()
    """The numbers of the trials of which a run that this one reuses had a result that was not valid."""


class UntilDecided(Record):
    """When a run with `--until-decided` ends."""

    margin: Annotated[float, Field(gt=0, lt=1)]
    """Differences of scores within plus or minus this are called equivalent."""
    max_trials: Annotated[int, Field(ge=2)]
    """Of the whole run."""


class RunInfo(Record):
    """What a run consists of. Written before anything runs."""

    format: int = RUN_FORMAT
    youbencha_version: str
    created_at: Timestamp
    config_file: str | None = None
    config_hash: str | None = None
    """SHA-256 of the configuration file."""
    selection: dict[str, Any] = Field(default_factory=dict)
    """The options that chose orchestrators and tasks."""
    trials: Annotated[int, Field(ge=1)]
    """Of each orchestrator on each task."""
    cells: tuple[CellInfo, ...]
    baselines: dict[str, str] = Field(default_factory=dict)
    """What each orchestrator and variant is compared with, if with anything."""
    until_decided: UntilDecided | None = None
    """Set if the trials end as soon as every comparison is decided. Then `trials` is the most that can be needed."""
    options: dict[str, Any] = Field(default_factory=dict)
    """How the trials run, which does not affect their results."""

    @property
    def total(self) -> int:
        """How many trials there are, at most."""
        return self.until_decided.max_trials if self.until_decided else len(self.cells) * self.trials


def read_meta(directory: Path, name: str = META_FILE) -> TrialMeta:
    """Read the result of a trial. Raises OSError or ValidationError."""
    return TrialMeta.model_validate_json(read_nofollow(directory, name, _MAX_META_BYTES), extra="ignore")


def read_run_info(run: Path) -> RunInfo:
    """Read `run.json`. Raises OSError or ValidationError."""
    return RunInfo.model_validate_json(read_nofollow(run, RUN_FILE, _MAX_RUN_BYTES), extra="ignore")
