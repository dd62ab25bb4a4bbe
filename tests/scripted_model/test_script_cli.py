"""`yb script`: what it serves, how it ends, what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from talking import request
from yb import SCRIPT, yb
from youbencha.cli.serving import serve_script
from youbencha.errors import YouBenchaError


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text("turns: [{text: 'hello ${who}'}, {hang: true}]\n")
    return path


@contextmanager
def served(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [SCRIPT, "script", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def post(url: str) -> bytes:
    body = json.dumps(request(stream=False)).encode()
    asked = urllib.request.Request(url + "/v1/messages", body, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as response:
        return bytes(response.read())


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_exits_with_0(number: signal.Signals, script: Path) -> None:
    with served(str(script), "--var", "who=world=all") as process:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        assert list(ready) == ["url"]
        assert json.loads(post(ready["url"]))["content"][0]["text"] == "hello world=all"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    assert err == "POST /v1/messages · 200 · turn 1 · claude-test · 1 messages\n"


def test_the_port_can_be_chosen(script: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(YouBenchaError, match="Cannot listen") as caught:
            serve_script(script, listen=f"127.0.0.1:{port}", var=["who=x"])
        assert caught.value.code == "SCRIPT_LISTEN_FAILED"
    with served(str(script), "--var", "who=x", "--listen", f"127.0.0.1:{port}") as process:
        assert process.stdout
        assert json.loads(process.stdout.readline()) == {"url": f"http://127.0.0.1:{port}"}


def test_a_missing_variable_is_found_before_it_starts(script: Path) -> None:
    done = yb("script", str(script))
    assert (done.returncode, done.stdout) == (2, "")
    assert "turns.0.text: unknown variable 'who' (known: cwd)" in done.stderr


@pytest.mark.parametrize("var", ["who", "=x", "1a=x", ""])
def test_invalid_variables(var: str, script: Path) -> None:
    with pytest.raises(YouBenchaError, match="not a variable"):
        serve_script(script, var=[var])


@pytest.mark.parametrize("listen", ["8080", ":8080", "localhost", "localhost:http", "localhost:70000", "a:²"])
def test_invalid_addresses(listen: str, script: Path) -> None:
    with pytest.raises(YouBenchaError, match="is not an address"):
        serve_script(script, listen=listen, var=["who=x"])
