"""The metrics for Prometheus."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from gateway_bench import HELLO, scripted_gateway

from youbencha.gateway import metrics as metrics_module
from youbencha.gateway.budget import Account
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.circuit import Circuit
from youbencha.gateway.keys import VirtualKey
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.metrics import Metrics
from youbencha.usage import Tokens

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
_LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(text: str) -> Series:
    """The text format, strictly: each family is announced, each series is there once."""
    found: Series = {}
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name not in kinds
            kinds[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        match = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        assert match, line
        assert re.sub(r"_(bucket|sum|count)$", "", match[1]) in kinds or match[1] in kinds
        labels = match[2] or ""
        assert _LABEL.sub("", labels) == "", line
        pairs = [(name, re.sub(r"\\.", lambda e: _ESCAPES[e[0]], value)) for name, value in _LABEL.findall(labels)]
        key = (match[1], frozenset(pairs))
        assert key not in found
        found[key] = float(match[3])
    return found


def value(series: Series, name: str, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(
        number for (found, pairs), number in series.items() if found == f"youbencha_gateway_{name}" and wanted <= pairs
    )


def _call(**changes: object) -> Call:
    call = Call("1", 0.0, Labels("k"), "POST", "/", None, "m", "m", 200, Tokens(), None, False)
    return call._replace(**changes)  # type: ignore[arg-type]


async def test_calls_are_counted(tmp_path: Path) -> None:
    script = f"usage: {{input_tokens: 10, output_tokens: 4, cache_read_input_tokens: 3}}\n{HELLO}"
    async with scripted_gateway(script, tmp_path, with_metrics=True) as (bench, _):
        for _ in range(2):
            await bench.ask()
            await bench.call()
        await bench.ask(key="forged")
        await bench.call()
        answer = await bench.send("GET", "/metrics")
    series = parsed(answer.raw.decode())
    assert answer.headers["content-type"].startswith("text/plain")
    ours = {"key": "trial-1", "model": "claude-opus-4-5"}
    assert value(series, "requests_total", **ours, status="200", error="") == 2
    assert value(series, "requests_total", key="(unknown)", status="401", error="key_unknown") == 1
    assert value(series, "tokens_total", **ours, kind="input") == 20
    assert value(series, "tokens_total", **ours, kind="output") == 8
    assert value(series, "tokens_total", **ours, kind="cache_read") == 6
    assert value(series, "cost_usd_total", **ours) > 0
    assert (value(series, "duration_seconds_count"), value(series, "duration_seconds_bucket", le="+Inf")) == (3, 3)
    assert (value(series, "in_flight"), value(series, "circuit_open", provider="anthropic")) == (0, 0)
    assert bench.access.key.encode() not in answer.raw


def test_open_circuits_and_requests_in_progress() -> None:
    metrics = Metrics()
    name = 'a "quoted\\" one\nof two lines'
    metrics.count(_call(labels=Labels(name), model="m{}", tokens=Tokens(input=1), cost_usd=Decimal("0.00000001")))
    series = parsed(metrics.page(3, [_key_with_open_circuit()]).decode())
    assert value(series, "requests_total", key=name, model="m{}") == 1
    assert value(series, "cost_usd_total", key=name) == 1e-8
    assert (value(series, "in_flight"), value(series, "circuit_open", provider="openai")) == (3, 1)
    assert value(parsed(metrics.page(3, []).decode()), "circuit_open") == 0, "that key has ended"


def _key_with_open_circuit() -> VirtualKey:
    key = VirtualKey(labels=Labels("k"), account=Account("k"), ledger=Ledger(None))
    key.circuits["openai"] = circuit = Circuit(failures=1)
    circuit.failed(0.0)
    return key


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "MAX_MODELS", 10)
    metrics = Metrics()
    for number in range(100):
        metrics.count(_call(model=f"m{number}", tokens=Tokens(input=1), cost_usd=Decimal(1), partial=True))
    series = parsed(metrics.page(0, []).decode())
    assert len(series) < 100
    assert value(series, "requests_total") == value(series, "tokens_total") == value(series, "cost_usd_total") == 100
    assert value(series, "requests_total", model="other") == 90
    assert value(series, "partial_total", key="k") == 100


async def test_without_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "youbencha.gateway.metrics", None)
    async with scripted_gateway(HELLO, tmp_path, with_metrics=True) as (bench, _):
        answer = await bench.send("GET", "/metrics")
        assert (await bench.ask()).status == 200
    assert (answer.status, b"youbencha[metrics]" in answer.raw) == (501, True)
