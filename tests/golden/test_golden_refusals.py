"""The gateway's own error replies, byte for byte, in the form of each API: the agents' CLIs decide by them."""

from __future__ import annotations

import json
from typing import Any

from golden_files import KEYS, Golden, GoldenBench, Reply, Request, Sending, Served, ask, serving, tidy
from golden_upstream import APIS, HANG_UP, Answer, Api, Asked, Upstream, as_json

MOST_BYTES = 64 * 1024 * 1024
MOST_PARTS = 3_000_000
FAILURES_IN_A_ROW = 6


def provider(asked: Asked) -> Answer:
    match asked.case:
        case "hang up":
            return HANG_UP
        case "401":
            return Answer([b'{"error": "bad key"}'], status=401)
        case "429" | "529":
            return Answer([b'{"error": "slow down"}'], status=int(asked.case), headers={"retry-after": "7"})
    return as_json({})


class Refusals:
    def __init__(self) -> None:
        self._replies: dict[tuple[str, str], Reply] = {}

    def note(self, name: str, api: Api | None, reply: Reply) -> None:
        assert reply.status >= 400, (name, reply)
        self._replies[name, api.name if api else "no API"] = reply

    def text(self) -> str:
        sections = [f"## {name} · {api}\n{reply.text()}\n" for (name, api), reply in sorted(self._replies.items())]
        return tidy("\n".join(sections))


def test_refusals(golden: Golden, bench: GoldenBench) -> None:
    refusals = Refusals()
    cassette = bench.root / "cassette"
    keys = ["--key", "poor=0", "--price", "*-golden=1/1"]
    for api in APIS:
        keys += ["--key", api.name]  # a circuit is one key's
    anthropic, *_, gemini = APIS
    with Upstream(provider) as upstream:
        two = ("--upstream", f"anthropic={upstream.url}", "--upstream", f"openai={upstream.url}")
        with serving("gateway", *two, *keys, **KEYS) as served:
            for api in APIS[:3]:
                of_any_gateway(served, api, refusals)
            large = b" " * (MOST_BYTES + 1)
            key = anthropic.key(served.ready["keys"][anthropic.name])
            refusals.note("request too large", anthropic, ask(served.url, "POST", anthropic.path, large, key))
            refusals.note("unknown path", None, ask(served.url, "POST", "/v1/embeddings", b"{}", key))
            refusals.note("no upstream", gemini, send(served, gemini))
        other = ("--record", str(cassette), "--upstream", f"gemini={upstream.url}")
        with serving("gateway", *other, *keys, **KEYS) as served:
            assert send(served, gemini).status == 200  # a replay needs something recorded
            of_any_gateway(served, gemini, refusals)
            for api in APIS[:3]:
                refusals.note("no upstream", api, send(served, api))
        with serving("gateway", "--replay", str(cassette)) as served:
            for api in APIS:
                refusals.note("not recorded", api, send(served, api, key="default", model="claude-golden"))
        of_a_trial(bench, upstream, refusals)
    golden.check("refusals.txt", refusals.text())


def of_any_gateway(served: Served, api: Api, refusals: Refusals) -> None:
    """What `yb gateway` replies: key, budget, body, upstream."""
    path, body = api.request()
    refusals.note("no key", api, ask(served.url, "POST", path, body, {}))
    refusals.note("unknown key", api, ask(served.url, "POST", path, body, api.key("sk-yb-forged")))
    refusals.note("budget spent", api, send(served, api, key="poor"))
    refusals.note("price unknown", api, send(served, api, key="poor", model="unlisted"))
    key = api.key(served.ready["keys"][api.name])
    refusals.note("too many parts", api, ask(served.url, "POST", path, b"[" * (MOST_PARTS + 1), key))
    packed = ask(served.url, "POST", path, b"not gzip", {**key, "content-encoding": "gzip"})
    refusals.note("unreadable", api, packed)
    for case in ("401", "429", "529"):
        refusals.note(f"upstream says {case}", api, send(served, api, case=case))
    for _ in range(FAILURES_IN_A_ROW):
        refusals.note("upstream unreachable", api, send(served, api, case="hang up"))
    refusals.note("circuit open", api, send(served, api))


def send(served: Served, api: Api, *, key: str | None = None, case: str = "", model: str | None = None) -> Reply:
    path, body = api.request(model=model)
    return ask(served.url, "POST", path, body, {"x-case": case, **api.key(served.ready["keys"][key or api.name])})


# -- what only a trial can show ----------------------------------------------------------------------------------------


def of_a_trial(bench: GoldenBench, upstream: Upstream, refusals: Refusals) -> None:
    """A cap on each call, LiteLLM as the upstream, and a key that is used after its agent has ended."""
    bench.setenv(**KEYS, LITELLM_MASTER_KEY="sk-golden-litellm")
    bench.make_repository({"README.md": "# Shop\n"})
    sending = Sending(bench.root)
    litellm = {"type": "litellm", "litellm": {"url": upstream.url}}
    for apis in (APIS[:2], APIS[2:]):  # an agent is ended at its fourth such refusal
        orders = sending.agent([request(api, num_retries=3) for api in apis])
        bench.run(agent=orders, gateway=litellm, evaluators=[sending.evaluator()])
        for api, reply, late in zip(apis, sending.replies(), sending.replies(late=True), strict=True):
            refusals.note("not metered", api, reply)
            refusals.note("key expired", api, late)
    for apis in (APIS[:2], APIS[2:]):
        bench.run(
            agent=sending.agent([request(api) for api in apis]), gateway={"type": "builtin", "tokens_per_call": 50}
        )
        for api, reply in zip(apis, sending.replies(), strict=True):
            refusals.note("call too large for its cap", api, reply)


def request(api: Api, **more: Any) -> Request:
    path, body = api.request()
    return "POST", path, api.key("@key@"), json.dumps({**json.loads(body), **more})
