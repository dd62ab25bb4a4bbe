"""A real LiteLLM: requests to the provider, the answers, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from gateway_bench import gateway_at
from litellm_helpers import REAL_KEYS, STARTUP_S, processes_with, upstreams

from other_wires import CHAT, GEMINI, RESPONSES, Client
from systems import linux_only, posix_only
from talking import Heard, request, send
from toolbox_tools import installed
from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm import process
from youbencha.gateway.litellm.process import LiteLLM, check_litellm
from youbencha.gateway.litellm.translate import provider_error, provider_headers
from youbencha.gateway.upstreams import same_for_all
from youbencha.gateway.wires import WireName
from youbencha.scripted_model import ScriptedModel, parse_script

# One LiteLLM for them all: each start takes six seconds.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.real_cli, pytest.mark.full]

SCRIPT = """
tools_optional: true
turns:
  - text: hello
    thinking: hm
    tools: [{name: shell, input: {command: ls}}]
    usage: {input_tokens: 1234, output_tokens: 77, cache_read_input_tokens: 500, reasoning_tokens: 11,
            cache_creation_input_tokens: 31}
    times: forever
conversations:
  - when: {model: "*overloaded"}
    turns: [{error: {status: 529, headers: {retry-after: "7"}}, times: forever}]
  - when: {model: "*limited"}
    turns: [{error: {status: 429, headers: {retry-after: "7"}}, times: forever}]
"""


@dataclass
class Bench:
    litellm: LiteLLM
    model: ScriptedModel
    fetched: list[bytes]
    """What LiteLLM asked a proxy for: whatever it wanted from the internet."""
    log: Path
    taken_port: int

    @property
    def url(self) -> str:
        return self.litellm.url

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.litellm.master_key}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    log = tmp_path_factory.mktemp("litellm") / "litellm.log"
    fetched: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.readline())
        writer.close()

    async with (
        await asyncio.start_server(note, "127.0.0.1", 0) as proxy,
        ScriptedModel(parse_script(SCRIPT)) as model,
    ):
        through = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        env = {**os.environ, "HTTPS_PROXY": through, "HTTP_PROXY": through, "UNRELATED_KEY": "not-for-litellm"}
        starting = LiteLLM(
            installed("litellm").executable,
            upstreams(model.url),
            env=env,
            models=["gpt-test"],
            startup_timeout_s=STARTUP_S,
            log_file=log,
        )
        with a_port_is_taken() as taken:
            await starting.__aenter__()
        try:
            yield Bench(starting, model, fetched, log, taken)
        finally:
            await starting.__aexit__(None, None, None)


@contextmanager
def a_port_is_taken() -> Iterator[int]:
    """Another has the first port that LiteLLM is given, by the time that it wants it."""
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        port = server.getsockname()[1]
        ports, free_port = iter([port]), process._free_port
        patch.setattr(process, "_free_port", lambda host: next(ports, None) or free_port(host))
        yield port


async def ask(bench: Bench, client: Client, *, stream: bool, **changes: Any) -> Heard:
    return await client.ask(bench, stream=stream, headers=bench.bearer, **changes)  # type: ignore[arg-type]


async def ask_claude(bench: Bench, headers: dict[str, str] | None = None, **changes: Any) -> Heard:
    body = request(**{"model": "claude-test", **changes})
    return await send(bench, "POST", "/v1/messages?beta=true", headers=headers or bench.bearer, json=body)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ tokens and keys


@pytest.mark.parametrize("stream", [True, False])
async def test_anthropic_counts_are_exact(bench: Bench, stream: bool) -> None:
    heard = await ask_claude(bench, stream=stream)
    usage = heard.message["usage"]
    assert [usage[f"{kind}_tokens"] for kind in ("input", "output")] == [1234, 77]
    assert [usage[f"cache_{kind}_input_tokens"] for kind in ("read", "creation")] == [500, 31]
    assert heard.text == "hello"
    assert bench.model.requests[-1].headers["x-api-key"] == REAL_KEYS["anthropic"]


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_chat_counts_are_exact(bench: Bench, stream: bool) -> None:
    heard = await ask(bench, CHAT, stream=stream, **({} if stream else {"stream_options": None}))
    chunks = re.findall(r"^data: (\{.*\})$", heard.raw.decode(), re.MULTILINE) if stream else [heard.raw]
    usage = json.loads(chunks[-1])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (1234 + 500 + 31, 77)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 500
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 11
    assert bench.model.requests[-1].headers["authorization"] == f"Bearer {REAL_KEYS['openai']}"


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_responses_counts_are_exact(bench: Bench, stream: bool) -> None:
    heard = await ask(bench, RESPONSES, stream=stream)
    events = re.findall(r"^data: (\{.*\})$", heard.raw.decode(), re.MULTILINE)
    answer = json.loads(events[-1])["response"] if stream else heard.json
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (1234 + 500 + 31, 77)
    assert usage["input_tokens_details"]["cached_tokens"] == 500
    assert bench.model.requests[-1].body["stream"] is stream, "it was held back to its end"
    assert bench.model.requests[-1].headers["authorization"] == f"Bearer {REAL_KEYS['openai']}"


@pytest.mark.parametrize("stream", [True, False])
async def test_gemini_counts_are_exact(bench: Bench, stream: bool) -> None:
    path = GEMINI.stream_path if stream else GEMINI.path
    key = {"x-goog-api-key": bench.litellm.master_key}
    heard = await send(bench, "POST", path, json=GEMINI.body, headers=key)  # type: ignore[arg-type]
    chunks = re.findall(r"^data: (\{.*\})$", heard.raw.decode(), re.MULTILINE) if stream else [heard.raw]
    usage = json.loads(chunks[-1])["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (1234 + 500 + 31, 500)
    assert usage["candidatesTokenCount"] + usage["thoughtsTokenCount"] == 77
    assert bench.model.requests[-1].headers["x-goog-api-key"] == REAL_KEYS["gemini"]


async def test_the_master_key_is_not_passed_on(bench: Bench) -> None:
    """Our gateway puts it into the API's key header, and LiteLLM is configured to pass `x-` headers on."""
    headers = {"x-api-key": bench.litellm.master_key, "x-claude-code-session-id": "s-1", "anthropic-beta": "b-1,a-1"}
    assert (await ask_claude(bench, headers)).status == 200
    sent = bench.model.requests[-1].headers
    assert sent["x-api-key"] == REAL_KEYS["anthropic"]
    assert bench.litellm.master_key not in str(sent)
    assert (sent["x-claude-code-session-id"], sent["anthropic-beta"]) == ("s-1", "a-1,b-1")


async def test_another_key_is_refused(bench: Bench) -> None:
    before = len(bench.model.requests)
    assert (await ask_claude(bench, {"authorization": "Bearer sk-another"})).status in (400, 401)
    assert len(bench.model.requests) == before


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(("model", "status"), [("claude-overloaded", 529), ("claude-limited", 429)])
async def test_an_error_is_passed_on_once_and_can_be_restored(bench: Bench, model: str, status: int) -> None:
    for _ in range(4):  # no retry, and no cooldown
        before = len(bench.model.requests)
        heard = await ask_claude(bench, model=model)
        assert [seen.status for seen in bench.model.requests[before:]] == [status]
        restored = provider_error(heard.status, heard.raw)
        kind = {529: "overloaded_error", 429: "rate_limit_error"}[status]
        assert (restored.status, json.loads(restored.body)["error"]["type"]) == (status, kind)


async def test_openai_errors_keep_retry_after(bench: Bench) -> None:
    body = {**CHAT.body, "model": "gpt-limited", "stream": True}
    heard = await send(bench, "POST", CHAT.path, json=body, headers=bench.bearer)  # type: ignore[arg-type]
    assert heard.status == 429
    assert provider_headers(heard.headers.items())["retry-after"] == "7"


# ------------------------------------------------------------------------------------------ the process


async def test_a_port_in_use_is_given_up(bench: Bench) -> None:
    assert bench.litellm.alive
    assert bench.url.startswith("http://127.0.0.1:")
    assert bench.url != f"http://127.0.0.1:{bench.taken_port}"


async def test_a_litellm_that_runs_already_is_checked(bench: Bench) -> None:
    await check_litellm(bench.url, bench.litellm.master_key)
    await check_litellm(f"{bench.url}/v1/", bench.litellm.master_key)
    with pytest.raises(YouBenchaError, match="does not accept the key") as caught:
        await check_litellm(bench.url, "sk-another")
    assert caught.value.code == "LITELLM_KEY_REFUSED"
    for url in (bench.model.url, "http://127.0.0.1:1", "http://[broken"):
        with pytest.raises(YouBenchaError, match="No LiteLLM answers") as caught:
            await check_litellm(url, "sk-any")
        assert caught.value.code == "LITELLM_NOT_READY"


@linux_only("looks into /proc")
async def test_the_environment_is_minimal(bench: Bench) -> None:
    env = Path(f"/proc/{bench.litellm.pid}/environ").read_bytes()
    assert b"not-for-litellm" not in env
    assert bench.litellm.master_key.encode() in env


async def test_nothing_is_fetched_and_no_key_is_logged(bench: Bench) -> None:
    await ask_claude(bench)
    assert bench.fetched == []
    log = bench.log.read_text()
    assert "LiteLLM" in log
    assert not any(key in log for key in (bench.litellm.master_key, *REAL_KEYS.values()))


async def test_a_configuration_that_litellm_refuses(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("model_list: []\nlitellm_settings: {callbacks: [no_such_module.handler]}\n")
    starting = LiteLLM(
        installed("litellm").executable, [], env=os.environ, config_file=config, startup_timeout_s=STARTUP_S
    )
    with pytest.raises(YouBenchaError, match="ended before it was ready") as caught:
        async with starting:
            pass
    assert caught.value.code == "LITELLM_NOT_READY"
    assert "no_such_module" in caught.value.message
    assert processes_with(str(config)) == []


HARNESS = """
import asyncio, os, sys
from pathlib import Path
from youbencha.gateway.litellm.process import LiteLLM

async def main():
    program, config, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    async with LiteLLM(program, [], env=os.environ, config_file=config, startup_timeout_s=seconds) as litellm:
        print(litellm.url, litellm.master_key, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@posix_only("kill -9")
async def test_litellm_ends_with_a_killed_harness(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("general_settings: {master_key: sk-my-own-key}\nmodel_list: []\n")
    argv = (sys.executable, "-c", HARNESS, str(installed("litellm").executable), str(config), str(STARTUP_S))
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # who is killed cannot remove its temporary files
    harness = await asyncio.create_subprocess_exec(*argv, env=env, stdout=asyncio.subprocess.PIPE)
    try:
        assert harness.stdout
        url, key = (await harness.stdout.readline()).decode().split()
        assert key == "sk-my-own-key"
        await check_litellm(url, key)
        assert len(processes_with(str(config))) > 1  # the harness names the file too
    finally:
        harness.kill()
        await harness.wait()
    async with asyncio.timeout(30):
        while processes_with(str(config)):
            await asyncio.sleep(0.05)
    socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))).close()


async def test_nothing_is_left_after_closing(bench: Bench) -> None:
    """The last one here: it ends what the others use."""
    port = int(bench.url.rpartition(":")[2])
    line = psutil.Process(bench.litellm.pid).cmdline()
    config = Path(line[line.index("--config") + 1])
    assert config.is_file()
    await bench.litellm.__aexit__(None, None, None)
    assert not bench.litellm.alive
    assert processes_with(str(config)) == []
    assert not config.parent.exists()
    socket.create_server(("127.0.0.1", port)).close()
    with pytest.raises(RuntimeError):
        _ = bench.url


CLIENT = [("openai-chat", "/v1/chat/completions"), ("anthropic-messages", "/v1/messages")]


@pytest.mark.parametrize(("wire", "path"), CLIENT)
async def test_instructions_to_litellm_work_there_and_are_stopped_by_the_gateway(
    wire: WireName, path: str, bench: Bench, tmp_path: Path
) -> None:
    """`extra_body` and the like change what the provider is asked: a budget would be for another request."""
    asked = {"model": "gpt-test", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
    hostile: dict[str, Any] = {**asked, "extra_body": {"max_tokens": 99_999}}
    if wire == "openai-chat":
        direct = await send(bench, "POST", path, json=hostile, headers=bench.bearer)  # type: ignore[arg-type]
        assert direct.status == 200
        assert bench.model.requests[-1].body["max_tokens"] == 99_999, "the gateway would have reserved ten"
    before = len(bench.model.requests)
    given = same_for_all(bench.url, bench.litellm.master_key, is_litellm=True)
    async with gateway_at(bench.url, tmp_path, upstreams=given) as ours:
        key = {"x-api-key": ours.access.key}
        for option in ({"extra_body": {"max_tokens": 99_999}}, {"api_base": "http://127.0.0.1:9"}, {"num_retries": 9}):
            refused = await ours.send("POST", path, json={**asked, **option}, headers=key)
            assert (refused.status, len(bench.model.requests)) == (400, before)
        answered = await ours.send("POST", path, json=asked, headers=key)
    assert (answered.status, len(bench.model.requests)) == (200, before + 1)
