"""Render a run as one HTML page, with the changes and the agent's log.

Results may be untrusted: their paths are used only below their own directory, and files are read up to a limit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from youbencha.files import open_nofollow
from youbencha.log.model import Message, ToolCall, YouBenchaLog
from youbencha.report import figures
from youbencha.report.findings import findings
from youbencha.report.patch import FilePatch, read_patch
from youbencha.report.sharing import path_shortener, replace_texts
from youbencha.store.bundle import AgentRun, ResultsBundle, Summary
from youbencha.store.layout import DIFF_FILE, LOG_FILE
from youbencha.text import (
    UNKNOWN,
    first_line,
    format_count,
    format_duration,
    format_percent,
    format_size,
    format_usd,
    one_line,
    plural,
    visible,
)
from youbencha.transcript.lines import main_argument

_HERE = Path(__file__).parent / "templates"
_POLICY = "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
_OPEN_EVALUATORS = 5
_OPEN_FILES = 8
_OPEN_LINES = 150
_COLOURS = {"passed": "#1a7f37", "failed": "#cf222e", "partial": "#9a6700"}
MAX_ENTRIES = 200
MAX_TEXT = 6000
_FOLDED_FROM = 1200
_FOLDED_LINES = 16
Entry = TypeVar("Entry")
Logged = TypeVar("Logged")
_MAX_DIFF_BYTES = 4 * 1024 * 1024
_MAX_LOG_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Tile:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class PhaseBar:
    name: str
    spent: str
    start: float
    width: float


def render_html(bundle: ResultsBundle, attachments: Attachments | None = None, *, artifacts_dir: str = "") -> str:
    """Render a run's results as a page. `artifacts_dir` is the path of the artifacts, relative to the page."""
    attachments = attachments or Attachments()
    patch = read_patch(attachments.diff) if attachments.diff else None
    return render_page(
        "page.html",
        bundle=bundle,
        attachments=attachments,
        icon=_COLOURS[bundle.summary.overall_status],
        tiles=_tiles(bundle),
        phases=_phases(bundle),
        evaluators=[(result, findings(result)) for result in bundle.evaluators],
        unfolded=_unfolded(bundle),
        hooks=_hooks(bundle),
        patch=patch,
        opened=_opened(patch.files) if patch else frozenset(),
        timeline=timeline(attachments.log) if attachments.log else None,
        artifacts=figures.artifacts(bundle),
        artifacts_dir=artifacts_dir,
        figures=figures,
    )


def render_page(template: str, **values: Any) -> str:
    """Render a template as one file: the style is in it, and the policy allows nothing else."""

    style = (_HERE / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    values |= {"style": Markup(style), "policy": _POLICY.format(digest=digest)}  # noqa: S704 - a trusted file
    return _environment().get_template(template).render(values)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=format_count, cut=cut, duration=format_duration, link=_link, percent=format_percent, size=format_size
    )
    environment.filters.update(code_apart=_code_apart, one_line=one_line, plural=plural, usd=format_usd)
    return environment


def _finalized(value: Any) -> Any:
    """Applied before escaping. Markup is a `str`, too, but already escaped."""
    if value is None:
        return UNKNOWN
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _code_apart(text: str | None) -> list[str]:
    """Split a text so that every second piece is what was between backticks."""
    return [UNKNOWN] if text is None else re.split(r"`([^`\n]+)`", text)


def _link(path: str, directory: str = "") -> str:
    """Return a link to a file in `directory`. The leading `./` keeps a path from being read as a scheme or a host."""
    parts = (part.replace("\\", "/").strip("/") for part in (directory, path))
    return "./" + quote("/".join(part for part in parts if part not in ("", ".")), errors="replace")


def _tiles(bundle: ResultsBundle) -> list[Tile]:
    summary, agent, judging = bundle.summary, bundle.agent, figures.judging_cost(bundle)
    tiles = [
        Tile("Evaluators passed", f"{summary.passed} of {summary.total_evaluators}", _not_passed(summary)),
        Tile("Duration", format_duration(bundle.execution.duration_ms), _agent_share(bundle)),
    ]
    if agent is not None:
        usage = agent.usage
        lower_bound = "at least " if usage and usage.partial else ""
        price = format_usd(usage.cost_usd if usage else None)
        source = figures.COST_SOURCES.get(usage.cost_source or "", "") if usage and usage.cost_usd is not None else ""
        total = format_count(usage.total_tokens if usage else None)
        detail = figures.tokens(usage)
        tiles += [
            Tile("Agent", one_line(agent.type, 40), _version_and_status(agent)),
            Tile("Model", one_line(agent.model or UNKNOWN, 60)),
            Tile("Cost", lower_bound + price if price != UNKNOWN else UNKNOWN, _and_judging(source, judging)),
            Tile("Tokens", total, detail if detail != UNKNOWN else ""),
            Tile("Turns", format_count(agent.turns)),
            Tile("Tool calls", format_count(agent.tool_calls), _most_used_tools(agent.tools_used)),
        ]
    elif judging:
        tiles.append(Tile("Judging cost", judging, "spent by the evaluators"))
    return tiles


def _and_judging(source: str, judging: str | None) -> str:
    return ", ".join(filter(None, (source, judging and f"judging {judging}")))


def _version_and_status(agent: AgentRun) -> str:
    return " · ".join(filter(None, (agent.version and one_line(agent.version, 40), figures.agent_status(agent))))


def _not_passed(summary: Summary) -> str:
    numbers = {"failed": summary.failed, "skipped": summary.skipped}
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def _agent_share(bundle: ResultsBundle) -> str:
    spent = bundle.agent.duration_ms if bundle.agent else None
    return "" if spent is None else f"the agent {format_duration(spent)}"


def _most_used_tools(tools_used: dict[str, int] | None) -> str:
    most = figures.most_used(tools_used)[:4]
    return ", ".join(f"{one_line(name, 30)} {format_count(number)}" for name, number in most)


def _phases(bundle: ResultsBundle) -> list[PhaseBar]:
    """The phases as parts of a bar of width 1000."""
    spent = list(figures.phases(bundle))
    total = sum(milliseconds for _, milliseconds in spent) or 1
    phases, start = [], 0.0
    for name, milliseconds in spent:
        width = round(milliseconds / total * 1000, 2)
        phases.append(PhaseBar(name, format_duration(milliseconds), round(start, 2), width))
        start += width
    return phases


def _hooks(bundle: ResultsBundle) -> list[tuple[str, Any]]:
    before = [("before the agent", hook) for hook in bundle.hooks.pre_execution]
    return before + [("after the evaluation", hook) for hook in bundle.hooks.post_evaluation]


def _unfolded(bundle: ResultsBundle) -> frozenset[int]:
    """Return the evaluators to show unfolded: the first few that did not pass."""
    not_passed = [at for at, result in enumerate(bundle.evaluators) if result.status != "passed"]
    return frozenset(not_passed[:_OPEN_EVALUATORS])


def _opened(files: Sequence[FilePatch]) -> frozenset[int]:
    """Return the files to show unfolded: the first few that are small."""
    return frozenset(at for at, file in enumerate(files) if at < _OPEN_FILES and len(file.rows) <= _OPEN_LINES)


@dataclass(frozen=True)
class Portion(Generic[Entry]):
    """The beginning and the end of a list that is too long."""

    total: int
    first: tuple[Entry, ...]
    left_out: int
    last: tuple[Entry, ...]


@dataclass(frozen=True)
class MessageEntry:
    role: str
    text: str
    headline: str
    """Shown while it is folded; empty if it is short enough to stay open."""
    moment: str
    nested: bool


@dataclass(frozen=True)
class ToolEntry:
    name: str
    headline: str
    arguments: str
    result: str | None
    failed: bool | None
    nested: bool


@dataclass(frozen=True)
class Timeline:
    messages: Portion[MessageEntry]
    calls: Portion[ToolEntry] | None
    """None: unknown."""


def timeline(log: YouBenchaLog) -> Timeline:
    known = log.without_claims()
    calls = _portion(known.tool_calls, _tool_entry) if known.tool_calls_known else None
    return Timeline(_portion(log.messages, _message_entry), calls)


def _portion(records: Sequence[Logged], entry: Callable[[Logged], Entry]) -> Portion[Entry]:
    total, half = len(records), MAX_ENTRIES // 2
    if total <= MAX_ENTRIES:
        return Portion(total, tuple(map(entry, records)), 0, ())
    return Portion(total, tuple(map(entry, records[:half])), total - 2 * half, tuple(map(entry, records[-half:])))


def _message_entry(message: Message) -> MessageEntry:
    text = message.content.strip("\n")
    long = len(text) > _FOLDED_FROM or text.count("\n") > _FOLDED_LINES
    return MessageEntry(
        role=message.role,
        text=cut(text),
        headline=one_line(first_line(text), 160) if long else "",
        moment=(message.timestamp or "")[11:19],
        nested=message.parent is not None,
    )


def _tool_entry(call: ToolCall) -> ToolEntry:
    try:
        arguments: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    pretty = arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False)
    return ToolEntry(
        name=call.name,
        headline=one_line(main_argument(arguments) if isinstance(arguments, dict) else str(arguments), 160),
        arguments=cut(pretty),
        result=None if call.result is None else cut(call.result),
        failed=call.is_error,
        nested=call.parent is not None,
    )


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """Shorten a text, and add how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {format_count(len(text) - limit)} more characters"


@dataclass(frozen=True)
class Attachments:
    diff: str | None = None
    diff_file: str | None = None
    diff_left_out: int = 0
    """How many bytes of it were left out."""
    log: YouBenchaLog | None = None
    log_note: str | None = None
    """Why there is no log to show."""


def read_attachments(directory: Path, bundle: ResultsBundle) -> Attachments:
    """Read the changes and the log, if they exist."""
    diff, diff_name, left_out = None, None, 0
    for name, file in _open_first(directory, bundle.artifacts.diff, DIFF_FILE):
        diff_name = name
        diff, left_out = _read_start(file)
    log, note = None, None
    agent_log = bundle.agent.youbencha_log_path if bundle.agent else None
    for _, file in _open_first(directory, agent_log, bundle.artifacts.agent_log, LOG_FILE):
        log, note = _log(file)
    log = log and replace_texts(log, path_shortener(bundle))
    return Attachments(diff, diff_name, left_out, log, note)


def _open_first(directory: Path, *names: str | None) -> Iterator[tuple[str, BinaryIO]]:
    """Open the first that is a file in the directory, and yield it with its name; nothing if there is none."""
    for name in filter(None, names):
        relative = os.path.relpath(directory / name, directory)  # the original youBencha wrote absolute paths
        try:
            file = open_nofollow(directory, relative)
        except OSError:
            continue
        with file:
            yield Path(relative).as_posix(), file
        return


def _read_start(file: BinaryIO) -> tuple[str | None, int]:
    try:
        content = file.read(_MAX_DIFF_BYTES)
        left_out = max(0, os.fstat(file.fileno()).st_size - len(content))
    except OSError:
        return None, 0
    if left_out:
        content = content[: content.rfind(b"\n") + 1] or content
    return content.decode("utf-8", "surrogateescape"), left_out


def _log(file: BinaryIO) -> tuple[YouBenchaLog | None, str | None]:
    from youbencha.store.read import parse_log

    try:
        if (bytes_in_it := os.fstat(file.fileno()).st_size) > _MAX_LOG_BYTES:
            return None, f"The agent's log is too large to be shown ({format_size(bytes_in_it)})."
        return parse_log(file.read()), None
    except (OSError, ValueError, RecursionError) as error:
        return None, f"The agent's log could not be read ({type(error).__name__})."
