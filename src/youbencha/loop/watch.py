"""Watch an iteration while it runs, and end it when it is silent, too slow, too expensive or at a usage limit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from youbencha.events import (
    Event,
    ModelCalled,
    RateLimitSeen,
    RequestRetried,
    SessionResult,
    SessionStarted,
    ToolCalled,
    ToolDenied,
    ToolReturned,
    ToolStarted,
    UsageReported,
)
from youbencha.gateway.access import Provider
from youbencha.gateway.prices import Prices
from youbencha.log.session import CallMetered
from youbencha.text import format_duration, format_usd
from youbencha.usage import Tokens

_TOO_MANY_REQUESTS = 429
_LONG, _LONG_WINDOW = "[1m]", 1_000_000
"""How Claude Code names a model with a longer context; answers do not have the suffix."""
_GOES_ON = (ToolStarted, ToolCalled, ToolReturned, RequestRetried)
"""Entries after which the session continues. A text may be its last."""
_CHECK_EVERY_S = 0.25
_RESULT_WITHIN_S = 10.0
"""How soon the result follows the last report of usage, unless hooks run."""

LEFT_TO_AGENT_S = 60.0
"""A usage limit that ends within this time is left to the agent, which waits and tries again."""

EndKind = Literal["idle", "tool_timeout", "time", "cost", "quota", "usage_limit"]


class IterationLimits(NamedTuple):
    """What one iteration may use. None: no limit."""

    idle_s: float | None = None
    """Without output while no tool runs."""
    tool_s: float | None = None
    """For one tool call."""
    time_s: float | None = None
    """For the whole iteration: the hat's timeout."""
    cost_usd: float | None = None
    """What is left of the loop's money."""
    quota_percent: float | None = None


class EndReason(NamedTuple):
    """Why the watch ended an iteration."""

    kind: EndKind
    message: str
    resets_at: float | None = None
    """When the usage limit ends, in seconds since the epoch."""


class SessionCost:
    """What a session has cost so far: the gateway's figures, else the agent's own, else an estimate from its tokens.

    `prices` are for the estimate; without them or a known price, there is none.
    """

    def __init__(
        self, prices: Prices | None = None, provider: Provider | None = None, model: str | None = None
    ) -> None:
        self._prices, self._provider, self._model = prices, provider, model
        self._counted = Tokens()
        self._is_long = False
        self._metered: float | None = None
        self._reported: float | None = None
        self._estimated: float | None = None

    @property
    def usd(self) -> float | None:
        """None if nothing is known."""
        known = (self._metered, self._reported, self._estimated)
        return next((cost for cost in known if cost is not None), None)

    @property
    def is_estimated(self) -> bool:
        return self._metered is None and self._reported is None and self._estimated is not None

    @property
    def context_window(self) -> int | None:
        """The largest number of tokens that the model can have in its context, if it is known."""
        if self._is_long:
            return _LONG_WINDOW
        if self._prices is None or self._provider is None or self._model is None:
            return None
        return self._prices.context_window(self._provider, self._model)

    def on_model(self, event: SessionStarted | CallMetered) -> None:
        """Note the model of the tokens that are reported next."""
        if event.model:
            self._is_long = event.model.endswith(_LONG) or (self._is_long and isinstance(event, CallMetered))
            self._model = event.model.removesuffix(_LONG)

    def on_call(self, event: ModelCalled) -> None:
        if event.cost_usd is not None:
            self._metered = (self._metered or 0.0) + event.cost_usd

    def on_usage(self, event: UsageReported) -> None:
        """Add the price of the tokens since the last report: prices may depend on the size of a call."""
        if event.cost_usd is not None:
            self._reported = event.cost_usd
        now = Tokens(event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_creation_tokens)
        new = Tokens(*map(_difference, now, self._counted))
        self._counted = now
        if self._prices is None or self._provider is None:
            return
        cost = self._prices.cost(self._provider, self._model, new)
        if cost is not None:
            self._estimated = (self._estimated or 0.0) + float(cost)


class IterationWatch:
    """Sets `stop` as soon as a limit is exceeded; `reason` then says which.

    `take` gets each event of the session, and `heard` is called whenever the agent prints anything.
    """

    def __init__(
        self,
        limits: IterationLimits,
        stop: asyncio.Event,
        clock: Callable[[], float] = time.monotonic,
        *,
        cost: SessionCost | None = None,
    ) -> None:
        self.reason: EndReason | None = None
        self.cost = cost or SessionCost()
        self._limits = limits
        self._stop = stop
        self._clock = clock
        self._started = self._heard_at = clock()
        self._tools: dict[str, _RunningTool] = {}
        self._messages: dict[str | None, str] = {}
        self.quota_reached: EndReason | None = None
        """Also if the iteration has finished even so."""
        self.resets_at: float | None = None
        """When the provider's limit ends, if it refuses requests now; in seconds since the epoch."""
        self._pending: EndReason | None = None
        self._finished = False
        self._takers: dict[type[Event], Callable[[Any], None]] = {
            SessionStarted: self.cost.on_model,
            ModelCalled: self._on_call,
            UsageReported: self._on_usage,
            CallMetered: self._on_message,
            ToolCalled: self._on_tool,
            ToolReturned: self._on_tool_end,
            ToolDenied: self._on_tool_end,
            SessionResult: self._on_result,
            RateLimitSeen: self._on_rate_limit,
            RequestRetried: self._on_retry,
        }

    def heard(self) -> None:
        """Note that the agent printed something."""
        self._heard_at = self._clock()

    def take(self, event: Event) -> None:
        self._heard_at = self._clock()
        if self._pending and isinstance(event, _GOES_ON):
            self._end(self._pending)
        if taker := self._takers.get(type(event)):
            taker(event)

    def check(self) -> None:
        """End the iteration if it is too slow or silent."""
        now, limits = self._clock(), self._limits
        silent_s = now - self._heard_at
        if self._pending and silent_s >= _RESULT_WITHIN_S:
            self._end(self._pending)
        if limits.time_s is not None and now - self._started >= limits.time_s:
            self._end(EndReason("time", f"its time of {_time(limits.time_s)} is over"))
        for tool in self._tools.values():
            if limits.tool_s is not None and now - tool.since >= limits.tool_s:
                self._end(EndReason("tool_timeout", f"a call of {tool.name} took longer than {_time(limits.tool_s)}"))
        if limits.idle_s is not None and not self._tools and silent_s >= limits.idle_s:
            self._end(EndReason("idle", f"the agent printed nothing for {_time(limits.idle_s)} while no tool ran"))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Call `check` regularly, until the iteration has ended."""
        checking = asyncio.create_task(self._check_regularly())
        try:
            yield
        finally:
            checking.cancel()

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            self.check()

    def _end(self, reason: EndReason) -> None:
        """The first reason counts. After its result, the agent ends by itself, or is ended by its adapter."""
        if self.reason is None and not self._finished:
            self.reason = reason
            self._stop.set()

    def _on_call(self, event: ModelCalled) -> None:
        self.cost.on_call(event)
        self._check_cost()
        if event.status == _TOO_MANY_REQUESTS and event.retry_after_s is not None:
            self._on_refusal(event.at, event.at + event.retry_after_s)
        elif event.error is None:
            self.resets_at = None

    def _on_usage(self, event: UsageReported) -> None:
        self.cost.on_usage(event)
        self._check_cost()

    def _check_cost(self) -> None:
        """An iteration whose last call was too expensive has still finished: so wait for what follows the report."""
        spent, most = self.cost.usd, self._limits.cost_usd
        if most is not None and spent is not None and spent >= most:
            about = "about " if self.cost.is_estimated else ""
            self._pending = EndReason("cost", f"it cost {about}{format_usd(spent)}, and {format_usd(most)} were left")

    def _on_message(self, event: CallMetered) -> None:
        """With the next message of the model, all calls of its previous message are done, even without a result."""
        self.cost.on_model(event)
        if event.message_id is None or self._messages.get(event.parent) == event.message_id:
            return
        self._messages[event.parent] = event.message_id
        self._finished = False  # another turn, when a subagent in the background has ended
        if self._pending:
            self._end(self._pending)
        self._tools = {call_id: tool for call_id, tool in self._tools.items() if tool.parent != event.parent}

    def _on_tool(self, event: ToolCalled) -> None:
        # Not at ToolStarted: until its arguments are complete, silence means that the model is stuck.
        if event.call_id is not None:
            self._tools.setdefault(event.call_id, _RunningTool(event.name, self._clock(), event.parent))

    def _on_tool_end(self, event: ToolReturned | ToolDenied) -> None:
        self._tools.pop(event.call_id or "", None)

    def _on_result(self, event: SessionResult) -> None:
        self._tools.clear()
        self._pending = None
        self._finished = True

    def _on_rate_limit(self, event: RateLimitSeen) -> None:
        self.resets_at = event.resets_at if event.status == "rejected" else None
        used, most = event.utilization, self._limits.quota_percent
        if most is not None and used is not None and used * 100 >= most:
            message = f"{used * 100:.0f}% of the quota are used, and the limit is {most:g}%"
            self._pending = self.quota_reached = EndReason("quota", message, event.resets_at)

    def _on_retry(self, event: RequestRetried) -> None:
        """A quota that is used up does not refuse requests by itself: more may be allowed, and paid for."""
        resets_at = self.resets_at or (event.at + event.delay_ms / 1000 if event.delay_ms is not None else None)
        if event.status == _TOO_MANY_REQUESTS and resets_at is not None:
            self._on_refusal(event.at, resets_at)

    def _on_refusal(self, at: float, resets_at: float) -> None:
        """The provider refused a request until then. The agent would wait, or retry all the time."""
        self.resets_at = resets_at
        if resets_at - at > LEFT_TO_AGENT_S:
            self._end(EndReason("usage_limit", "the provider's usage limit was reached", resets_at))


class _RunningTool(NamedTuple):
    name: str
    since: float
    parent: str | None


def _difference(now: int | None, before: int | None) -> int | None:
    return None if now is None else max(0, now - (before or 0))


def _time(seconds: float) -> str:
    return format_duration(seconds * 1000)
