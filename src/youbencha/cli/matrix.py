"""Show the progress of a matrix of trials: a live table on a terminal, a line for each trial in a pipe, or nothing."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Container, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TextIO

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from youbencha.adapters import get_adapter
from youbencha.cli import INTERRUPTED, NOT_PASSED
from youbencha.cli.display import Result, open_screen
from youbencha.cli.interrupts import run_async
from youbencha.cli.terminal import is_plain, terminal_width
from youbencha.engine.dry_run import describe_plan
from youbencha.engine.matrix import Matrix
from youbencha.engine.reuse import Reusable
from youbencha.engine.run import MatrixControl, MatrixOptions
from youbencha.engine.updates import (
    AttemptEvent,
    AttemptFailed,
    AttemptStarted,
    ComparisonState,
    MatrixSummary,
    RunStarted,
    Stopping,
    TrialFinished,
    TrialsSkipped,
    Update,
)
from youbencha.events import ProgressNote, WarningRaised
from youbencha.report.comparison import with_baselines
from youbencha.report.leaderboard import make_leaderboard
from youbencha.report.leaderboard_document import Grouping
from youbencha.report.leaderboard_formats import ArenaFormat, render_leaderboard
from youbencha.sandbox.docker.engine import connect
from youbencha.store.arena import TrialKey, TrialMeta
from youbencha.store.arena_run import ArenaRun
from youbencha.store.read import load_runs
from youbencha.text import format_count, format_duration, format_usd, one_line, plural, sentences
from youbencha.transcript.lines import Progress
from youbencha.trial.gateway_plan import check_models
from youbencha.trial.plan import check_version
from youbencha.usage import Tokens, total_tokens
from youbencha.user_dirs import CACHE_NOT_WRITABLE

_REFRESHES_PER_SECOND = 4
_OTHER_LINES = 4
"""Lines of the live table besides its rows: an empty one, the number of hidden rows, the totals, and one above."""
_MAX_REASON = 160
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}


def choose_matrix_display(*, quiet: bool, tui: str | None = None, stream: TextIO | None = None) -> MatrixDisplay:
    """Choose how to show progress. It goes to standard error, so that standard output has only results.

    `tui` is the title of the full screen, if it is wanted.
    """
    stream = stream or sys.stderr
    if tui is not None:
        return ScreenMatrixDisplay(tui)
    if quiet or stream is None:
        return MatrixDisplay()
    return PlainMatrixDisplay(stream) if is_plain(stream) else LiveMatrixDisplay(stream)


@dataclass
class RunningTrial:
    number: int
    began: float
    progress: Progress = field(default_factory=Progress)


class MatrixDisplay:
    """Takes the updates of a run. This one shows nothing."""

    def __init__(self) -> None:
        self.trials = self.finished = self.solved = self.not_valid = 0
        self.spent_usd = 0.0
        self.running: dict[TrialKey, RunningTrial] = {}
        self.comparisons: dict[tuple[str, str], ComparisonState] = {}

    def __call__(self, update: Update) -> None:
        match update:
            case RunStarted(trials, finished):
                self.trials, self.finished = trials, finished
            case AttemptStarted(key, number):
                self.running[key] = RunningTrial(number, time.time())
            case AttemptEvent(key, event) if key in self.running:
                self.running[key].progress.take(event)
            case AttemptFailed(key, info):
                self.running.pop(key, None)
                self.spent_usd += info.cost_usd or 0
            case TrialFinished(meta):
                self._count(meta)
            case ComparisonState(first, second):
                self.comparisons[first, second] = update
        for line in self._lines(update):
            self.print(*line)

    def _count(self, meta: TrialMeta) -> None:
        self.running.pop(meta.key, None)
        self.finished += 1
        self.solved += meta.outcome == "solved"
        self.not_valid += not meta.valid
        self.spent_usd += meta.last_attempt_cost_usd or 0  # earlier attempts were counted when they failed

    def print(self, mark: str, style: str, text: str) -> None:
        """Print a line."""

    def announce(self, text: str) -> None:
        """Say what is going to run, whatever this display shows."""
        print(text, file=sys.stderr)

    async def show(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work, and show it."""
        return await work

    def _lines(self, update: Update) -> list[tuple[str, str, str]]:
        match update:
            case RunStarted(_, finished, warnings):
                already = [("", "", f"{plural(finished, 'trial')} already finished")] if finished else []
                return already + [("!", "yellow", f"warning: {warning}") for warning in warnings]
            case AttemptEvent(_, WarningRaised(code=code, message=message)) if code == CACHE_NOT_WRITABLE:
                return [("!", "yellow", f"warning: {message}")]
            case AttemptFailed(key, info, retry_in_s):
                again = f"; again in {format_duration(retry_in_s * 1000)}" if retry_in_s is not None else ""
                reason = one_line(info.reason, _MAX_REASON)
                return [("!", "yellow", f"{key}, attempt {info.number}: {info.outcome}: {reason}{again}")]
            case TrialFinished(meta):
                return [(*_mark(meta), f"{self.finished}/{self.trials} {meta.key}: {_result(meta)}")]
            case TrialsSkipped(reason=reason):
                text = f"no further trials of {update.which}: {one_line(reason, 2 * _MAX_REASON)}"
                return [("!", "yellow", text)]
            case ComparisonState(rounds=rounds) if rounds:
                return [("", "", str(update))]
            case Stopping(reason, running):
                wait = f"; {plural(running, 'running trial')} will finish, Ctrl-C aborts" if running else ""
                return [("!", "yellow", f"no further trials are started: {one_line(reason)}{wait}")]
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def _mark(meta: TrialMeta) -> tuple[str, str]:
    return _MARKS[meta.outcome == "solved" if meta.valid else None]


def _result(meta: TrialMeta) -> str:
    score = "" if meta.composite_score is None else f"score {meta.composite_score:.3f}"
    cost = "" if meta.all_attempts_cost_usd is None else format_usd(meta.all_attempts_cost_usd)
    took = "" if meta.duration_s is None else format_duration(meta.duration_s * 1000)
    tries = f"{len(meta.attempts)} attempts" if len(meta.attempts) > 1 else ""
    reason = "" if meta.outcome == "solved" else one_line(meta.reason or "", _MAX_REASON)
    return ", ".join(part for part in (meta.outcome or "unknown", score, cost, took, tries, reason) if part)


class ScreenMatrixDisplay(MatrixDisplay):
    """Shows the full screen, in which each attempt is a session, until a person leaves it."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._screen = open_screen(title)

    def __call__(self, update: Update) -> None:
        match update:
            case RunStarted(trials):
                self._screen.expected = trials
            case AttemptStarted(key, number):
                self._screen.begin(_session_id(key, number), str(key) + (f", attempt {number}" if number > 1 else ""))
            case AttemptEvent(key, event) if key in self.running:
                self._screen.take(_session_id(key, self.running[key].number), event)
            case AttemptFailed(key, info):
                self._screen.end(_session_id(key, info.number), info.outcome)
            case TrialFinished(meta):
                self._screen.end(_session_id(meta.key, len(meta.attempts)), meta.outcome or "unknown")
        super().__call__(update)

    def print(self, mark: str, style: str, text: str) -> None:
        self._screen.sink(ProgressNote(text=f"{mark} {text}".strip()))

    def announce(self, text: str) -> None:
        self.print("", "", text)

    async def show(self, work: Coroutine[Any, Any, Result]) -> Result:
        from youbencha.tui.screen import run_with_screen

        return await run_with_screen(self._screen, work)


def _session_id(key: TrialKey, number: int) -> str:
    return f"{key}#{number}"


class PlainMatrixDisplay(MatrixDisplay):
    """Prints a line for each finished trial and each problem, with the seconds since the start."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._began = time.monotonic()

    def print(self, mark: str, style: str, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the pipe is closed; the run continues
            line = f"{mark} {text}" if mark else text
            print(f"{time.monotonic() - self._began:6.1f}s {line}", file=self._stream, flush=True)


class LiveMatrixDisplay(MatrixDisplay):
    """Prints a line for each finished trial and each problem; below them, a table of those that are running."""

    def __init__(self, stream: TextIO, *, console: Console | None = None) -> None:
        super().__init__()
        self._began = time.time()
        self._console = console or Console(file=stream, highlight=False)
        self._live: Live = Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
        )

    def print(self, mark: str, style: str, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is closed; the run continues
            line = Text.assemble((f"{mark} " if mark else "", style), text)
            self._console.print(line)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
        self._console.print()  # before the result

    def render(self) -> RenderableType:
        now = time.time()
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "left", "right", "right", "right"):
            table.add_column(justify=justify, no_wrap=True)
        most = max(1, self._console.height - _OTHER_LINES - len(self.comparisons))
        for key, trial in list(self.running.items())[:most]:
            table.add_row(*_cells(key, trial, now))
        if len(self.running) > most:
            table.add_row(Text(f"and {len(self.running) - most} more", "dim"))
        comparisons = (Text(str(comparison), "dim", no_wrap=True) for comparison in self.comparisons.values())
        return Group(Text(), table, *comparisons, self._totals(now))

    def _totals(self, now: float) -> RenderableType:
        running = self.running.values()
        spent = self.spent_usd + sum(trial.progress.cost_usd or 0 for trial in running)
        parts = [
            format_duration((now - self._began) * 1000),
            f"{len(running)} running",
            f"{self.solved} solved",
            *([f"{self.not_valid} not valid"] if self.not_valid else []),
            *([format_usd(spent)] if spent else []),
        ]
        return Text.assemble((f"{self.finished}/{self.trials}", "bold"), (f" · {' · '.join(parts)}", "dim"))


def _cells(key: TrialKey, trial: RunningTrial, now: float) -> tuple[str, ...]:
    shown = trial.progress
    counts = shown.input_tokens, shown.output_tokens, shown.cache_read_tokens, shown.cache_creation_tokens
    tokens = total_tokens(Tokens(*counts))
    phase = shown.phases[-1].name.replace("_", " ") if shown.phases else "starting"
    return (
        str(key) + (f", attempt {trial.number}" if trial.number > 1 else ""),
        phase,
        format_duration((now - trial.began) * 1000),
        "" if tokens is None else f"{format_count(tokens)} tokens",
        format_usd(shown.cost_usd) if shown.cost_usd is not None else "",
    )


class MatrixSession(Protocol):
    """One invocation: it plans, creates or finds the directory of its run, and runs the matrix."""

    run: ArenaRun | None
    """None until there is one."""

    async def work(self, display: MatrixDisplay, control: MatrixControl) -> MatrixSummary: ...


def run_and_show(
    session: MatrixSession,
    *,
    as_json: bool,
    quiet: bool = False,
    tui: str | None = None,
    by_task: bool = False,
    resume: str = "thunderdome run",
    succeeded: Callable[[MatrixSummary], bool] | None = None,
) -> int:
    """Run a matrix, which the first Ctrl-C drains and the second aborts; print the result and return the exit code.

    `tui` is the title of the full screen, if it is wanted. With `by_task`, the table has a row for each agent and task.
    `resume` is the command that continues the run. If everything ran, `succeeded` decides whether the exit code is 0,
    by default if every trial measured its agent.
    """
    control, display = MatrixControl(), choose_matrix_display(quiet=quiet, tui=tui)
    try:
        summary = run_async(display.show(session.work(display, control)), drain=control.drain)
    except KeyboardInterrupt:
        if session.run is not None:
            typer.echo(f"interrupted; {_how_to_resume(resume, session.run)}", err=True)
        raise
    run = session.run
    assert run is not None
    with suppress(BrokenPipeError):  # it is in the results, too
        if as_json:
            typer.echo(json.dumps(_document(summary, run), indent=2))
        else:
            _show(summary, run, by_task=by_task)
    if not summary.complete:
        _print_unfinished(summary)
        typer.echo(_how_to_resume(resume, run), err=True)
        if not summary.ended:
            return INTERRUPTED if summary.drained else NOT_PASSED
    return 0 if (succeeded or measured)(summary) else NOT_PASSED


def measured(summary: MatrixSummary) -> bool:
    """Whether every trial measured its agent; if some need not, whether every comparison has results."""
    return all(comparison.pairs for comparison in summary.comparisons) if summary.comparisons else not summary.not_valid


async def check_matrix(matrix: Matrix, env: Mapping[str, str]) -> None:
    """Raise at once if there is no container engine for the matrix, or if the CLI of an agent is too old."""
    if any(cell.plan.sandbox.type == "docker" for cell in matrix.cells):
        async with connect():
            pass
    await _check_versions(matrix, env)


def show_plan(matrix: Matrix, options: MatrixOptions, *, as_json: bool, reusable: Reusable | None = None) -> None:
    """Show what would run, and the most that it can cost."""
    plan = describe_plan(matrix, parallel=options.parallel, attempts=options.retries.attempts, reusable=reusable)
    typer.echo(json.dumps(plan.as_data(), indent=2) if as_json else plan.as_text())


async def _check_versions(matrix: Matrix, env: Mapping[str, str]) -> None:
    """Raise if the CLI of an agent is too old. `env` is the harness's environment."""
    checked = set()
    for plan in (cell.plan for cell in matrix.cells):
        kind, config = plan.case.agent.type, plan.agent_config
        program = (kind, config.get("version"), config.get("executable"))
        if program not in checked:
            checked.add(program)
            await check_version(plan, get_adapter(kind, env))


async def check_matrix_models(matrix: Matrix, done: Container[TrialKey] = ()) -> None:
    """Raise at once if a provider does not know a model that is configured for trials which are not done."""
    cells = {(cell.orchestrator, cell.task): cell for key, cell in matrix.order() if key not in done}.values()
    await check_models(model for cell in cells for model in cell.plan.configured_models(cell.orchestrator))


def _show(summary: MatrixSummary, run: ArenaRun, *, by_task: bool) -> None:
    if summary.finished:
        loaded = load_runs([run.path])
        board = with_baselines(make_leaderboard(loaded), loaded)
        by = Grouping.TASK if by_task else Grouping.AGENT
        text = render_leaderboard(board, ArenaFormat.TABLE, by, width=terminal_width(sys.stdout), base=run.path)
        typer.echo(text, nl=False)
    finished = f"{format_count(len(summary.finished))} of {plural(summary.trials, 'trial')} finished"
    not_valid = f", {format_count(summary.not_valid)} not valid" if summary.not_valid else ""
    spent = f", {format_usd(summary.spent_usd)} spent" if summary.spent_usd else ""
    typer.echo(f"\n{finished}{not_valid}{spent}{_saved(summary)}\nResults: {run.path}")


def _saved(summary: MatrixSummary) -> str:
    if not summary.saved:
        return ""
    money = f" (about {format_usd(summary.saved_usd)})" if summary.saved_usd else ""
    return f"; {format_count(summary.saved)} of at most {format_count(summary.max_trials)} saved{money}"


def _print_unfinished(summary: MatrixSummary) -> None:
    left = summary.trials - len(summary.finished)
    typer.echo(f"{plural(left, 'trial')} not finished", err=True)
    reasons: dict[str, list[str]] = {}
    for skipped in summary.skipped:
        reasons.setdefault(skipped.reason, []).append(skipped.which)
    for reason, places in reasons.items():
        typer.echo(f"  {', '.join(places)}: {one_line(reason, 500)}", err=True)
    if summary.stopped:
        typer.echo(f"  {sentences(one_line(summary.stopped, 500), summary.hint)}", err=True)


def _how_to_resume(command: str, run: ArenaRun) -> str:
    return f"continue with: {command} --resume {run.name}"


def _document(summary: MatrixSummary, run: ArenaRun) -> dict[str, Any]:
    return {
        "run": run.name,
        "directory": str(run.path),
        "trials": summary.trials,
        "finished": len(summary.finished),
        "complete": summary.complete,
        "not_valid": summary.not_valid,
        "interrupted": summary.drained and not summary.complete,
        "stopped": summary.stopped,
        "spent_usd": summary.spent_usd,
        "comparisons": [
            {**comparison._asdict(), "interval": comparison.interval._asdict()} for comparison in summary.comparisons
        ],
        "max_trials": summary.max_trials,
        "saved_trials": summary.saved if summary.comparisons else None,
        "saved_usd": summary.saved_usd if summary.comparisons else None,
        "skipped": [skipped._asdict() for skipped in summary.skipped],
        "results": [_as_data(meta) for meta in summary.finished],
    }


def _as_data(meta: TrialMeta) -> dict[str, Any]:
    return {
        **meta.key._asdict(),
        "outcome": meta.outcome,
        "valid": meta.valid,
        "composite_score": meta.composite_score,
        "cost_usd": meta.all_attempts_cost_usd,
        "last_cost_usd": meta.last_attempt_cost_usd,
        "total_tokens": meta.total_tokens,
        "duration_s": meta.duration_s,
        "reason": meta.reason,
        "attempts": len(meta.attempts),
        "reused_from": meta.reused_from,
        "retried": meta.retried,
    }
