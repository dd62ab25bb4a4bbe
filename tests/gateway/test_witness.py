"""Who is to blame, from the calls that a gateway saw: one rule for all agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from youbencha.gateway.call import Call, Labels
from youbencha.gateway.circuit import Circuit
from youbencha.gateway.witness import Fate, ProviderRecord, Witness, judge_fate
from youbencha.usage import Tokens

OWN = "claude-opus-4-5"


def call(**changes: Any) -> Call:
    made = Call(
        id="1",
        at=0.0,
        labels=Labels("trial"),
        method="POST",
        path="/v1/messages",
        wire="anthropic-messages",
        requested_model=OWN,
        model=OWN,
        status=200,
        tokens=Tokens(),
        cost_usd=None,
        partial=False,
        upstream_status=200,
        first_byte_ms=100.0,
        dispatched=True,
        request=1,
    )
    return made._replace(**changes)


def failing(status: int, **changes: Any) -> Call:
    error = "rate_limited" if status in (429, 529) else "provider_failed" if status >= 500 else "provider_refused"
    return call(status=status, upstream_status=status, error=error, first_byte_ms=None, **changes)


def refused(error: str) -> Call:
    return call(status=400, upstream_status=None, error=error, dispatched=False, first_byte_ms=None)


def left(silent_ms: float, first_byte_ms: float | None = None, **changes: Any) -> Call:
    """The client left, or was ended at its deadline."""
    upstream = None if first_byte_ms is None else 200
    fields = {"status": None, "upstream_status": upstream, "error": "client_gone", "silent_ms": silent_ms}
    return call(**{**fields, "first_byte_ms": first_byte_ms, **changes})


OK = call(request=0)

FATES = [
    (OK, Fate.ANSWERED),
    *[(failing(status), Fate.FAILED) for status in (401, 402, 403, 408, 429, 500, 502, 503, 504, 529)],
    *[(failing(status), Fate.ANSWERED) for status in (400, 404, 413, 422)],
    *[
        (refused(error), Fate.UNKNOWN)
        for error in ("not_allowed", "not_metered", "price_unknown", "budget_exceeded", "too_large", "not_found")
    ],
    *[(call(error=error), Fate.FAILED) for error in ("upstream_gone", "ended_early", "overloaded_error", "api_error")],
    (call(error="ended_early", finished=True), Fate.ANSWERED),
    (call(error="context_length_exceeded"), Fate.ANSWERED),
    (call(status=502, upstream_status=None, error="upstream_unreachable"), Fate.FAILED),
    (call(status=503, upstream_status=None, error="circuit_open"), Fate.FAILED),
    (call(status=400, error="no_credit"), Fate.FAILED),
    (call(status=307, upstream_status=307), Fate.FAILED),
    (left(5_000), Fate.SILENT),
    (left(5_000, first_byte_ms=10), Fate.SILENT),
    (left(500), Fate.UNKNOWN),
    (left(500, first_byte_ms=10), Fate.ANSWERED),
    (left(5_000, dispatched=False), Fate.UNKNOWN),
    (failing(500, billed=False), Fate.UNKNOWN),
]


@pytest.mark.parametrize(("ended", "fate"), FATES)
def test_the_fate_of_a_call(ended: Call, fate: Fate) -> None:
    assert judge_fate(ended) is fate


def record_of(calls: Iterable[Call], model: str | None = None) -> ProviderRecord:
    """Of calls that arrive one after the other."""
    witness = Witness(model)
    for at, each in enumerate(calls, start=1):
        witness.ended(each._replace(at=float(at)))
    return witness.record()


ODD = failing(500, request=7)
SONNET = "claude-sonnet-5-5"
HAIKU = "claude-haiku-4-5"

BLAMED = {
    "nothing but failures": [failing(500)] * 3,
    "different failures": [failing(429), failing(500), call(error="upstream_gone")],
    "failures since the last answer": [OK, OK, failing(529), failing(529)],
    "the same request, when nothing else succeeds": [OK, *[ODD] * 8],
    "a request that failed before, for want of capacity": [failing(529, request=7), OK, failing(529, request=7)],
    "a failure, then a refusal by the gateway": [OK, failing(500), refused("not_allowed")],
    "a client that did not wait any longer": [OK, left(61_000)],
    "a retry cut off by the deadline": [OK, failing(529), left(100)],
}
NOT_BLAMED = {
    "no call": [],
    "an answer": [OK],
    "an answer in the end": [failing(500), failing(500), OK],
    "a deserved answer in the end": [failing(500), failing(413)],
    "only refusals by the gateway": [OK, *[refused("not_allowed")] * 4],
    "a request that fails while others succeed": [ODD, OK, ODD, ODD],
    "a call right before the deadline": [OK, left(1_000)],
    "an ordinary wait": [call(first_byte_ms=20_000), left(30_000)],
}


@pytest.mark.parametrize("calls", BLAMED.values(), ids=list(BLAMED))
def test_the_provider_is_to_blame(calls: list[Call]) -> None:
    assert record_of(calls).failure


@pytest.mark.parametrize("calls", NOT_BLAMED.values(), ids=list(NOT_BLAMED))
def test_the_provider_is_not_to_blame(calls: list[Call]) -> None:
    found = record_of(calls)
    assert (found.failure, found.silent_ms) == (None, None)


def test_a_call_that_still_waits() -> None:
    assert record_of([OK, left(9_000)]) == ProviderRecord(1, None, 9_000)


def test_an_answer_that_began_before_the_failures_does_not_excuse_them() -> None:
    """Answers take minutes: one of a subagent may end after the provider has begun to fail."""
    witness = Witness()
    for at, each in ((2.0, failing(500)), (1.0, OK), (3.0, failing(500))):
        witness.ended(each._replace(at=at))
    assert (witness.record().failure or "").endswith("500 (2x)")


def test_a_late_answer_to_an_early_call_does_not_move_the_last_answer_back() -> None:
    witness = Witness()
    for at, each in ((3.0, OK), (1.0, OK), (2.0, failing(500))):
        witness.ended(each._replace(at=at))
    assert witness.record().failure is None


@pytest.mark.parametrize(
    ("calls", "blamed"),
    [
        ([OK, *[failing(500, requested_model=HAIKU)] * 8], False),
        ([failing(529), call(requested_model=HAIKU)], True),
        ([failing(500, requested_model=HAIKU)], True),  # it does not use the configured one
    ],
)
@pytest.mark.parametrize("configured", [OWN, f"anthropic/{OWN}[1m]"])
def test_the_agents_own_model_counts(calls: list[Call], blamed: bool, configured: str) -> None:
    assert bool(record_of(calls, configured).failure) is blamed


@pytest.mark.parametrize(
    ("calls", "blamed"),
    [
        ([failing(529, offers_tools=True), OK], True),
        ([failing(529, offers_tools=True), call(requested_model=HAIKU)], True),
        ([call(offers_tools=True), failing(529)], False),
        ([failing(529, offers_tools=True), call(offers_tools=True, request=2)], False),
        ([OK, failing(529)], True),  # an agent without tools
    ],
)
@pytest.mark.parametrize("configured", [None, OWN, "opus"])
def test_side_requests_without_tools_say_nothing(calls: list[Call], blamed: bool, configured: str | None) -> None:
    assert bool(record_of(calls, configured).failure) is blamed


@pytest.mark.parametrize(
    ("calls", "unusable"),
    [
        ([failing(404)], True),
        ([refused("price_unknown")], True),
        ([failing(404), OK], False),
        ([OK, failing(404)], False),
        ([failing(404, requested_model="no-such-model")], False),
    ],
)
def test_a_configured_model_that_cannot_be_used(calls: list[Call], unusable: bool) -> None:
    witness = Witness(OWN)
    for call in calls:
        witness.ended(call)
    assert bool(witness.unusable_model()) is unusable


@pytest.mark.parametrize(
    ("calls", "blamed", "unusable"),
    [
        ([failing(404, requested_model=SONNET)], False, True),
        ([call(requested_model=HAIKU), failing(404, requested_model=SONNET)], False, True),
        ([failing(404, requested_model="sonnet")], False, True),  # an old CLI, which does not know the alias
        ([call(requested_model=HAIKU), failing(529, requested_model=SONNET)], True, False),
        # An agent that asks for odd names after its CLI has asked for its model:
        ([call(requested_model=SONNET), failing(529, requested_model="claude-3-sonnet")], False, False),
        ([failing(529, requested_model=SONNET), failing(404, requested_model="claude-sonnet-x")], True, False),
    ],
)
def test_an_alias_stands_for_the_first_name_of_its_family(calls: list[Call], blamed: bool, unusable: bool) -> None:
    witness = Witness("sonnet[1m]", ("claude-*sonnet*",))
    for each in calls:
        witness.ended(each)
    assert bool(witness.record().failure) is blamed
    assert bool(witness.unusable_model()) is unusable


def test_odd_requests_do_not_close_the_way_for_others() -> None:
    circuit = Circuit(failures=3, open_s=30.0)
    for number in range(3):
        circuit.failed(1.0, number)
    assert circuit.wait_s(2.0, 0) > 0
    assert circuit.wait_s(2.0, 99) == 0
    circuit.failed(2.0)  # a connection that fails says that it is not the requests' fault
    assert circuit.wait_s(2.0, 99) > 0
