"""Decide from the calls of a key whether the provider is to blame if its agent does not succeed. No I/O.

The gateway is a witness that the agent does not control, unlike what the agent's CLI prints. The rule is the same for
all agents: if every call since the last answer failed, was cut off or still waits, it is the provider's fault, whatever
the kind of failure. Answers that a request deserves, such as 404 for an unknown model or 413, are answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from youbencha.gateway.call import Call
from youbencha.text import plural


class Fate(Enum):
    """The outcome of a call, as evidence about the provider."""

    ANSWERED = "answered"
    """Answered in full, even if only with an error about the request; or the client left in the middle of an answer."""
    FAILED = "failed"
    SILENT = "silent"
    """The client left, or was ended, after it had waited in vain for the next byte."""
    UNKNOWN = "unknown"
    """The gateway refused it, or its client left at once."""


_FAULTS = {
    "rate_limited": "a rate limit",
    "provider_failed": "an error",
    "provider_refused": "a refusal",
    "upstream_gone": "cut off",
    "upstream_unreachable": "unreachable",
    "ended_early": "ended early",
    "no_credit": "no credit",
    "circuit_open": "not sent after failures in a row",
    "gateway_failed": "an error of the gateway",
}
"""How the provider fails, by the error of a call."""

_OF_THE_ACCOUNT = frozenset({401, 402, 403, 408})
"""Refusals by the provider that no request deserves: the key is the gateway's."""

_DESERVED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "context_length_exceeded",
        "invalid_prompt",
        "invalid_request_error",
        "request_too_large",
        "string_above_max_length",
    }
)
"""Errors within an answer that has begun with status 200 which are the request's fault."""

_OF_THE_REQUEST = frozenset({"provider_failed", "upstream_gone", "ended_early"})
"""Failures that an odd request may cause, unlike rate limits and overload."""
_BUSY = frozenset({503, 529})

_CLIENT_LEFT = frozenset({"client_gone", "key_ended"})

_NORMAL_WAIT_MS = 2_000
"""A wait that says nothing about the provider; also up to twice the longest one before an answer."""
_HANG_MS = 60_000
"""After this time without a byte, the provider has failed even if the client did not wait any longer."""

_MAX_KEPT = 1_000
"""The number of failures and requests that are kept of one key, whatever its agent does."""


def judge_fate(call: Call, normal_wait_ms: float = _NORMAL_WAIT_MS) -> Fate:
    """Classify a call that has ended."""
    if not call.billed:
        return Fate.UNKNOWN
    if call.error in _CLIENT_LEFT:
        return _fate_without_client(call, normal_wait_ms)
    if call.error == "provider_refused":
        return Fate.FAILED if call.status in _OF_THE_ACCOUNT else Fate.ANSWERED
    if call.error == "ended_early" and call.finished:
        return Fate.ANSWERED  # clients accept that: of a chat completion, only `[DONE]` or the usage is missing
    if call.error in _FAULTS:
        return Fate.FAILED
    if call.status is None or (call.upstream_status is None and not call.replayed):
        return Fate.UNKNOWN
    if call.status >= 300:  # a redirect, which is not followed
        return Fate.FAILED
    return Fate.ANSWERED if call.error is None or call.error in _DESERVED else Fate.FAILED


def _fate_without_client(call: Call, normal_wait_ms: float) -> Fate:
    if not call.dispatched:
        return Fate.UNKNOWN
    if call.silent_ms > normal_wait_ms:
        return Fate.SILENT
    return Fate.UNKNOWN if call.first_byte_ms is None else Fate.ANSWERED


class ProviderRecord(NamedTuple):
    """What the calls of a key say about the provider."""

    answered: int = 0
    failure: str | None = None
    """How the calls since the last answer failed; None if there are none, or not all failed."""
    silent_ms: int | None = None
    """How long calls since the last answer waited in vain; None if none waited for unusually long."""
    in_tool: bool = False
    """The last answer called a tool, so the agent had not finished."""


class _Failure(NamedTuple):
    at: float
    """When the call arrived."""
    kind: str
    request: int | None
    """Identifies the request, if it may have caused the failure."""


class _Calls:
    """The calls that count, and what they say so far."""

    def __init__(self) -> None:
        self.answered = 0
        self._last_answered_at = float("-inf")
        self._longest_wait_ms = 0.0
        self._in_tool = False
        self._failures: list[_Failure] = []
        self._silences: list[tuple[float, float]] = []
        self._guilty: set[int] = set()
        """Requests that failed before others, which were sent later, were answered."""

    def ended(self, call: Call) -> None:
        match judge_fate(call, max(_NORMAL_WAIT_MS, 2 * self._longest_wait_ms)):
            case Fate.ANSWERED:
                self._on_answer(call)
            case Fate.FAILED:
                self._on_failure(_Failure(call.at, _failure_kind(call), _culprit(call)))
            case Fate.SILENT if call.silent_ms >= _HANG_MS:
                self._on_failure(_Failure(call.at, "no answer", None))
            case Fate.SILENT:
                self._silences = [*self._silences, (call.at, call.silent_ms)][-_MAX_KEPT:]

    def record(self) -> ProviderRecord:
        kinds = Counter(failure.kind for failure in self._failures)
        silent_ms = round(max((waited for _, waited in self._silences), default=0)) or None
        if not kinds:
            return ProviderRecord(self.answered, None, silent_ms, self._in_tool)
        listed = ", ".join(f"{kind} ({times}x)" if times > 1 else kind for kind, times in kinds.items())
        since = "since the last answer" if self.answered else "without an answer"
        calls = plural(kinds.total(), "call")
        return ProviderRecord(
            self.answered, f"the provider failed: {calls} {since}: {listed}", silent_ms, self._in_tool
        )

    def _on_answer(self, call: Call) -> None:
        """Calls that arrived before this one are no longer the last ones, even if they ended later."""
        self.answered += 1
        if call.first_byte_ms is not None:
            self._longest_wait_ms = max(self._longest_wait_ms, call.first_byte_ms)
        if call.at < self._last_answered_at:
            return
        self._last_answered_at = call.at
        self._in_tool = call.calls_tool
        failed = {failure.request for failure in self._failures if failure.at < call.at}
        if len(self._guilty) < _MAX_KEPT:
            self._guilty |= {request for request in failed if request is not None and request != call.request}
        self._failures = [failure for failure in self._failures if failure.at >= call.at]
        self._silences = [silence for silence in self._silences if silence[0] >= call.at]

    def _on_failure(self, failure: _Failure) -> None:
        if failure.at >= self._last_answered_at and failure.request not in self._guilty:
            self._failures = [*self._failures, failure][-_MAX_KEPT:]


class Witness:
    """Follows the calls of a key.

    If the agent's model is known and used, only its calls count. Otherwise an agent could blame the provider by asking
    for a model that fails, while its own one answers. For the same reason, of all names that an alias may stand for,
    only the first that is requested counts: the CLI requests it before the agent can do anything.

    If some of these calls offer tools, only they count: the others are side requests, such as for a title. Claude Code
    1.0.60 to 2.0.62 send some at the same time, and their answers say nothing about the agent's work.
    """

    def __init__(self, model: str | None = None, resolved: Sequence[str] = ()) -> None:
        """`model`: as configured. `resolved`: if it is an alias, patterns of the names that it may stand for."""
        self._configured = model
        self._patterns = [] if model is None else [_base_name(name) for name in (model, *resolved)]
        self._own_name: str | None = None
        self._calls: dict[tuple[bool, bool], _Calls] = {(False, False): _Calls()}
        """Counts by two flags: only calls to the own model, and only calls with tools."""
        self._works = False
        self._unusable: str | None = None

    def ended(self, call: Call) -> None:
        own = call.billed and self._is_own(call.requested_model or "")
        for group in product({False, own}, {False, call.billed and call.offers_tools}):
            self._calls.setdefault(group, _Calls()).ended(call)
        if not own:
            return
        if call.status is not None and call.status < 300:
            self._works = True
        elif call.upstream_status == 404:
            self._unusable = f"The provider does not know the model {self._described(call)} (404)."
        elif call.error == "price_unknown":
            self._unusable = f"There is a budget in dollars, and the price of {self._described(call)} is not known."

    def record(self) -> ProviderRecord:
        return self._calls[max(self._calls)].record()

    def unusable_model(self) -> str | None:
        """Why no agent can use the configured model, if calls were rejected because of it and none was answered."""
        return None if self._works else self._unusable

    def _is_own(self, requested: str) -> bool:
        name = _base_name(requested)
        if self._own_name is None and any(fnmatchcase(name, pattern) for pattern in self._patterns):
            self._own_name = name
        return name == self._own_name

    def _described(self, call: Call) -> str:
        """The model of a call, and its alias if it has one."""
        is_alias = len(self._patterns) > 1
        return (
            f"{call.requested_model}, which `{self._configured}` stands for" if is_alias else f"{call.requested_model}"
        )


def _base_name(model: str) -> str:
    """A model's name without its provider and its variant: `anthropic/claude-x[1m]`."""
    return model.rpartition("/")[2].partition("[")[0].lower()


def _failure_kind(call: Call) -> str:
    status = call.upstream_status
    return str(status) if status and status >= 300 else _FAULTS.get(call.error or "", call.error or "failed")


def _culprit(call: Call) -> int | None:
    busy = call.upstream_status in _BUSY
    return call.request if call.error in _OF_THE_REQUEST and not busy else None
