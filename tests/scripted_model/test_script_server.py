"""The scripted model's server over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from typing import Any, NamedTuple

import aiohttp
import pytest

from talking import ask, request, scripted, send
from youbencha.scripted_model import ScriptedModel, parse_script
from youbencha.scripted_model.format import UnknownVariableError


async def test_a_streamed_answer() -> None:
    async with scripted("turns: [{text: hello, tools: [{name: Bash, input: {command: ls}}]}]") as model:
        heard = await ask(model)
    assert heard.status == 200
    assert heard.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert heard.headers["request-id"].startswith("req_")
    assert [event["type"] for event in heard.events][-2:] == ["message_delta", "message_stop"]
    assert heard.text == "hello"
    assert heard.message["content"][1]["input"] == {"command": "ls"}
    assert heard.message["model"] == "claude-test"


async def test_an_answer_in_one_piece() -> None:
    script = "model: claude-scripted\nusage: {input_tokens: 12}\nturns: [{text: [a, b]}]"
    async with scripted(script) as model:
        heard = await ask(model, stream=False)
    assert heard.headers["content-type"] == "application/json"
    assert (heard.text, heard.json["model"], heard.json["usage"]["input_tokens"]) == ("a|b", "claude-scripted", 12)


async def test_requests_are_recorded() -> None:
    before = time.time()
    async with scripted("turns: [{text: a}, {error: {status: 529}}]") as model:
        await ask(model, headers={"X-Api-Key": "k"})
        await ask(model, headers={"X-Api-Key": "k"})
        await ask(model, headers={"X-Api-Key": "k"}, tools=None)
        await send(model, "GET", "/nowhere")
    first, second, side, lost = model.requests
    assert (first.method, first.path, first.headers["x-api-key"]) == ("POST", "/v1/messages?beta=true", "k")
    assert first.body == request()
    assert before <= first.at <= time.time()
    assert [(r.status, r.kind, r.turn) for r in (first, second, side, lost)] == [
        (200, "turn", 0),
        (529, "turn", 1),
        (200, "side", None),
        (404, "other", None),
    ]
    assert lost.body is None


async def test_side_requests_take_no_turn() -> None:
    async with scripted("turns: [{text: a}, {text: b}]\nside: {text: aside}") as model:
        texts = [(await ask(model, tools=tools)).text for tools in (None, [{"name": "T"}], [], [{"name": "T"}])]
    assert texts == ["aside", "a", "aside", "b"]


async def test_when_the_turns_have_run_out() -> None:
    async with scripted("turns: [{text: a, times: 2}]") as model:
        await ask(model)
        await ask(model)
        heard = await ask(model)
    assert heard.status == 400
    assert heard.error == ("invalid_request_error", "script exhausted after 2 turns")
    assert heard.json["request_id"] == heard.headers["request-id"]
    assert heard.headers["x-should-retry"] == "false"


async def test_parallel_sessions_do_not_disturb_each_other() -> None:
    turns = ", ".join(f"{{text: t{n}, delay: 5ms}}" for n in range(5))

    async def session(model: ScriptedModel, name: str) -> list[str]:
        headers = {"X-Claude-Code-Session-Id": name}
        return [(await ask(model, headers=headers)).text for _ in range(5)]

    async with scripted(f"turns: [{turns}]") as model:
        heard = await asyncio.gather(*(session(model, f"s{n}") for n in range(8)))
    assert heard == [["t0", "t1", "t2", "t3", "t4"]] * 8


@pytest.mark.parametrize("prefix", ["", "/t/abc", "/t/abc/"])
async def test_any_prefix_of_the_path_is_accepted(prefix: str) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, "POST", f"{prefix}/v1/messages", json=request())
        assert heard.text == "a"
        assert (await send(model, "HEAD", prefix + "/")).status == 200


async def test_the_other_endpoints() -> None:
    async with scripted("model: m1\nturns: [{text: a}]") as model:
        counted = await send(model, "POST", "/v1/messages/count_tokens", json=request(max_tokens=None))
        listed = await send(model, "GET", "/v1/models?limit=5")
        healthy = await send(model, "GET", "/healthz")
        answered = await ask(model)
    assert counted.json["input_tokens"] > 10
    assert [entry["id"] for entry in listed.json["data"]] == ["m1"]
    assert (healthy.status, healthy.json) == (200, {"status": "ok"})
    assert answered.text == "a"


@pytest.mark.parametrize(
    ("path", "key", "names"),
    [
        ("/v1/models", "x-api-key", ["m1", "m2"]),
        ("/v1/models", "authorization", ["m1", "m2"]),
        ("/v1beta/models", "x-goog-api-key", ["models/m1", "models/m2"]),
    ],
)
async def test_the_models_that_exist(path: str, key: str, names: list[str]) -> None:
    headers = {key: "Bearer k"}
    async with scripted("models: [m1, m2]\nturns: [{text: a}]") as model:
        listed = await send(model, "GET", path, headers=headers)
        found = await send(model, "GET", f"{path}/m2", headers=headers)
        missing = await send(model, "GET", f"{path}/m3", headers=headers)
        unknown = await send(model, "POST", "/v1/messages", json={**request(), "model": "m3"})
        known = await send(model, "POST", "/v1/messages", json={**request(), "model": "m1"})
    rows = listed.json.get("data") or listed.json["models"]
    assert [row.get("id") or row["name"] for row in rows] == names
    assert (found.json.get("id") or found.json["name"]) == names[1]
    assert [heard.status for heard in (found, missing, unknown, known)] == [200, 404, 404, 200]


async def test_without_a_list_every_model_exists() -> None:
    async with scripted("model: m1\nturns: [{text: a}]") as model:
        assert (await send(model, "GET", "/v1/models/m2")).json["id"] == "m2"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1/messages"),
        ("POST", "/v1/models"),
        ("POST", "/v1/complete"),
        ("POST", "/xv1/messages"),
    ],
)
async def test_anything_else_is_not_found(method: str, path: str) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, method, path)
    assert heard.status == 404
    assert heard.error == ("not_found_error", f"{method} {path} is not served here")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"model": "m", "max_tokens": 5}'])
async def test_an_invalid_body_takes_no_turn(data: bytes) -> None:
    async with scripted("turns: [{text: a}]") as model:
        heard = await send(model, "POST", "/v1/messages", data=data)
        assert (heard.status, heard.error[0]) == (400, "invalid_request_error")
        assert (await ask(model)).text == "a"


async def test_a_large_prompt() -> None:
    async with scripted("turns: [{text: a}]") as model:
        body = json.dumps(request(messages=[{"role": "user", "content": "x" * 5_000_000}]))
        heard = await send(model, "POST", "/v1/messages", data=io.BytesIO(body.encode()))
    assert heard.text == "a"


async def test_a_key_can_be_required() -> None:
    async with scripted("require_key: ${key}\nturns: [{text: a}]", variables={"key": "sk-1"}) as model:
        without = await ask(model)
        wrong = await ask(model, headers={"x-api-key": "sk-2"})
        models = await send(model, "GET", "/v1/models")
        right = await ask(model, headers={"x-api-key": "sk-1"})
        bearer = await ask(model, headers={"authorization": "Bearer sk-1"}, tools=None)
    assert [h.status for h in (without, wrong, models, right, bearer)] == [401, 401, 401, 200, 200]
    assert wrong.error == ("authentication_error", "invalid x-api-key")


async def test_a_key_that_names_an_unknown_variable() -> None:
    with pytest.raises(UnknownVariableError):
        ScriptedModel(parse_script("require_key: ${key}\nturns: [{text: a}]"))


async def test_variables() -> None:
    script = """
turns:
- text: "${workspace} and ${cwd} and $${HOME}"
  tools: [{name: Write, input: {file_path: "${cwd}/a.txt"}}]
"""
    system = "<env>\nWorking directory: /the/place\n</env>"
    async with scripted(script, variables={"workspace": "/w"}) as model:
        heard = await ask(model, system=system)
    assert heard.text == "/w and /the/place and ${HOME}"
    assert heard.message["content"][1]["input"] == {"file_path": "/the/place/a.txt"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrkspace", "the script names an unknown variable 'wrkspace' (known: workspace)"),
        (
            "cwd",
            "the script names an unknown variable 'cwd'; the request names no working directory (known: workspace)",
        ),
    ],
)
async def test_an_unknown_variable(name: str, message: str) -> None:
    async with scripted(f"turns: [{{text: '${{{name}}}'}}]", variables={"workspace": "/w"}) as model:
        heard = await ask(model)
    assert heard.status == 400
    assert heard.error == ("invalid_request_error", message)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (418, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "api_error"),
        (529, "overloaded_error"),
    ],
)
async def test_errors(status: int, kind: str) -> None:
    async with scripted(f"turns: [{{error: {{status: {status}}}}}, {{text: again}}]") as model:
        heard = await ask(model)
        again = await ask(model)
    assert (heard.status, heard.json["type"], heard.error[0]) == (status, "error", kind)
    assert heard.error[1]
    assert "x-should-retry" not in heard.headers
    assert again.text == "again"


async def test_a_custom_error() -> None:
    error = "{status: 429, type: own_error, message: Slow down, headers: {Retry-After: 7}}"
    async with scripted(f"turns: [{{error: {error}}}]") as model:
        heard = await ask(model)
    assert heard.error == ("own_error", "Slow down")
    assert heard.headers["retry-after"] == "7"


async def test_an_error_within_a_stream() -> None:
    async with scripted("turns: [{text: hello, error_mid_stream: {message: Oh}, times: 2}]") as model:
        streamed = await ask(model)
        whole = await ask(model, stream=False)
    assert [event["type"] for event in streamed.events] == [
        "message_start", "content_block_start", "ping", "content_block_delta", "error",
    ]  # fmt: skip
    assert streamed.events[-1]["error"] == {"type": "overloaded_error", "message": "Oh"}
    assert (whole.status, whole.error) == (529, ("overloaded_error", "Oh"))


@pytest.mark.parametrize("after", [0, 1, 4])
async def test_a_connection_that_is_dropped(after: int) -> None:
    async with scripted(f"turns: [{{text: hello, drop: {{after_events: {after}}}}}, {{text: again}}]") as model:
        raw, error = await read_until_it_breaks(model, stream=True)
        again = await ask(model)
    assert isinstance(error, aiohttp.ClientPayloadError)
    assert raw.count(b"event: ") == after
    assert again.text == "again"


async def test_a_complete_answer_that_is_dropped() -> None:
    async with scripted("turns: [{text: hello, drop: {}}]") as model:
        raw, error = await read_until_it_breaks(model, stream=False)
    assert isinstance(error, aiohttp.ClientPayloadError)
    assert raw.startswith(b'{"id"')
    assert b"stop_reason" not in raw or not raw.endswith(b"}")


async def read_until_it_breaks(model: ScriptedModel, *, stream: bool) -> tuple[bytes, Exception | None]:
    raw = b""
    async with (
        aiohttp.ClientSession() as session,
        session.post(model.url + "/v1/messages", json=request(stream=stream)) as response,
    ):
        assert response.status == 200
        try:
            async for piece in response.content.iter_any():
                raw += piece
        except aiohttp.ClientError as error:
            return raw, error
    return raw, None


@pytest.mark.parametrize(("stream", "begun"), [(True, 4), (False, 0)])
async def test_an_answer_that_hangs(stream: bool, begun: int) -> None:
    async with scripted("turns: [{text: hello, hang: true}, {text: again}]") as model:
        async with aiohttp.ClientSession() as session:
            response = await session.post(model.url + "/v1/messages", json=request(stream=stream))
            raw = b""
            while raw.count(b"event: ") < begun:
                raw += await response.content.readany()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    async for piece in response.content.iter_any():
                        raw += piece
                    pytest.fail("the answer came to an end")
            assert raw.count(b"event: ") == begun
            response.close()
        assert (await ask(model)).text == "again"


async def test_a_hanging_response_ends_with_the_server() -> None:
    async with aiohttp.ClientSession() as session:
        async with scripted("turns: [{hang: true}, {text: late, delay: 60s}]") as model:
            hanging = await session.post(model.url + "/v1/messages", json=request())
            late = asyncio.create_task(session.post(model.url + "/v1/messages", json=request()))
            while len(model.requests) < 2:
                await asyncio.sleep(0.01)
            started = time.monotonic()
        assert time.monotonic() - started < 30  # not after the 60 s that the one would still have waited
        with pytest.raises(aiohttp.ClientError):
            await hanging.read()
        with contextlib.suppress(aiohttp.ClientError):
            await late


async def test_garbage() -> None:
    async with scripted("turns: [{garbage: <html>no</html>}]") as model:
        heard = await ask(model)
    assert (heard.status, heard.raw) == (200, b"<html>no</html>")


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_chunks_of_a_given_size(size: int) -> None:
    async with scripted(f"turns: [{{text: hellö, chunk_bytes: {size}}}]") as model:
        sizes = [len(piece) for piece in await http_chunks(model)]
        assert model.requests[0].turn == 0
    assert set(sizes[:-1]) <= {size}
    assert 1 <= sizes[-1] <= size
    assert sum(sizes) > 500


async def test_without_a_size_each_event_is_a_chunk() -> None:
    async with scripted("turns: [{text: hello}]") as model:
        pieces = await http_chunks(model)
    assert all(piece.startswith(b"event: ") and piece.endswith(b"\n\n") for piece in pieces)


async def http_chunks(model: ScriptedModel) -> list[bytes]:
    """The chunks of the HTTP body, each of which the server wrote on its own."""
    chunks = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(model.url + "/v1/messages", json=request()) as response,
    ):
        whole = b""
        async for piece, ends_chunk in response.content.iter_chunks():
            whole += piece
            if ends_chunk:
                chunks.append(whole)
                whole = b""
    return [chunk for chunk in chunks if chunk]


async def test_delays_come_before_the_headers_and_pauses_after_them() -> None:
    async with scripted("turns: [{text: a, delay: 300ms}, {text: a, pause: 100ms}]") as model:
        delayed, paused = await timed(model), await timed(model)
    assert delayed.headers >= 0.3
    assert paused.end - paused.headers >= 0.5  # seven events, six pauses


class Timed(NamedTuple):
    headers: float
    end: float


async def timed(model: ScriptedModel) -> Timed:
    started = time.monotonic()
    async with (
        aiohttp.ClientSession() as session,
        session.post(model.url + "/v1/messages", json=request()) as response,
    ):
        headers = time.monotonic() - started
        await response.read()
        return Timed(headers, time.monotonic() - started)


async def test_a_delayed_error() -> None:
    async with scripted("turns: [{error: {status: 500}, delay: 200ms}]") as model:
        started = time.monotonic()
        assert (await ask(model)).status == 500
    assert time.monotonic() - started >= 0.2


async def test_many_in_parallel_while_one_hangs() -> None:
    script = "turns: [{text: a}]\nconversations: [{when: {prompt_contains: HANG}, turns: [{hang: true}]}]"
    async with scripted(script) as model, aiohttp.ClientSession() as session:
        stuck: Any = await session.post(
            model.url + "/v1/messages", json=request(messages=[{"role": "user", "content": "HANG"}])
        )
        heard = await asyncio.gather(*(ask(model, headers={"X-Claude-Code-Session-Id": str(n)}) for n in range(50)))
        stuck.close()
    assert {h.text for h in heard} == {"a"}
    assert len({h.message["id"] for h in heard}) == 50


async def test_the_url_is_available_only_while_it_runs() -> None:
    model = ScriptedModel(parse_script("turns: [{text: a}]"))
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url
    async with model:
        assert model.url.startswith("http://127.0.0.1:")
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url


async def test_a_port_in_use() -> None:
    async with scripted("turns: [{text: a}]") as model:
        port = int(model.url.rpartition(":")[2])
        with pytest.raises(OSError, match=r"in use|only one usage"):
            async with scripted("turns: [{text: a}]", port=port):
                pass


async def test_a_hanging_response_ends_with_its_client() -> None:
    async with scripted("turns: [{hang: true}]") as model:
        before = len(asyncio.all_tasks())
        async with aiohttp.ClientSession() as session:
            response = await session.post(model.url + "/v1/messages", json=request())
            assert len(asyncio.all_tasks()) > before
            response.close()
        async with asyncio.timeout(60):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)
