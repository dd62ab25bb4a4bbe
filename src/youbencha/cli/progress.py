"""How far a run is, folded from its events. Pure: the displays only show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from youbencha.cli.lines import Line, line_of
from youbencha.events import (
    EvaluatorFinished,
    Event,
    ModelCalled,
    PhaseStarted,
    SessionStarted,
    ToolCalled,
    UsageReported,
    WorkspaceReady,
)

N = TypeVar("N", int, float)


@dataclass
class Phase:
    name: str
    started_at: float
    ended_at: float | None = None


@dataclass
class Progress:
    inside: Path | None = None
    """Paths in here are shown from here."""
    directory: Path | None = None
    """Of the run, once there is one."""
    phases: list[Phase] = field(default_factory=list)
    model: str | None = None
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    calls: int = 0
    """Of the model, as the gateway counts them."""
    evaluators: list[tuple[str, str]] = field(default_factory=list)

    def take(self, event: Event) -> Line | None:
        """Fold an event in; the line that tells it, if it is worth one."""
        match event:
            case PhaseStarted(phase=name, at=at):
                self._close(at)
                self.phases.append(Phase(name, at))
            case WorkspaceReady(directory=directory, tree=tree):
                self.directory, self.inside = Path(directory), Path(tree)
            case SessionStarted(model=str(model)):
                self.model = model
            case ToolCalled():
                self.tool_calls += 1
            case ModelCalled():
                self._count(event)
            case UsageReported() if not self.calls:  # the gateway's own count is exact, and in time
                self.input_tokens = _newer(event.input_tokens, self.input_tokens)
                self.output_tokens = _newer(event.output_tokens, self.output_tokens)
                self.cost_usd = event.cost_usd if event.cost_usd is not None else self.cost_usd
            case EvaluatorFinished(evaluator=name, status=status):
                self.evaluators.append((name, status))
        return line_of(event, self.inside)

    def _count(self, call: ModelCalled) -> None:
        self.calls += 1
        self.input_tokens = _sum(self.input_tokens, call.input_tokens)
        self.output_tokens = _sum(self.output_tokens, call.output_tokens)
        self.cost_usd = _sum(self.cost_usd, call.cost_usd)

    def _close(self, at: float) -> None:
        if self.phases and self.phases[-1].ended_at is None:
            self.phases[-1].ended_at = at


def _sum(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else one + other


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
