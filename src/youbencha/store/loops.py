"""What a loop remembers: its state (`loop.json`), and one record for each iteration (`iterations.jsonl`)."""

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow
from youbencha.log.model import CostSource, Count, Record, Timestamp
from youbencha.spec.sandbox import SandboxType
from youbencha.store.layout import ITERATIONS_FILE, LOOPS_DIR, RALPH_DIR, STATE_FILE

_MAX_STATE_BYTES, _MAX_ITERATIONS_BYTES = 16 << 20, 1 << 30
STATE_VERSION: Literal[1] = 1

IterationOutcome = Literal["completed", "failed", "usage_limit", "limit", "stopped", "interrupted"]
"""`completed`: the agent ended normally, whether or not the work is done. `limit`: a limit of the loop ended it.
`stopped`: the user did. `interrupted`: the loop itself was ended, or killed."""

LoopOutcome = Literal[
    "completed", "cancelled",
    "failed", "stale", "needs_person", "stopped",
    "max_iterations", "max_runtime", "max_cost", "usage_limit",
    "restart",
    "interrupted",
]  # fmt: skip

EXIT_CODES: dict[LoopOutcome, int] = {
    "completed": 0, "cancelled": 0,
    "failed": 1, "stale": 1, "needs_person": 1, "stopped": 1,
    "max_iterations": 2, "max_runtime": 2, "max_cost": 2, "usage_limit": 2,
    "restart": 3,
    "interrupted": 130,
}  # fmt: skip


class GateRecord(Record):
    """The result of a gate."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    message: str


class IterationRecord(Record):
    """One iteration: one session of an agent. Written once, when it has ended."""

    iteration: Annotated[int, Field(ge=1)]
    outcome: IterationOutcome
    reason: str | None = None
    """Why it did not complete."""
    hat: str | None = None
    backend: str
    model: str | None = None
    started_at: Timestamp
    duration_ms: Count | None
    """None if the loop was killed meanwhile."""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_creation_tokens: Count | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None
    usage_source: CostSource | None = None
    """Where tokens and cost come from: `gateway`, `agent`, or `prices` (the agent's tokens at list prices)."""
    partial: bool = False
    """More may have been used than could be counted."""
    files_changed: Count | None = None
    """Compared with the iteration before."""
    checkpoint: str | None = None
    """The commit that holds the tree after it."""
    claimed_done: bool = False
    """The agent said that the work is done."""
    refusal: str | None = None
    """Why that was not accepted."""
    gates: tuple[GateRecord, ...] = Field(default=(), strict=False)
    topics: tuple[str, ...] = Field(default=(), strict=False)
    """The topics of the events that it published."""
    output_hash: str | None = None
    """A digest of its last text and of the tasks, to notice repetition."""


class PendingEvent(NamedTuple):
    """An event that waits for the next iteration."""

    topic: str
    payload: str
    hat: str | None = None
    """The only hat that it is for; None: all that it triggers."""


class LoopOptions(Record):
    """Options of the command line that also hold when the loop continues. None: as ralph.yml says."""

    prompt: str | None = None
    prompt_file: Path | None = None
    backend: str | None = None
    model: str | None = None
    args: tuple[str, ...] = Field(default=(), strict=False)
    completion_promise: str | None = None
    max_iterations: Annotated[int, Field(ge=1)] | None = None
    max_runtime_seconds: Annotated[float, Field(ge=0)] | None = None
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    idle_timeout_secs: Annotated[float, Field(ge=0)] | None = None
    sandbox: SandboxType | None = None
    hats: str | None = None
    settings: tuple[str, ...] = Field(default=(), strict=False)


class LoopState(Record):
    """The state of a loop, written before and after each iteration, so that `--continue` can resume it."""

    version: Literal[1] = STATE_VERSION
    loop_id: str
    config_file: str | None
    options: LoopOptions = LoopOptions()
    started_at: Timestamp
    objective: str
    """The prompt that the loop began with."""
    running: Annotated[int, Field(ge=1)] | None = None
    """The iteration that is running; after a crash, the one that was."""
    running_since: Timestamp | None = None
    iterations: Count = 0
    """How many have ended; their records are in `iterations.jsonl`."""
    last: IterationRecord | None = None
    """The record of the last one. It is written here first, so that one file decides whether an iteration has ended."""
    elapsed_ms: Count = 0
    """The time of all processes that ran this loop, excluding usage-limit waits."""
    cost_usd: float | None = None
    consecutive_failures: Count = 0
    escalation: Count = 0
    """How many steps of `escalation` were taken."""
    step_failures: Count = 0
    """Failures in a row since the last of these steps."""
    usage_limits: Count = 0
    """Iterations in a row that ended at a usage limit."""
    repeats: Count = 0
    """Iterations in a row that printed the same and changed nothing, as far as known."""
    events_offset: Count = 0
    """How much of the events file was read."""
    pending: tuple[PendingEvent, ...] = Field(default=(), strict=False)
    """Events for the next iterations."""
    seen_topics: tuple[str, ...] = Field(default=(), strict=False)
    activations: dict[str, int] = Field(default_factory=dict)
    """How often each hat was active."""
    guidance: tuple[str, ...] = Field(default=(), strict=False)
    guidance_offset: Count = 0
    """How many bytes of the file that `ralph guide` writes have been read."""
    refusal: str | None = None
    """Why the last claim of completion was not accepted."""
    gate_output: str | None = None
    """What failed gates printed, for the next prompt."""
    outcome: LoopOutcome | None = None
    """None while it runs, and after a crash."""
    reason: str | None = None


class LoopHistory(NamedTuple):
    """The state of a loop and the records of its iterations."""

    state: LoopState
    records: tuple[IterationRecord, ...]


def loop_ids(tree: Path) -> list[str]:
    """Return the names of all loops in a directory."""
    loops = tree / RALPH_DIR / LOOPS_DIR
    try:
        names = os.listdir(loops)  # noqa: PTH208 - only the names are wanted
    except OSError:
        return []
    return [name for name in names if (loops / name / STATE_FILE).is_file()]


def newest_loop(tree: Path) -> str | None:
    """Return the name of the loop that began last. One whose state cannot be read counts by its name."""
    return max(loop_ids(tree), key=lambda loop_id: (loop_began(tree, loop_id), loop_id), default=None)


def read_state(tree: Path, loop_id: str) -> LoopState:
    """Read the state of a loop. Raises YouBenchaError if the file is damaged, or of another version."""
    return parse_state(_read(tree, loop_id, STATE_FILE, _MAX_STATE_BYTES), _path(tree, loop_id, STATE_FILE), loop_id)


def read_iterations(tree: Path, loop_id: str) -> bytes:
    """Read the whole lines of a loop's records; what follows was cut off when the harness was killed."""
    if not os.path.lexists(_path(tree, loop_id, ITERATIONS_FILE)):
        return b""
    data = _read(tree, loop_id, ITERATIONS_FILE, _MAX_ITERATIONS_BYTES)
    return data[: data.rfind(b"\n") + 1]


def read_loop(tree: Path, loop_id: str) -> LoopHistory:
    """Read the state and the records of a loop. Raises YouBenchaError if a file is damaged, or of another version."""
    lines = read_iterations(tree, loop_id)
    return LoopHistory(read_state(tree, loop_id), parse_iterations(lines, _path(tree, loop_id, ITERATIONS_FILE)))


def parse_iterations(data: bytes, path: Path) -> tuple[IterationRecord, ...]:
    """Parse the records; of several about one iteration, the last counts."""
    records: dict[int, IterationRecord] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            record = IterationRecord.model_validate_json(line)
        except ValidationError:
            raise _unusable(path, f"line {number} is not a record of an iteration") from None
        records[record.iteration] = record
    return tuple(records.values())


def parse_state(data: bytes, path: Path, loop_id: str) -> LoopState:
    """Parse a state. Raises YouBenchaError with a hint."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable(path, "it was cut off, or edited: it is not valid JSON") from None
    version = document.get("version") if isinstance(document, dict) else None
    if version != STATE_VERSION:
        reason = f"its version is {version}, and this youBencha reads version {STATE_VERSION}"
        raise _unusable(path, reason if version is not None else "it is not the state of a loop")
    try:
        state = LoopState.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise _unusable(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if state.loop_id != loop_id:
        raise _unusable(path, f"it belongs to the loop {state.loop_id}")
    return state


def loop_began(tree: Path, loop_id: str) -> float:
    """Return when a loop began. Ids are no help: earlier versions wrote local times into them."""
    try:
        return datetime.fromisoformat(read_state(tree, loop_id).started_at).timestamp()
    except (YouBenchaError, ValueError):
        return 0.0


def _path(tree: Path, loop_id: str, name: str) -> Path:
    return tree / RALPH_DIR / LOOPS_DIR / loop_id / name


def _read(tree: Path, loop_id: str, name: str, limit: int) -> bytes:
    try:
        return read_nofollow(tree / RALPH_DIR, f"{LOOPS_DIR}/{loop_id}/{name}", limit)
    except OSError as error:
        raise _unusable(_path(tree, loop_id, name), f"it {error.strerror}") from error


def _unusable(path: Path, reason: str) -> YouBenchaError:
    return YouBenchaError(
        "LOOP_STATE_UNUSABLE",
        f"The loop cannot be continued from {path}: {reason}.",
        hint="The file was not changed. Restore it, continue with the version of youBencha that wrote it, or start a"
        " new loop with `ralph run`, which keeps the work in the directory and all checkpoints.",
    )
