"""The ledger: a line for every request, in spite of killed processes, damaged files and full disks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway_bench import ANTHROPIC, HELLO, GatewayBench, scripted_gateway, soon

from small_disk import run_with_small_disk
from systems import linux_only, posix_only
from youbencha.errors import YouBenchaError
from youbencha.gateway import ledger as ledger_module
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.ledger import Ledger, read_ledger
from youbencha.scripted_model import ScriptedModel, parse_script
from youbencha.usage import Tokens

CHILD = Path(__file__).with_name("ledger_child.py")
PROMISED = {
    "key",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "cost_usd",
    "status",
    "partial",
}


def _call(call_id: str = "1", **changes: Any) -> Call:
    tokens = Tokens(input=1, output=2, cache_read=3, cache_creation=4)
    call = Call(
        id=call_id,
        at=1_700_000_000.25,
        labels=Labels("trial-1", "agent-1", "run-1"),
        method="POST",
        path="/v1/messages",
        wire="anthropic-messages",
        requested_model="m",
        model="m",
        status=200,
        tokens=tokens,
        cost_usd=Decimal("0.0001"),
        partial=False,
    )
    return call._replace(**changes)


async def test_fields_of_a_line(tmp_path: Path) -> None:
    script = "usage: {input_tokens: 1000, output_tokens: 9, cache_read_input_tokens: 5, cache_creation_input_tokens: 6}"
    async with scripted_gateway(f"{script}\n{HELLO}", tmp_path) as (bench, _):
        for _ in range(3):
            await bench.ask()
        await bench.send("POST", "/v1/messages", json={})
        await bench.send("GET", "/nowhere", headers=ANTHROPIC.key(bench.access.key))
        for _ in range(5):
            await bench.call()
        lines = bench.lines()
        _is_beside(bench)
    assert len(lines) == 5
    assert all(set(line) >= PROMISED for line in lines)
    assert len({line["id"] for line in lines}) == 5
    line = lines[0]
    assert {name: line[name] for name in ("key", "agent", "run", "method", "path", "api", "model", "status")} == {
        "key": "trial-1",
        "agent": "agent-1",
        "run": "run-1",
        "method": "POST",
        "path": "/v1/messages",
        "api": "anthropic-messages",
        "model": "claude-opus-4-5",
        "status": 200,
    }
    counts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    assert [line[name] for name in counts] == [1000, 9, 5, 6]
    assert (line["cost_usd"] > 0, line["partial"], line["error"], line["stream"]) == (True, False, None, True)
    assert line["at"].endswith("Z")
    assert not bench.ledger.with_name("ledger.jsonl.open").exists()


def _is_beside(bench: GatewayBench) -> None:
    noted = bench.ledger.with_name("ledger.jsonl.open")
    assert noted.is_file()
    if os.name == "posix":
        assert {stat.S_IMODE(file.stat().st_mode) for file in (noted, bench.ledger)} == {0o600}


def test_the_ledger_is_append_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "directory" / "ledger.jsonl"
    for call_id in ("1", "2"):
        ledger = Ledger(path)
        ledger.begun(_call(call_id))
        ledger.ended(_call(call_id))
        ledger.close()
    assert [entry["id"] for entry in read_ledger(path)] == ["1", "2"]
    assert next(read_ledger(path))["at"] == "2023-11-14T22:13:20.250Z"


def test_a_ledger_has_a_single_writer(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = Ledger(path)
    first.begun(_call("1"))
    with pytest.raises(YouBenchaError, match="in use by another gateway"):
        Ledger(path)
    first.ended(_call("1"))
    first.close()
    second = Ledger(path)
    second.ended(_call("2"))
    second.close()
    assert [entry["id"] for entry in read_ledger(path)] == ["1", "2"]
    assert not path.with_name("ledger.jsonl.open").exists()


def test_a_torn_line_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"id": "1"}\n{"id": "2", "mod')
    ledger = Ledger(path)
    ledger.ended(_call("3"))
    ledger.close()
    assert [entry["id"] for entry in read_ledger(path)] == ["1", "3"]
    assert path.read_bytes().startswith(b'{"id": "1"}\n{"id": "2", "mod\n{')


def test_the_list_of_open_calls_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_MAX_NOTED_BYTES", 500)
    path = tmp_path / "ledger.jsonl"
    noted = path.with_name("ledger.jsonl.open")
    ledger, largest = Ledger(path), 0
    ledger.begun(_call("first"))
    for number in range(20):
        ledger.begun(_call(str(number)))
        ledger.ended(_call(str(number)))
    assert "first" in noted.read_text()  # it is still under way
    ledger.ended(_call("first"))
    for number in range(20, 100):
        ledger.begun(_call(str(number)))
        ledger.ended(_call(str(number)))
        largest = max(largest, noted.stat().st_size)
    assert largest < 1000
    ledger.close()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\n[1]\n{}\n"])
def test_an_invalid_list_of_open_calls(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.with_name("ledger.jsonl.open").write_bytes(content)
    ledger = Ledger(path)
    ledger.ended(_call("1"))
    ledger.close()
    assert [entry["id"] for entry in read_ledger(path) if "id" in entry] == ["1"]


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "ledger.jsonl", tmp_path):
        with pytest.raises(YouBenchaError, match="The ledger cannot be written") as caught:
            Ledger(path)
        assert caught.value.code == "LEDGER_NOT_WRITABLE"
        assert str(path) in caught.value.message


@posix_only("kill -9 is of POSIX")
@pytest.mark.repeat(5)
async def test_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    script = "usage: {input_tokens: 7}\nturns: [{text: hello}, {text: hello, hang: true}]"
    async with ScriptedModel(parse_script(script)) as model, aiohttp.ClientSession() as client:
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), "serve", str(path), model.url, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            url, key = json.loads(await soon(child.stdout.readline()))
            options: dict[str, Any] = {"json": {**ANTHROPIC.body, "stream": True}, "headers": {"x-api-key": key}}
            async with client.post(f"{url}/v1/messages", **options) as response:
                await response.read()
            async with client.post(f"{url}/v1/messages", **options) as response:
                await soon(response.content.readuntil(b"message_start"))
                os.kill(child.pid, signal.SIGKILL)
                await soon(child.wait())
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert [entry["partial"] for entry in read_ledger(path)] == [False]
    Ledger(path).close()
    ended, under_way = read_ledger(path)
    assert (ended["status"], ended["input_tokens"], ended["error"]) == (200, 7, None)
    assert (under_way["partial"], under_way["error"], under_way["key"]) == (True, "harness_killed", "trial-1")
    assert under_way["requested_model"] == "claude-opus-4-5"
    assert set(under_way) >= PROMISED
    assert {under_way[name] for name in PROMISED if name.endswith("_tokens")} == {None}
    Ledger(path).close()  # reported once
    assert len(list(read_ledger(path))) == 2


def test_a_full_disk(tmp_path: Path) -> None:
    """Calls continue, and the missing lines are reported."""
    disk = tmp_path / "disk"
    disk.mkdir()
    filled = f"head -c 8192 /dev/zero > '{disk}/filler'"
    fill = f"'{sys.executable}' '{CHILD}' fill '{disk}/ledger.jsonl'"
    done = run_with_small_disk(disk, "24k", f"{filled} && {fill}")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["statuses"], report["requests"]) == ([200] * 61, 61)
    assert "space" in report["failure"]
    lines = report["ledger"].splitlines()
    assert 5 < len(lines) < 61
    assert json.loads(lines[-1])["path"] == "/v1/models"  # on a line of its own, whatever was torn before


@linux_only("/dev/full is of Linux")
def test_a_full_device() -> None:
    ledger = Ledger(None)
    ledger._lines = os.open("/dev/full", os.O_WRONLY)
    ledger.ended(_call())
    ledger.ended(_call())
    assert ledger.failure == "No space left on device"
    ledger.close()


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(None)
    ledger.begun(_call("1"))
    ledger.ended(_call())
    ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_an_old_error_name_is_read_as_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"error": "call_too_dear"}\n{"error": ["odd"]}\n{"id": "1"}\n')
    assert list(read_ledger(path)) == [{"error": "call_over_cap"}, {"error": ["odd"]}, {"id": "1"}]
