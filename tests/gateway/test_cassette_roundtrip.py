"""An answer of each API, recorded in one directory and replayed in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cassette_helpers import HERE, JSON, SSE, THERE, asking, keep_text, messages, places, sse, text_of, whole

from other_wires import CLIENTS, Client
from talking import ask, parse_events, scripted, together
from youbencha.gateway.cassette.answers import CUT
from youbencha.gateway.cassette.cassette import Cassette, read_contents
from youbencha.gateway.cassette.matching import ModelRequest
from youbencha.gateway.wires import find_route

SCRIPT = """
turns:
  - thinking: I look at ${workspace}/a.txt first.
    text: "Reading ${workspace}/a.txt, not ${workspace}x, for {{workspace}} and {{=home}}."
    tools:
      - {name: shell, input: {path: "${workspace}/b \\"c\\".txt", more: ["${home}"]}}
"""


def in_chunks(raw: bytes, size: int) -> list[tuple[float, bytes]]:
    return [(float(at), raw[at : at + size]) for at in range(0, len(raw), size)]


def recorded_and_replayed(directory: Path, asked: ModelRequest, headers: dict[str, str], raw: bytes) -> bytes:
    kept = Cassette(directory, "record")
    kept.session(places()).keep(asked, 200, headers, in_chunks(raw, 50))
    assert kept.recorded == 1
    again = Cassette(directory, "replay")
    replay = again.session(places(THERE, Path("/else/home"))).find(asked)
    assert replay is not None
    assert replay.status == 200
    assert str(HERE).encode() not in whole(replay).replace(f"{HERE}x".encode(), b"")
    return whole(replay)


def moved(text: str) -> str:
    """The text as it is in the other run: a longer name that begins like the workspace is none of ours."""
    kept = text.replace(f"{HERE}x", "<longer>").replace(str(HERE), str(THERE)).replace("/rec/home", "/else/home")
    return kept.replace("<longer>", f"{HERE}x")


async def test_anthropic_stream(tmp_path: Path) -> None:
    async with scripted(SCRIPT, variables={"workspace": str(HERE), "home": "/rec/home"}) as model:
        heard = await ask(model)
    asked = asking({"model": "claude-test", "stream": True, "messages": [{"role": "user", "content": "do it"}]})
    again = recorded_and_replayed(tmp_path, asked, heard.headers, heard.raw)
    assert together(parse_events(again)) == json.loads(moved(json.dumps(heard.message)))
    assert [e["type"] for e in parse_events(again)] == [e["type"] for e in heard.events]


async def test_anthropic_json(tmp_path: Path) -> None:
    async with scripted(SCRIPT, variables={"workspace": str(HERE), "home": "/rec/home"}) as model:
        heard = await ask(model, stream=False)
    again = recorded_and_replayed(tmp_path, asking(messages("do it")), heard.headers, heard.raw)
    assert json.loads(again) == json.loads(moved(heard.raw.decode()))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.wire)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
async def test_other_wires(tmp_path: Path, client: Client, stream: bool) -> None:
    async with scripted(SCRIPT, variables={"workspace": str(HERE), "home": "/rec/home"}) as model:
        heard = await client.ask(model, stream=stream)
    path = (client.stream_path if stream else client.path).partition("?")[0]
    route = find_route("POST", path, {})
    assert route is not None
    asked = ModelRequest("POST", route.path, route.wire.name, {}, client.body)
    raw = recorded_and_replayed(tmp_path, asked, heard.headers, heard.raw)
    again = type(heard)(200, heard.headers, raw)
    assert client.heard(again) == json.loads(moved(json.dumps(client.heard(heard))))


def test_a_workspace_that_must_be_escaped(tmp_path: Path) -> None:
    """What is asked for in JSON stays JSON, whatever the other workspace is called."""
    odd = Path('/odd "name"/back\\slash/é')
    arguments = json.dumps({"file_path": f"{HERE}/a.txt"})
    call = {"id": "c", "function": {"name": "Write", "arguments": arguments}}
    body = {"choices": [{"index": 0, "message": {"content": f"in {HERE}", "tool_calls": [call]}}]}
    asked = asking(messages("go"), "/v1/chat/completions", "openai-chat")
    Cassette(tmp_path, "record").session(places()).keep(asked, 200, JSON, [(1.0, json.dumps(body).encode())])
    message = json.loads(whole(Cassette(tmp_path, "replay").session(places(odd)).find(asked)))["choices"][0]["message"]
    assert message["content"] == f"in {odd}"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"file_path": f"{odd}/a.txt"}


def test_a_stream_into_a_workspace_that_must_be_escaped(tmp_path: Path) -> None:
    odd = Path('/odd "name"/back\\slash/é')
    call = {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": f'{{"path": "{HERE}/a"}}'}
    asked = asking({"input": "go"}, "/v1/responses", "openai-responses")
    session = Cassette(tmp_path, "record").session(places())
    session.keep(asked, 200, SSE, [(1.0, sse([call, {"type": "response.completed"}]))])
    replay = Cassette(tmp_path, "replay").session(places(odd)).find(asked)
    assert json.loads(parse_events(whole(replay))[0]["delta"]) == {"path": f"{odd}/a"}


def test_from_a_workspace_that_must_be_escaped(tmp_path: Path) -> None:
    odd = Path('/odd "name"/back\\slash/é')
    for ascii_only in (True, False):
        arguments = json.dumps({"file_path": f"{odd}/a.txt"}, ensure_ascii=ascii_only)
        call = {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": arguments}
        done = {"type": "response.completed", "response": {"output": []}}
        directory = tmp_path / str(ascii_only)
        asked = asking({"input": "go"}, "/v1/responses", "openai-responses")
        Cassette(directory, "record").session(places(odd)).keep(asked, 200, SSE, [(1.0, sse([call, done]))])
        replay = Cassette(directory, "replay").session(places(THERE)).find(asked)
        assert json.loads(parse_events(whole(replay))[0]["delta"]) == {"file_path": f"{THERE}/a.txt"}


def test_ids_of_the_request_are_those_of_the_current_run(tmp_path: Path) -> None:
    """A model that answers with a shell's id must name the shell that runs now."""

    def asked(shell: str, temporary: str) -> ModelRequest:
        return asking(messages("go", "ok", f"Command running in background with ID: {shell}, log in /tmp/{temporary}"))

    session = Cassette(tmp_path, "record").session(places())
    keep_text(session, asked("b2vmvi1bu", "tmp.5qoEtiAXx8"), "Look at b2vmvi1bu and /tmp/tmp.5qoEtiAXx8/x, b2vmvi1bux")
    replay = Cassette(tmp_path, "replay").session(places()).find(asked("b1ktnjmtm", "tmp.yzEMCYHuTi"))
    assert text_of(replay) == "Look at b1ktnjmtm and /tmp/tmp.yzEMCYHuTi/x, b2vmvi1bux"


def test_ids_of_the_request_in_pieces(tmp_path: Path) -> None:
    def asked(shell: str) -> ModelRequest:
        return asking(messages(f"Command running in background with ID: {shell}"))

    pieces = [{"type": "text_delta", "text": text} for text in ("see b2vm", "vi1", "bu now")]
    deltas = [{"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces]
    session = Cassette(tmp_path, "record").session(places())
    session.keep(asked("b2vmvi1bu"), 200, SSE, [(1.0, sse([*deltas, {"type": "message_stop"}]))])
    replay = Cassette(tmp_path, "replay").session(places()).find(asked("b1ktnjmtm"))
    assert "".join(event["delta"]["text"] for event in parse_events(whole(replay))[:-1]) == "see b1ktnjmtm now"


def test_dates_and_numbers_of_an_answer_are_kept(tmp_path: Path) -> None:
    """A number that the model writes into a file is no process id, even if the request has the same as one."""
    session = Cassette(tmp_path, "record").session(places())
    asked, again = (
        asking({"messages": [{"role": "tool", "content": text}]})
        for text in ("pid 28993 at 2026-11-16", "pid 31337 at 2027-01-01")
    )
    keep_text(session, asked, "PORT = 28993  # since 2026-11-16, localhost:80")
    found = Cassette(tmp_path, "replay").session(places()).find(again)
    assert text_of(found) == "PORT = 28993  # since 2026-11-16, localhost:80"


def test_timing_is_recorded_and_replayed_on_request(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [{"type": "message_start"}, {"type": "ping"}, {"type": "message_stop"}]
    chunks = [(number * 100.0 + 50, sse([event])) for number, event in enumerate(events)]
    asked = asking(messages("go"))
    Cassette(tmp_path, "record").session(places()).keep(asked, 200, SSE, chunks)
    slow = Cassette(tmp_path, "replay", timing="recorded").session(places()).find(asked)
    assert slow is not None
    assert [delay for delay, _ in slow.chunks] == [50, 100, 100]
    fast = Cassette(tmp_path, "replay").session(places()).find(asked)
    assert fast is not None
    assert [delay for delay, _ in fast.chunks] == [0]
    assert whole(fast) == whole(slow)


def test_events_without_names_and_names_without_types(tmp_path: Path) -> None:
    """Some servers leave the names away, some send what is no JSON; it all comes back as it came."""
    raw = (
        b'data: {"type": "message_start"}\n\nevent: other\ndata: {"type": "ping"}\n\n: keep alive\n\n'
        b'event: note\ndata: two\ndata: lines\n\nevent: message_stop\r\ndata: {"type": "message_stop"}'
    )
    asked = asking(messages("go"))
    Cassette(tmp_path, "record").session(places()).keep(asked, 200, SSE, [(1.0, raw)])
    assert whole(Cassette(tmp_path, "replay").session(places()).find(asked)) == (
        b'data: {"type":"message_start"}\n\nevent: other\ndata: {"type":"ping"}\n\n'
        b'event: note\ndata: two\ndata: lines\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    )


def test_binary_and_empty_bodies(tmp_path: Path) -> None:
    session = Cassette(tmp_path, "record").session(places())
    picture, nothing = (
        ModelRequest("GET", "/v1/models", None, {}, None),
        ModelRequest("POST", "/v1/x", None, {}, None, b"\xff1"),
    )
    session.keep(picture, 200, {"content-type": "image/png"}, [(1.0, b"\x89PNG\xff\x00")])
    session.keep(nothing, 200, {}, [])
    again = Cassette(tmp_path, "replay").session(places())
    assert whole(again.find(picture)) == b"\x89PNG\xff\x00"
    assert whole(again.find(nothing)) == b""
    assert again.find(nothing._replace(raw=b"\xff2")) is None


FAILURES = [
    (429, JSON, b'{"error":{"type":"rate_limit_error"}}', "rate_limited"),
    (529, JSON, b'{"error":{}}', "rate_limited"),
    (500, {"content-type": "text/html"}, b"<html>", "provider_failed"),
    (401, {**JSON, "x-should-retry": "false"}, b'{"error":{}}', "provider_refused"),
    (200, JSON, b'{"content": [{"ty', CUT),
    (200, SSE, sse([{"type": "message_start"}, {"type": "content_block_delta", "index": 0}]), CUT),
    (200, SSE, sse([{"type": "message_start"}, {"type": "error", "error": {"type": "busy"}}]), "busy"),
]


@pytest.mark.parametrize(("status", "headers", "raw", "failed"), FAILURES)
def test_a_failure_is_replayed_unless_the_request_is_answered(
    tmp_path: Path, status: int, headers: dict[str, str], raw: bytes, failed: str
) -> None:
    """An agent that has tried something else after a failure does so again. One that has only waited need not."""
    cassette = Cassette(tmp_path, "record")
    session = cassette.session(places())
    for text in ("go", "retry"):
        session.keep(asking(messages(text)), status, headers, [(1.0, raw)], failed=failed)
    keep_text(session, asking(messages("retry")), "at last")
    assert (session.recorded, cassette.recorded, session.doubts()) == (1, 1, None)

    again = Cassette(tmp_path, "replay").session(places())
    replay = again.find(asking(messages("go")))
    assert replay is not None
    assert (replay.status, replay.failed) == (status, failed)
    assert replay.headers == headers
    assert whole(replay).replace(b" ", b"") == raw.replace(b" ", b"")
    if status == 200:  # a request that is sent again may not be all that the agent did after this
        assert (found := again.find(asking(messages("retry")))) is not None
        assert found.failed == failed
    assert text_of(again.find(asking(messages("retry")))) == "at last"

    auto = Cassette(tmp_path, "auto")
    asked = auto.session(places())
    assert asked.find(asking(messages("go"))) is None, "a failure is no answer: the model is asked again"
    assert text_of(asked.find(asking(messages("retry")))) == "at last"
    keep_text(asked, asking(messages("go")), "now")
    assert text_of(Cassette(tmp_path, "replay").session(places()).find(asking(messages("go")))) == "now"


def test_a_failure_after_an_answer_is_replayed_after_it(tmp_path: Path) -> None:
    session, asked = Cassette(tmp_path, "record").session(places()), asking(messages("go"))
    keep_text(session, asked, "one")
    session.keep(asked, 429, JSON, [(1.0, b"{}")], failed="rate_limited")
    again = Cassette(tmp_path, "replay").session(places())
    assert text_of(again.find(asked)) == "one"
    assert [(found.status if (found := again.find(asked)) else None) for _ in range(2)] == [429, 429]


def test_what_cannot_be_replayed_is_said_when_it_is_recorded(tmp_path: Path) -> None:
    """It is also said by a summary of the cassette, and by the replay."""
    session = Cassette(tmp_path, "record").session(places())
    keep_text(session, asking(messages("one")), "fine")
    assert session.doubts() is None
    session.keep(asking(messages("two")), 200, {}, [], lost="the agent has gone")
    names = {file.name: file.read_text() for file in (tmp_path / "exchanges").iterdir()}
    (two,) = [name for name, text in names.items() if '"two"' in text]
    for doubts in (session.doubts(), read_contents(tmp_path).doubts):
        assert doubts is not None
        assert f"the agent has gone ({two})" in doubts
    again = Cassette(tmp_path, "replay").session(places())
    assert again.find(asking(messages("two"))) is None
    assert "recorded without an answer: the agent has gone" in again.mismatch(asking(messages("two"))).summary
    keep_text(session, asking(messages("two")), "and back")
    assert "gone" not in str(session.doubts())


def test_the_order_of_background_tasks_is_in_doubt(tmp_path: Path) -> None:
    session = Cassette(tmp_path, "record").session(places())
    notes = [f"<task-notification>\n<task-id>b{number}vmvi1bu</task-id>\n" for number in range(2)]
    keep_text(session, asking(messages("go", "ok", notes[0], "ok", f"As <task-notification> says: {notes[0]}")), "one")
    assert session.doubts() is None
    keep_text(session, asking(messages("go", "ok", notes[0], "ok", notes[1])), "two")
    assert "in another order" in str(session.doubts())


def test_a_refusal_is_recorded(tmp_path: Path) -> None:
    session = Cassette(tmp_path, "record").session(places())
    headers = {**JSON, "x-should-retry": "false", "request-id": "req_1", "set-cookie": "a=b"}
    session.keep(asking(messages("go")), 400, headers, [(1.0, b'{"error": {"message": "too long"}}')])
    replay = Cassette(tmp_path, "replay").session(places()).find(asking(messages("go")))
    assert replay is not None
    assert (replay.status, replay.headers) == (400, {**JSON, "x-should-retry": "false"})


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c"])
def test_only_standard_line_ends_end_a_line(tmp_path: Path, character: str, size: int) -> None:
    """JSON may hold the others as they are."""
    text = f"before{character}after"
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    # JSON escapes control characters, so those come as data that is not JSON.
    data = json.dumps(delta, ensure_ascii=False) if ord(character) > 0x1F else text
    raw = f"event: content_block_delta\ndata: {data}\n\n".encode() + sse([{"type": "message_stop"}])
    session = Cassette(tmp_path, "record").session(places())
    session.keep(asking(messages("go")), 200, SSE, in_chunks(raw, size))
    again = whole(Cassette(tmp_path, "replay").session(places()).find(asking(messages("go"))))
    assert session.recorded == 1
    if ord(character) > 0x1F:
        assert parse_events(again)[0] == delta
    else:
        assert f"data: {text}\n".encode() in again


def test_an_event_that_is_too_large_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youbencha.gateway.cassette.answers.MAX_EVENT_BYTES", 100)
    session = Cassette(tmp_path, "record").session(places())
    large = {"type": "content_block_delta", "index": 0, "delta": {"text": "x" * 100}}
    session.keep(asking(messages("go")), 200, SSE, [(1.0, sse([large, {"type": "message_stop"}]))])
    assert session.recorded == 0
    assert "too large" in str(session.doubts())
