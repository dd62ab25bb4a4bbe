"""`yb gateway` as a process, with a scripted model behind it, for the tests of the command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from yb import PATIENCE_S, SCRIPT
from youbencha.scripted_model import RecordedRequest, ScriptedModel, parse_script

REAL_KEY = "sk-ant-api03-the-real-one-000000000000"
MODEL = "scripted-1"
PRICE = f"{MODEL}=10/50/1/12.5"
TURNS = """
tools_optional: true
turns:
  - text: Here you are.
    times: forever
    usage: {input_tokens: 100, output_tokens: 20, cache_read_input_tokens: 7, cache_creation_input_tokens: 3}
"""
COST = (100 * 10 + 20 * 50 + 7 * 1 + 3 * 12.5) / 1_000_000
BODY = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "go on"}]}
NO_KEYS = dict.fromkeys(
    ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"), ""
)


class Behind(NamedTuple):
    url: str
    requests: list[RecordedRequest]


@contextmanager
def model_behind() -> Iterator[Behind]:
    """Served by a thread: the tests themselves wait for processes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    model = ScriptedModel(parse_script(TURNS))
    try:
        asyncio.run_coroutine_threadsafe(model.__aenter__(), loop).result(PATIENCE_S)
        yield Behind(model.url, model.requests)
        asyncio.run_coroutine_threadsafe(model.__aexit__(None, None, None), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Running:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.process = process
        self.ready = process.stdout.readline()
        assert self.ready, f"it did not start: {process.communicate()[1]}"
        ready = json.loads(self.ready)
        self.url: str = ready["url"]
        self.keys: dict[str, str] = ready["keys"]

    def get(self, path: str, key: str = "") -> Answer:
        return self._send(urllib.request.Request(self.url + path, headers={"x-api-key": key}))

    def ask(self, key: str, **changes: Any) -> Answer:
        headers = {"x-api-key": key, "content-type": "application/json"}
        return self._send(
            urllib.request.Request(f"{self.url}/v1/messages", json.dumps({**BODY, **changes}).encode(), headers)
        )

    def stop(self, number: int = signal.SIGTERM) -> tuple[str, str]:
        """What it still printed; its exit code is checked."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        return out, err

    @staticmethod
    def _send(request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return Answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read())


@contextmanager
def running(
    *arguments: str, cwd: Path, stderr: int | IO[Any] | None = subprocess.PIPE, **env: str
) -> Iterator[Running]:
    process = subprocess.Popen(
        [SCRIPT, "gateway", *arguments],
        cwd=cwd,
        env={**os.environ, **NO_KEYS, "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        encoding="utf-8",
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()
