"""Metrics for Prometheus. The names of keys are labels, the keys themselves are not. Needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from youbencha.gateway.call import Call
from youbencha.gateway.keys import VirtualKey

MAX_MODELS = 500
"""Clients choose the names of models, and could use a new one with every request. The rest is counted together."""

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counts calls as they end."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        prefix, by_model = "youbencha_gateway_", ("key", "model")
        self._requests = Counter(
            f"{prefix}requests", "Requests that have ended.", (*by_model, "status", "error"), registry=registry
        )
        self._tokens = Counter(
            f"{prefix}tokens", "Tokens, as reported by the providers.", (*by_model, "kind"), registry=registry
        )
        self._cost = Counter(
            f"{prefix}cost_usd", "Cost of the requests with a known price.", by_model, registry=registry
        )
        self._partial = Counter(f"{prefix}partial", "Answers that were cut off.", ("key",), registry=registry)
        self._duration = Histogram(
            f"{prefix}duration_seconds",
            "Time from the arrival of a request to its end.",
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._in_flight = Gauge(f"{prefix}in_flight", "Requests in progress.", registry=registry)
        self._circuits = Gauge(
            f"{prefix}circuit_open",
            "1 while requests to a failing provider are held back.",
            ("provider", "key"),
            registry=registry,
        )
        self._models: set[str] = set()

    def count(self, call: Call) -> None:
        key, model = call.labels.key, self._model(call.model or "")
        self._requests.labels(key, model, str(call.status or "none"), call.error or "").inc()
        for kind, count in call.tokens._asdict().items():
            if count:
                self._tokens.labels(key, model, kind).inc(count)
        if call.cost_usd is not None:
            self._cost.labels(key, model).inc(float(call.cost_usd))
        self._partial.labels(key).inc(call.partial)
        self._duration.observe(call.duration_ms / 1000)

    def page(self, in_flight: int, keys: Iterable[VirtualKey]) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        self._in_flight.set(in_flight)
        self._circuits.clear()
        for key in keys:
            for provider, circuit in key.circuits.items():
                self._circuits.labels(provider, key.labels.key).set(circuit.is_open)
        return generate_latest(self._registry)

    def _model(self, name: str) -> str:
        if len(self._models) < MAX_MODELS:
            self._models.add(name)
        return name if name in self._models else "other"
