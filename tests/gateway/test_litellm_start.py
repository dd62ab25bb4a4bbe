"""Programs instead of LiteLLM: the error messages, and that nothing is left running."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from litellm_helpers import REAL_KEYS, processes_with, upstreams

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.gateway.litellm import process
from youbencha.gateway.litellm.process import LiteLLM, check_litellm
from youbencha.process import ProcessStartError

pytestmark = posix_only("the programs are shell scripts")

Program = Callable[[str], Path]

STAND_IN = """
import http.server, os, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "Bearer " + os.environ["LITELLM_MASTER_KEY"]
        self.send_response({"/health/liveliness": 200, "/v1/models": 200 if known else 401}.get(self.path, 404))
        self.send_header("Content-Length", "0")
        self.end_headers()

print(dict(os.environ), flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answer).serve_forever()
"""
"""Answers as far as LiteLLM is asked whether it is ready."""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    def make(script: str) -> Path:
        path = tmp_path / "litellm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return make


async def start(executable: Path, **options: float) -> YouBenchaError:
    with pytest.raises(YouBenchaError) as caught:
        async with LiteLLM(executable, upstreams("http://127.0.0.1:1"), env=os.environ, **options):  # type: ignore[arg-type]
            pass
    return caught.value


async def test_early_exit_is_reported_with_masked_output(program: Program) -> None:
    error = await start(program("echo starting; echo bad key $UPSTREAM_OPENAI_API_KEY $LITELLM_MASTER_KEY >&2; exit 3"))
    assert error.code == "LITELLM_NOT_READY"
    assert error.message == (
        "LiteLLM ended before it was ready (exit code 3). Its last output:\n  starting\n  bad key [REDACTED] [REDACTED]"
    )


async def test_early_exit_without_output(program: Program) -> None:
    error = await start(program("kill -9 $$"))
    assert error.message == "LiteLLM ended before it was ready (by SIGKILL). It printed nothing."


async def test_a_process_that_never_gets_ready_is_ended(program: Program, tmp_path: Path) -> None:
    error = await start(program("echo loading; sleep 1000 & wait"), startup_timeout_s=3)
    assert error.code == "LITELLM_NOT_READY"
    assert error.message == "LiteLLM was not ready within 3 s. Its last output:\n  loading"
    assert processes_with(str(tmp_path)) == []


async def test_a_port_in_use_is_retried_a_few_times(program: Program, tmp_path: Path) -> None:
    error = await start(program(f"echo . >> '{tmp_path}/tries'; echo '[Errno 98] address already in use'; exit 1"))
    assert "5 in a row were in use" in error.message
    assert (tmp_path / "tries").read_text() == ".\n" * 5


async def test_a_missing_program(tmp_path: Path) -> None:
    error = await start(tmp_path / "nowhere")
    assert isinstance(error, ProcessStartError)


async def test_cancelling_the_start_leaves_nothing(program: Program, tmp_path: Path) -> None:
    script = program(f"touch '{tmp_path}/begun'; sleep 1000")
    starting = asyncio.create_task(start(script))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert processes_with(str(tmp_path)) == []


async def test_a_users_configuration_gets_its_variables_and_a_key(program: Program, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("general_settings: {master_key: os.environ/MINE}\nmodel_list: [{a: os.environ/THEIR_NAME}]\n")
    script = program('[ -n "$MINE" ] && echo "$THEIR_NAME $OTHER_NAME $PWD $*"; exit 1')
    env = {**os.environ, "THEIR_NAME": "given", "OTHER_NAME": "not given"}
    with pytest.raises(YouBenchaError) as caught:
        async with LiteLLM(script, [], env=env, config_file=config):
            pass
    assert f"given  {tmp_path} --config {config} --host 127.0.0.1 --port" in caught.value.message


async def test_a_named_variable_must_be_set(program: Program, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("model_list: [{a: os.environ/THEIR_NAME}]\n")
    with pytest.raises(YouBenchaError, match="names unset variables: THEIR_NAME") as caught:
        async with LiteLLM(program("exit 1"), [], env={}, config_file=config):
            pass
    assert caught.value.code == "LITELLM_CONFIG_INVALID"


async def test_a_process_that_gets_ready(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its second port: the first was taken."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    script = program(f"exec '{sys.executable}' '{tmp_path}/stand_in.py' \"$@\"")
    env = {**os.environ, "OTHER_NAME": "not-given"}
    log = tmp_path / "litellm.log"
    litellm = LiteLLM(script, upstreams("http://127.0.0.1:1"), env=env, log_file=log)
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        ports, free_port = iter([taken]), process._free_port
        monkeypatch.setattr(process, "_free_port", lambda host: next(ports, None) or free_port(host))
        async with litellm:
            url = litellm.url
            assert url != f"http://127.0.0.1:{taken}"
            assert litellm.alive
            assert litellm.pid
            await check_litellm(f"{url}/v1/", litellm.master_key)
            with pytest.raises(YouBenchaError, match="does not accept the key") as caught:
                await check_litellm(url, "sk-another")
            assert caught.value.code == "LITELLM_KEY_REFUSED"
            with pytest.raises(YouBenchaError, match="No LiteLLM answers"):
                await check_litellm(f"{url}/elsewhere", litellm.master_key)
    assert not litellm.alive
    assert processes_with(str(tmp_path)) == []
    with pytest.raises(RuntimeError):
        _ = litellm.url
    with pytest.raises(YouBenchaError, match="No LiteLLM answers") as caught:
        await check_litellm(url, litellm.master_key)
    assert caught.value.code == "LITELLM_NOT_READY"
    said = log.read_text()
    assert "LITELLM_MASTER_KEY" in said
    assert not [word for word in ("not-given", litellm.master_key, "in use", *REAL_KEYS.values()) if word in said]
