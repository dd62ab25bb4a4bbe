"""What `/metrics` tells Prometheus. The names of keys are labels, the keys are not."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import accumulate

from youbencha.gateway.circuit import Circuit
from youbencha.gateway.model import Call
from youbencha.gateway.routes import Provider

_MOST_SERIES = 2000
"""Models are named by clients, who could invent a new one with every request."""
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Series = tuple[tuple[str, str], ...]


class Metrics:
    """Counts calls as they end."""

    def __init__(self) -> None:
        self._requests: Counter[Series] = Counter()
        self._tokens: Counter[Series] = Counter()
        self._cost: dict[Series, Decimal] = {}
        self._partial: Counter[Series] = Counter()
        self._durations = [0] * (len(_BUCKETS_S) + 1)
        """How many are in each bucket, and in none before it; beyond all of them at the end."""
        self._duration_sum = 0.0
        self._calls = 0

    def count(self, call: Call) -> None:
        whose = (("key", call.labels.key), ("model", self._model(call)))
        self._requests[*whose, ("status", str(call.status or "none")), ("error", call.error or "")] += 1
        kinds = zip(("input", "output", "cache_read", "cache_creation"), call.tokens, strict=True)
        for kind, count in kinds:
            if count:
                self._tokens[*whose, ("kind", kind)] += count
        if call.cost_usd is not None:
            self._cost[whose] = self._cost.get(whose, Decimal(0)) + call.cost_usd
        self._partial[whose[:1]] += call.partial
        self._calls += 1
        seconds = call.duration_ms / 1000
        self._duration_sum += seconds
        self._durations[bisect_left(_BUCKETS_S, seconds)] += 1

    def text(self, *, in_flight: int, refused_keys: int, circuits: Mapping[tuple[Provider, str], Circuit]) -> str:
        """In the text format of Prometheus."""
        lines = [
            *_family("youbencha_gateway_requests_total", "counter", "Requests that have ended.", self._requests),
            *_family("youbencha_gateway_tokens_total", "counter", "Tokens, as the wire said.", self._tokens),
            *_family("youbencha_gateway_cost_usd_total", "counter", "Cost of what has a known price.", self._cost),
            *_family("youbencha_gateway_partial_total", "counter", "Answers that were cut off.", self._partial),
            *self._histogram(),
            *_family("youbencha_gateway_refused_keys_total", "counter", "Requests turned away.", {(): refused_keys}),
            *_family("youbencha_gateway_in_flight", "gauge", "Requests under way.", {(): in_flight}),
            *_family(
                "youbencha_gateway_circuit_open",
                "gauge",
                "1 while a provider that failed is left alone.",
                {
                    (("provider", provider), ("key", key)): int(circuit.is_open)
                    for (provider, key), circuit in circuits.items()
                },
            ),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> Iterator[str]:
        name = "youbencha_gateway_duration_seconds"
        yield f"# HELP {name} From a request's arrival to its end."
        yield f"# TYPE {name} histogram"
        for bound, count in zip(_BUCKETS_S, accumulate(self._durations), strict=False):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self._calls}'
        yield f"{name}_sum {self._duration_sum:.6f}"
        yield f"{name}_count {self._calls}"

    def _model(self, call: Call) -> str:
        return "other" if len(self._requests) > _MOST_SERIES else call.model or ""


def _family(name: str, kind: str, says: str, series: Mapping[Series, int | Decimal]) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"
    for labels, value in series.items():
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
