"""Virtual keys, each valid only during one trial, and unrelated to the real key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from hmac import compare_digest
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from youbencha.gateway.access import GatewayAccess, Provider
from youbencha.gateway.budget import Account
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.cassette import CassetteSession
from youbencha.gateway.cassette.matching import Places
from youbencha.gateway.cassette.mismatch import Mismatch
from youbencha.gateway.circuit import Circuit
from youbencha.gateway.heads import RequestHeads
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.refusals import Reason, Refusal
from youbencha.gateway.witness import Witness
from youbencha.store.bundle import GatewayReport
from youbencha.usage import Tokens, add_all

PROVIDER_IS_BUSY = frozenset({429, 529})


class ModelTotals(NamedTuple):
    """Sums over the calls to a model."""

    requests: int = 0
    tokens: Tokens = Tokens()
    cost_usd: Decimal | None = None
    unpriced: int = 0
    """Answers with tokens whose price is unknown."""
    partial: bool = False

    def plus(self, call: Call) -> ModelTotals:
        counted = call.tokens != Tokens()
        known = [cost for cost in (self.cost_usd, call.cost_usd) if cost is not None]
        return ModelTotals(
            requests=self.requests + 1,
            tokens=add_all((self.tokens, call.tokens)),
            cost_usd=sum(known, Decimal(0)) if known else None,
            unpriced=self.unpriced + (counted and call.cost_usd is None),
            partial=self.partial or call.partial,
        )


class KeyTotals:
    """Sums over the calls of a key."""

    def __init__(self) -> None:
        self.total = ModelTotals()
        """Sums over the calls that request an answer of a model."""
        self.models: dict[str, ModelTotals] = {}
        self.paid_usd: Decimal | None = Decimal(0)
        """The cost of what was not replayed; None if a price is missing."""
        self.requests = 0
        self.failed = 0
        self.rate_limited = 0
        self.refused = 0
        self.refusal: str | None = None
        """The message of the first refusal because of a budget."""
        self.refused_by: str | None = None
        """The account of that budget."""
        self.circuit_refusals = 0
        self.no_price: str | None = None
        """The message of the first refusal because of an unknown price."""
        self.replayed = 0
        self.unmatched = 0
        self.provider_wait_s = 0.0
        self._waiting_since: float | None = None
        self._waited_until = 0.0

    def arrived(self, now: float) -> None:
        """Note a request, which ends a wait that the provider asked for."""
        if self._waiting_since is not None:
            self._waited(self._waiting_since, now)
            self._waiting_since = None

    def note_refusal(self, refusal: Refusal) -> None:
        """Keep the message of a refusal, which `Call` does not have."""
        if refusal.reason in ("budget_exceeded", "call_over_cap"):
            if self.refusal is None:
                self.refusal, self.refused_by = refusal.message, refusal.account
        elif refusal.reason in ("price_unknown", "not_metered"):
            self.no_price = self.no_price or refusal.message

    def ended(self, call: Call, now: float) -> None:
        self.requests += 1
        self.failed += call.error is not None
        self.replayed += call.replayed
        if call.upstream_status in PROVIDER_IS_BUSY:
            self.rate_limited += 1
            self._waiting_since = now
        if call.dispatched and call.first_byte_ms is None and call.upstream_status is None:
            self._waited(now - call.duration_ms / 1000, now)
        if call.billed and (call.partial or (call.status is not None and call.status < 300)):
            self.total = self.total.plus(call)
            if not call.replayed and self.paid_usd is not None:
                self.paid_usd = None if call.cost_usd is None else self.paid_usd + call.cost_usd
            name = call.model or "unknown"
            self.models[name] = self.models.get(name, ModelTotals()).plus(call)
        match call.error:
            case "budget_exceeded" | "call_over_cap":
                self.refused += 1
            case "circuit_open":
                self.circuit_refusals += 1
            case "not_recorded":
                self.unmatched += 1
            case _:
                pass

    def _waited(self, since: float, until: float) -> None:
        """Add a wait. Waits of several calls at the same time count once."""
        self.provider_wait_s += max(0.0, until - max(since, self._waited_until))
        self._waited_until = max(self._waited_until, until)


MAX_BODY_BYTES = 256 * 1024 * 1024
"""The limit in memory for one key, because the sandbox's limits do not apply here. A prompt of a million characters,
sent forty times at once, is a sixth of it."""

MAX_CONNECTIONS = 512
"""The limit at one socket of a sandbox, and without a valid key. Each uses a file descriptor of the harness."""

KEY_WITHIN_S = 30.0
"""Within which a connection must have sent a valid key."""


class BodyMemoryError(Exception):
    """A key has too many bytes of requests in memory."""


class BodyMemory:
    """Counts the bytes of requests that have arrived and are not sent yet."""

    def __init__(self, max_bytes: int = MAX_BODY_BYTES) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes

    def take(self, size: int) -> None:
        if self.bytes + size > self._max_bytes:
            raise BodyMemoryError
        self.bytes += size

    def give_back(self, size: int) -> None:
        self.bytes -= size


PREFIX = "sk-yb-"
"""Identifies a key found in a log as a virtual one, which is useless."""


class KeyScope(NamedTuple):
    """What a key may be used for."""

    provider: Provider | None
    """None for every provider."""
    models: tuple[str, ...] = ()
    """Patterns of the models' names; empty for all of the provider."""

    def allows(self, provider: Provider, model: str | None) -> bool:
        named = not self.models or model is None or any(fnmatchcase(model.lower(), pattern) for pattern in self.models)
        return self.provider in (None, provider) and named


@dataclass(kw_only=True, eq=False)
class VirtualKey:
    """A virtual key with its permissions and totals."""

    labels: Labels
    account: Account
    on_call: Callable[[Call], None] | None = None
    """Called with every call when it has ended."""
    peers: frozenset[str] | None = None
    """The client addresses or Unix sockets that it is valid for; None for all."""
    scope: KeyScope | None = None
    totals: KeyTotals = field(default_factory=KeyTotals)
    witness: Witness = field(default_factory=Witness)
    memory: BodyMemory = field(default_factory=BodyMemory)
    circuits: dict[Provider, Circuit] = field(default_factory=dict)
    """Its own, so that a client that causes failures does not affect others."""
    ledger: Ledger
    """Where its calls are written."""
    cassette: CassetteSession | None = None
    heads: RequestHeads | None = None
    """What its requests ask for. None: nobody wants to know."""
    mismatches: list[Mismatch] = field(default_factory=list)
    """For each request that a replay had no answer to: how it differs from what was recorded at that point."""
    busy: set[asyncio.Task[object]] = field(default_factory=set)
    """Handlers of requests in progress, which end with the key."""


class InvalidKey(NamedTuple):
    """The invalid key of a request."""

    reason: Reason
    name: str
    """The name of the key, for the ledger."""
    ledger: Ledger | None = None
    """The ledger of the trial that it was issued for, if so."""


class VirtualKeys:
    """All keys that a gateway has issued. Revoked ones are kept until `forget`, so that their use can be reported."""

    def __init__(self) -> None:
        self.refused = 0
        """The number of requests without a valid key."""
        self._valid: dict[str, VirtualKey] = {}
        self._ended: dict[str, VirtualKey] = {}

    def issue(self, issued: VirtualKey) -> str:
        key = PREFIX + secrets.token_hex(24)
        self._valid[key] = issued
        return key

    def find(self, key: str | None, peer: str | None) -> VirtualKey | None:
        """Return the key, if it is valid and may be used by `peer`."""
        valid = self._valid.get(key) if key else None
        if valid is None or (valid.peers is not None and peer not in valid.peers):
            return None
        return valid

    def explain(self, key: str | None) -> InvalidKey:
        """Return what is wrong with a key that `find` does not find."""
        if not key:
            return InvalidKey("key_missing", "(none)")
        if ended := self._ended.get(key):
            return InvalidKey("key_expired", ended.labels.key, ended.ledger)
        if foreign := self._valid.get(key):
            return InvalidKey("key_foreign", foreign.labels.key, foreign.ledger)
        return InvalidKey("key_unknown", "(unknown)")

    def end(self, key: str) -> VirtualKey | None:
        """Revoke a key, and cut off its requests in progress."""
        ended = self._valid.pop(key, None)
        if ended is None:
            return None
        self._ended[key] = ended
        for task in tuple(ended.busy):
            task.cancel()
        return ended

    def forget(self, key: str) -> VirtualKey | None:
        return self._ended.pop(key, None)

    def valid(self) -> Iterator[VirtualKey]:
        return iter(self._valid.values())

    def end_all(self) -> None:
        for key in tuple(self._valid):
            self.end(key)


# The keys of a trial: the gateway is in this process, or in that of a driver on another machine.

KeyRole = Literal["agent", "evaluator"]
"""Decides the caps and the scope of a key, and which account pays for it."""


class KeyWarning(NamedTuple):
    """A warning about the keys of a trial, for its results."""

    code: str
    message: str


class EndedKey(NamedTuple):
    """What a key was used for."""

    report: GatewayReport
    total_exceeded: bool
    """Whether its requests and the run's total budget are beyond a cap."""
    mismatches: tuple[Mismatch, ...] = ()
    """For each request that a replay had no answer to: how it differs from what was recorded at that point."""
    cassette_doubts: str | None = None
    """Why a replay of what was recorded may fail."""


class TrialKeys(Protocol):
    """The keys of one trial. Their caps, scope and ledger are decided where the gateway is."""

    stop: asyncio.Event
    """Set when the agent cannot continue: its requests are refused for good, or the gateway is gone."""

    async def issue(
        self, role: KeyRole, name: str, *, places: Places | None = None, peers: frozenset[str] | None = None
    ) -> GatewayAccess:
        """Issue a key. `name` is that of its user, in the ledger.

        An agent has one key at a time; its next one begins a new session. `places` are the directories whose
        names differ from trial to trial, `peers` the sockets that it is valid at, if the gateway is in this process.
        """
        ...

    async def end(self, key: str) -> EndedKey:
        """Revoke a key, and wait until its requests are in the ledger. May be called again.

        Raises YouBenchaError if the gateway has failed: nothing was measured then.
        """
        ...

    async def listen_on(self, socket: Path) -> None:
        """Let a sandbox reach the gateway at a Unix socket."""
        ...

    async def close(self) -> list[KeyWarning]:
        """End what belongs to the trial, and return warnings."""
        ...


class LentKeys(TrialKeys, Protocol):
    """Keys of a trial that runs on another machine."""

    @property
    def agent_is_busy(self) -> bool:
        """Whether a request of the agent is in progress."""
        ...


_TOKEN_PREFIX = "sk-yb-ticket-"  # noqa: S105 - only its beginning, so that it is masked wherever it is written


class Tickets:
    """The valid tokens, each for the keys of one trial on another machine."""

    def __init__(self) -> None:
        self._valid: dict[str, LentKeys] = {}

    @contextmanager
    def lending(self, keys: LentKeys) -> Iterator[str]:
        """Give a token that is valid until the end of the block."""
        token = _TOKEN_PREFIX + secrets.token_hex(32)
        self._valid[token] = keys
        try:
            yield token
        finally:
            del self._valid[token]

    def find(self, token: str) -> LentKeys | None:
        presented = token.encode("utf-8", "surrogateescape")
        return next((keys for valid, keys in self._valid.items() if compare_digest(valid.encode(), presented)), None)
