"""The lines of the gateway's ledger, which programs of users read: fields, order and values."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from golden_files import KEYS, Golden, Served, ask, serving, tidy_fields, wait_for
from golden_upstream import APIS, Answer, Api, Asked, Upstream, as_json, as_stream

PIECES = ("hel", "lo")
PRICES = tuple(
    word
    for price in ("claude-golden*=3/15/0.3/3.75", "gpt-golden*=2/8/0.5/2", "gemini-golden*=1/4/0.25/1")
    for word in ("--price", price)
)
VARIABLE = ("at", "id", "duration_ms", "first_byte_ms")


def provider(asked: Asked) -> Answer:
    name, _, case = asked.case.partition(" ")
    api = next(each for each in APIS if each.name == name)
    model = f"{'unlisted' if case == 'unlisted' else api.model}-0115"
    events = api.events(model, PIECES)
    match case:
        case "json" | "unlisted":
            return as_json(api.whole(model, "hello"))
        case "stream":
            return as_stream(events)
        case "cut":
            return as_stream(events[: len(events) // 2], cut=True)
        case "held":
            return as_stream(events[:2], held=True)
        case "busy":
            return Answer([b'{"error": {"message": "slow down"}}'], status=429, headers={"retry-after": "7"})
        case "failed":
            return Answer([b'{"error": {"message": "oops"}}'], status=500)
        case "rejected":
            return Answer([b'{"error": {"message": "what?"}}'], status=400)
    return as_json({"data": [], "input_tokens": 12, "totalTokens": 12})  # counts tokens, or lists models


class Ledger:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.text = ""
        self._seen = 0

    def note(self, name: str) -> None:
        """Take the next line, under this name."""
        line = wait_for(lambda: self._line(self._seen))
        self._seen += 1
        self.text += f"# {name}\n{tidy_fields(line, *VARIABLE)}\n"

    def _line(self, number: int) -> str | None:
        *whole, _ = self.file.read_text().split("\n") if self.file.exists() else ("",)
        return whole[number] if number < len(whole) else None


def test_ledger(golden: Golden, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with Upstream(provider) as upstream:
        gateway = ["gateway", "--upstream", upstream.url, "--ledger", str(ledger.file), *PRICES]
        with serving(*gateway, "--key", "alice", "--key", "poor=0", **KEYS) as served:
            alice, poor = (served.ready["keys"][name] for name in ("alice", "poor"))
            for api in APIS:
                exchanges(served, api, alice, poor, ledger)
            others(served, alice, ledger)
            killed = begun(served, APIS[0], alice)  # under way until the next gateway opens the ledger
            served.process.kill()
            served.process.wait()
            killed.close()
        with serving(
            *gateway, "--cassette", str(tmp_path / "cassette"), "--key", "alice", "--key", "bob", **KEYS
        ) as served:
            ledger.note("anthropic-messages: gateway killed")
            for name, case in (("alice", "recorded"), ("bob", "replayed")):
                send(served, APIS[0], served.ready["keys"][name], "json")
                ledger.note(f"anthropic-messages: {case}")
            ended = begun(served, APIS[0], served.ready["keys"]["bob"])
            served.process.terminate()
            served.process.wait()
            ended.close()
            ledger.note("anthropic-messages: gateway ended")
    golden.check("ledger.jsonl", ledger.text)


def exchanges(served: Served, api: Api, alice: str, poor: str, ledger: Ledger) -> None:
    """Those that every API has."""
    for case in ("json", "stream", "cut", "busy", "failed", "rejected", "unlisted"):
        send(served, api, alice, case)
        ledger.note(f"{api.name}: {case}")
    for case, model in (("budget spent", None), ("price unknown", "unlisted")):
        send(served, api, poor, "json", model)
        ledger.note(f"{api.name}: {case}")


def others(served: Served, alice: str, ledger: Ledger) -> None:
    """Those that are the same for all APIs, or ask no model."""
    anthropic, chat, _, gemini = APIS
    count = gemini.path.replace("generateContent", "countTokens")
    for method, path, key, name in (
        ("POST", "/v1/messages/count_tokens", anthropic.key(alice), "tokens counted"),
        ("POST", count, gemini.key(alice), "tokens counted"),
        ("GET", "/v1/models", chat.key(alice), "models listed"),
        ("GET", "/v1/elsewhere", anthropic.key(alice), "unknown path"),
        ("POST", "/v1/messages", {}, "no key"),
        ("POST", "/v1/messages", anthropic.key("sk-yb-forged"), "unknown key"),
    ):
        body = b'{"model": "claude-golden", "messages": []}' if method == "POST" else None
        ask(served.url, method, path, body, {"x-case": "anthropic-messages other", **key})
        ledger.note(name)
    begun(served, anthropic, alice).close()
    ledger.note("anthropic-messages: client gone")


def headers(api: Api, key: str, case: str) -> Mapping[str, str]:
    return {"content-type": "application/json", "x-case": f"{api.name} {case}", **api.key(key)}


def send(served: Served, api: Api, key: str, case: str, model: str | None = None) -> None:
    path, body = api.request(stream=case in ("stream", "cut"), model="unlisted" if case == "unlisted" else model)
    try:
        ask(served.url, "POST", path, body, headers(api, key, case))
    except http.client.IncompleteRead:
        assert case == "cut"


def begun(served: Served, api: Api, key: str) -> ExitStack:
    """A stream that has begun and does not end."""
    path, body = api.request(stream=True)
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"))
    connection.request("POST", path, body, dict(headers(api, key, "held")))
    answer = connection.getresponse()
    assert answer.readline().startswith(b"event: message_start")
    open_until_closed = ExitStack()
    open_until_closed.callback(connection.close)
    open_until_closed.callback(answer.close)  # which has the socket alone, if the server closes the connection
    return open_until_closed
