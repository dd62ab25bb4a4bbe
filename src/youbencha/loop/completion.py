"""Decide whether an agent says that the work is done, or that it gives up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from youbencha.loop.hats import may_finish
from youbencha.spec.loop import LoopSpec
from youbencha.text import strip_ansi

ClaimedBy = Literal["promise", "event", "gates"]
_FENCE = re.compile(r" {0,3}(```|~~~)")
_MARKUP = re.compile(r"</?\w+>|[\W_]+")
_LAST_LINES = 5
"""How many lines are searched for the promise: some agents add a sentence or two after it."""


@dataclass(frozen=True)
class Claim:
    """What an agent says about the end of the work. Gates come after this."""

    by: ClaimedBy | None = None
    """How it said that the work is done; None: it did not. `gates`: it need not, the gates decide."""
    cancelled: bool = False
    """It gives up."""
    missing_events: tuple[str, ...] = ()
    """Those of `required_events` that have not been published so far."""
    open_tasks: tuple[str, ...] = ()
    """Tasks that are neither closed nor failed."""
    wrong_hat: str | None = None
    """The hat that said so, if it is not allowed to (`enforce_hat_scope`)."""
    overtaken_by: str | None = None
    """The topic of an event that was published after the one that says that the work is done."""
    near: bool = False
    """The agent probably meant the promise: it is in one of the last lines, but not the last one, or not alone."""

    @property
    def done(self) -> bool:
        is_refused = self.wrong_hat or self.missing_events or self.open_tasks or self.overtaken_by
        return self.by is not None and not is_refused

    def refusal_reasons(self, promise: str) -> list[str]:
        """Return why the work does not count as done, although the agent says so, or probably meant to."""
        if self.cancelled:
            return []
        reasons = []
        if self.wrong_hat:
            reasons.append(f"the hat {self.wrong_hat} cannot end the work: `{promise}` is not among its events.")
        if self.missing_events:
            reasons.append(f"these events were never published: {', '.join(self.missing_events)}.")
        if self.open_tasks:
            reasons.append(f"these tasks are open (close or fail each): {', '.join(self.open_tasks)}.")
        if self.overtaken_by:
            reasons.append(f"`{self.overtaken_by}` was published after `{promise}`, which must be the last event.")
        if self.near:
            reasons.append(f"`{promise}` has to be the last line, alone and without any markup.")
        return reasons


def read_claim(
    last_text: str | None,
    topics: Sequence[str],
    spec: LoopSpec,
    seen: Iterable[str] = (),
    *,
    hat: str | None = None,
    open_tasks: Sequence[str] = (),
) -> Claim:
    """Judge an iteration by its final answer and by the events that its agent published.

    `topics` are those that the agent itself published, in order: a hat's `default_publishes` is not among them.
    `seen` are the topics that agents published before, and `open_tasks` the titles of this loop's open tasks.
    """
    ends = spec.event_loop
    promise, cancellation = ends.completion_promise, ends.cancellation_promise
    text = strip_ansi(last_text or "")
    if ends.enforce_hat_scope and not may_finish(spec, hat):
        if _is_last_line(text, promise) and not ends.complete_by_gates:
            return Claim(by="promise", wrong_hat=hat)
        text = ""
    if cancellation and (cancellation in topics or _is_last_line(text, cancellation)):
        return Claim(cancelled=True)
    published = promise in topics
    promised = _is_last_line(text, promise)
    if not published and not promised and not ends.complete_by_gates:
        return Claim(near=_is_near_end(text, promise))
    missing = {*ends.required_events} - {*seen, *topics}
    return Claim(
        by="event" if published else "promise" if promised else "gates",
        missing_events=tuple(topic for topic in ends.required_events if topic in missing),
        open_tasks=tuple(open_tasks),
        overtaken_by=topics[-1] if published and topics[-1] != promise else None,
    )


def _is_last_line(text: str, promise: str) -> bool:
    """Whether the last line that is not blank is the promise, outside of code blocks."""
    *before, last = [line for line in text.split("\n") if line.strip()] or [""]  # at U+2028, prose continues
    in_code = sum(1 for line in before if _FENCE.match(line)) % 2 == 1
    return last.strip() == promise.strip() and not in_code


def _is_near_end(text: str, promise: str) -> bool:
    """Whether one of the last lines is the promise, apart from markup and punctuation."""
    lines = [line for line in text.split("\n") if line.strip() and not _FENCE.match(line)]
    return _without_markup(promise) in map(_without_markup, lines[-_LAST_LINES:])


def _without_markup(line: str) -> str:
    return _MARKUP.sub(" ", line).strip()
