"""The page: what is on it, and the one place where text becomes markup.

Every value passes `visible` and then the template's escaping, whatever it is and wherever it comes from. There is no
script in it, and the page's own policy forbids any; its one style sheet is let in by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from youbencha.report import figures as told
from youbencha.report.attachments import Attachments
from youbencha.report.findings import findings
from youbencha.report.formatting import UNKNOWN, count, duration, percent, plural, size, usd
from youbencha.report.html.patch import FilePatch, read_patch
from youbencha.report.html.timeline import cut, timeline
from youbencha.report.text import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Environment

    from youbencha.log import AgentRun, ResultsBundle, Summary

_HERE = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
_OPEN_EVALUATORS = 5
_OPEN_FILES = 8
_OPEN_LINES = 150
_COLOURS = {"passed": "#1a7f37", "failed": "#cf222e", "partial": "#9a6700"}


@dataclass(frozen=True)
class Tile:
    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Phase:
    name: str
    spent: str
    start: float
    width: float


def render_html(bundle: ResultsBundle, attachments: Attachments | None = None) -> str:
    """Pure but for the template, which it reads once."""
    from markupsafe import Markup

    beside = attachments or Attachments()
    style = (_HERE / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    patch = read_patch(beside.diff) if beside.diff else None
    return (
        _environment()
        .get_template("page.html")
        .render(
            bundle=bundle,
            beside=beside,
            style=Markup(style),  # noqa: S704 - our own file
            policy=_POLICY.format(digest=digest),
            icon=_COLOURS[bundle.summary.overall_status],
            tiles=_tiles(bundle),
            phases=_phases(bundle),
            evaluators=[(result, findings(result)) for result in bundle.evaluators],
            unfolded=_unfolded(bundle),
            hooks=_hooks(bundle),
            patch=patch,
            opened=_opened(patch.files) if patch else frozenset(),
            timeline=timeline(beside.log) if beside.log else None,
            artifacts=told.artifacts(bundle),
            told=told,
        )
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=count, cut=cut, duration=duration, link=_link, percent=percent, size=size)
    environment.filters.update(code_apart=_code_apart, one_line=one_line, plural=plural, usd=usd)
    return environment


def _finalized(value: Any) -> Any:
    """Before the escaping. Markup is a text, too, but a finished one."""
    if value is None:
        return UNKNOWN
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _code_apart(text: str | None) -> list[str]:
    """Every second piece stood between backticks."""
    return [UNKNOWN] if text is None else re.split(r"`([^`\n]+)`", text)


def _link(path: str) -> str:
    """To a file beside the report. With `./` in front, nothing in it can be a scheme or a host."""
    return "./" + quote(path.replace("\\", "/").lstrip("/"), errors="replace")


def _tiles(bundle: ResultsBundle) -> list[Tile]:
    summary, agent, judging = bundle.summary, bundle.agent, told.judging_cost(bundle)
    tiles = [
        Tile("Evaluators passed", f"{summary.passed} of {summary.total_evaluators}", _not_passed(summary)),
        Tile("Duration", duration(bundle.execution.duration_ms), _agent_share(bundle)),
    ]
    if agent is not None:
        usage = agent.usage
        lower_bound = "at least " if usage and usage.partial else ""
        price = usd(usage.cost_usd if usage else None)
        source = told.COST_SOURCES.get(usage.cost_source or "", "") if usage and usage.cost_usd is not None else ""
        total = count(usage.total_tokens if usage else None)
        detail = told.tokens(usage)
        tiles += [
            Tile("Agent", one_line(agent.type, 40), _version_and_status(agent)),
            Tile("Model", one_line(agent.model or UNKNOWN, 60)),
            Tile("Cost", lower_bound + price if price != UNKNOWN else UNKNOWN, _and_judging(source, judging)),
            Tile("Tokens", total, detail if detail != UNKNOWN else ""),
            Tile("Turns", count(agent.turns)),
            Tile("Tool calls", count(agent.tool_calls), _most_used_tools(agent.tools_used)),
        ]
    elif judging:
        tiles.append(Tile("Judging cost", judging, "spent by the evaluators"))
    return tiles


def _and_judging(source: str, judging: str | None) -> str:
    return ", ".join(filter(None, (source, judging and f"judging {judging}")))


def _version_and_status(agent: AgentRun) -> str:
    return " · ".join(filter(None, (agent.version and one_line(agent.version, 40), told.agent_status(agent))))


def _not_passed(summary: Summary) -> str:
    numbers = {"failed": summary.failed, "skipped": summary.skipped}
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def _agent_share(bundle: ResultsBundle) -> str:
    spent = bundle.agent.duration_ms if bundle.agent else None
    return "" if spent is None else f"the agent {duration(spent)}"


def _most_used_tools(tools_used: dict[str, int] | None) -> str:
    most = told.most_used(tools_used)[:4]
    return ", ".join(f"{one_line(name, 30)} {count(number)}" for name, number in most)


def _phases(bundle: ResultsBundle) -> list[Phase]:
    """Parts of one line that is 1000 wide."""
    spent = list(told.phases(bundle))
    total = sum(each for _, each in spent) or 1
    phases, start = [], 0.0
    for name, each in spent:
        width = round(each / total * 1000, 2)
        phases.append(Phase(name, duration(each), round(start, 2), width))
        start += width
    return phases


def _hooks(bundle: ResultsBundle) -> list[tuple[str, Any]]:
    before = [("before the agent", hook) for hook in bundle.hooks.pre_execution]
    return before + [("after the evaluation", hook) for hook in bundle.hooks.post_evaluation]


def _unfolded(bundle: ResultsBundle) -> frozenset[int]:
    """What did not pass. Not all of it, where there is much: the first look is for how many there are."""
    not_passed = [at for at, result in enumerate(bundle.evaluators) if result.status != "passed"]
    return frozenset(not_passed[:_OPEN_EVALUATORS])


def _opened(files: Sequence[FilePatch]) -> frozenset[int]:
    """Small changes are seen at once; a large file waits until it is asked for."""
    return frozenset(at for at, file in enumerate(files) if at < _OPEN_FILES and len(file.rows) <= _OPEN_LINES)
