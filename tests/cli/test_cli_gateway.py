"""`yb gateway`, as a user or a script runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import COST, MODEL, NO_KEYS, PRICE, REAL_KEY, Behind, model_behind, running

from yb import yb

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ended by signals")


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    with model_behind() as served:
        yield served


def test_keys_budgets_ledger_and_messages(behind: Behind, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.env"
    secrets.write_text(f"# mine\nexport ANTHROPIC_API_KEY='{REAL_KEY}'\n")
    secrets.chmod(0o600)
    options = ["--upstream", behind.url, "--secrets", "secrets.env", "--price", PRICE, "--ledger", "logs/calls.jsonl"]
    before = len(behind.requests)
    with running(*options, "--key", "alice=0.002", "--key", "bob", "--budget-total", "0.5", cwd=tmp_path) as gateway:
        assert gateway.ready.count("\n") == 1
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", gateway.url)
        assert list(gateway.keys) == ["alice", "bob"]
        alice, bob = gateway.keys.values()

        assert gateway.get("/healthz").json == {"status": "ok", "in_flight": 0}
        answer = gateway.ask(alice)
        assert (answer.status, answer.json["content"][0]["text"]) == (200, "Here you are.")
        refused = gateway.ask(alice)
        assert (refused.status, refused.json["error"]["type"]) == (402, "billing_error")
        assert gateway.ask(bob, stream=True).status == 200
        assert gateway.ask("sk-yb-forged-00000000000000000000").status == 401
        assert gateway.get("/v1/elsewhere%1b%5b31m", bob).status == 404
        metrics = gateway.get("/metrics").body.decode()
        assert f'requests_total{{error="",key="alice",model="{MODEL}",status="200"}} 1.0' in metrics
        out, err = gateway.stop()

    assert out == ""
    lines = [re.sub(r"^\d\d:\d\d:\d\d · ", "", line) for line in err.splitlines()]
    tokens = "100 in, 20 out, 7 cache read, 3 cache write"
    assert lines == [
        f"alice · {MODEL} · 200 · {tokens} · $0.0020 · total $0.0020",
        f"alice · {MODEL} · 402 · total $0.0020 · budget_exceeded",
        f"bob · {MODEL} · 200 · {tokens} · $0.0020 · total $0.0020",
        "(unknown) · – · 401 · key_unknown",
        "bob · – · GET /v1/elsewhere%1b%5b31m · 404 · total $0.0020 · not_found",
        f"alice · 2 requests · {tokens} · $0.0020 · 1 refused · < $0.0001 over $0.0020",
        f"bob · 2 requests · {tokens} · $0.0020",
        "all together · $0.4959 of $0.5000 left",
        "1 request without a valid key was refused",
    ]

    written = (tmp_path / "logs" / "calls.jsonl").read_text()
    first, second, third, fourth, fifth = map(json.loads, written.splitlines())
    counts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    assert [first[name] for name in counts] == [100, 20, 7, 3]
    assert (first["key"], first["model"], first["status"], first["partial"]) == ("alice", MODEL, 200, False)
    assert first["cost_usd"] == pytest.approx(COST)
    assert (second["status"], second["error"], second["cost_usd"]) == (402, "budget_exceeded", None)
    assert (third["key"], third["stream"], third["output_tokens"]) == ("bob", True, 20)
    assert (fourth["key"], fourth["error"]) == ("(unknown)", "key_unknown")
    assert fifth["error"] == "not_found"

    seen = behind.requests[before:]
    assert [each.headers["x-api-key"] for each in seen] == [REAL_KEY, REAL_KEY]
    for text in (err, written):
        assert not any(key in text for key in (REAL_KEY, alice, bob, "forged"))


def test_ctrl_c_ends_it_and_quiet_prints_nothing(behind: Behind, tmp_path: Path) -> None:
    with running("--upstream", behind.url, "--tokens-total", "100", "--quiet", cwd=tmp_path) as gateway:
        assert list(gateway.keys) == ["default"]
        assert [gateway.ask(gateway.keys["default"]).status for _ in range(2)] == [200, 402]
        assert behind.requests[-1].headers["x-api-key"] == "no-key"
        assert gateway.stop(signal.SIGINT) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_request_under_way_is_cut_off_and_counted(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the request, and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running("--upstream", url, "--ledger", "l.jsonl", cwd=tmp_path) as gateway:
            host, _, port = gateway.url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(
                    b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                    b"x-api-key: " + gateway.keys["default"].encode() + b"\r\n\r\n{}"
                )
                with silent.accept()[0] as upstream:
                    assert upstream.recv(4) == b"POST"
                    _, err = gateway.stop()
    assert "default · – · no answer · partial · key_ended" in err
    assert json.loads((tmp_path / "l.jsonl").read_text())["partial"] is True


def test_a_closed_stderr_does_not_stop_it(behind: Behind, tmp_path: Path) -> None:
    """SIGHUP, which comes when the terminal is closed, ends it properly. (Other tests here end it with SIGTERM.)"""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as closed, running("--upstream", behind.url, cwd=tmp_path, stderr=closed) as gateway:
        os.close(reading)
        key = gateway.keys["default"]
        assert [gateway.ask(key).status for _ in range(3)] == [200, 200, 200]
        gateway.stop(signal.SIGHUP)


def test_a_full_stderr_pipe_does_not_block_it(behind: Behind, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb") as full:
        os.set_blocking(writing, False)
        while full.raw.write(b"." * 4096):  # type: ignore[attr-defined]
            pass
        os.set_blocking(writing, True)
        with running("--upstream", behind.url, cwd=tmp_path, stderr=full) as gateway:
            assert gateway.ask(gateway.keys["default"]).status == 200
            assert gateway.get("/healthz").status == 200
            gateway.stop()


def test_a_recording_is_replayed_without_an_upstream(behind: Behind, tmp_path: Path) -> None:
    with running("--upstream", behind.url, "--record", "tape", cwd=tmp_path, ANTHROPIC_API_KEY=REAL_KEY) as gateway:
        recorded = gateway.ask(gateway.keys["default"])
        _, err = gateway.stop()
    assert err.splitlines()[-1] == f"cassette {tmp_path / 'tape'} · 1 recorded"
    before = len(behind.requests)
    with running("--replay", "tape", cwd=tmp_path) as gateway:
        replayed = gateway.ask(gateway.keys["default"])
        other = gateway.ask(gateway.keys["default"], messages=[{"role": "user", "content": "something else"}])
        _, err = gateway.stop()
    assert len(behind.requests) == before
    assert (replayed.status, replayed.json["content"]) == (200, recorded.json["content"])
    assert other.status == 400
    assert " · replayed\n" in err
    assert " · not_recorded\n" in err
    assert "something else" in err  # the difference, for people to see
    assert "1 not recorded" in err
    kept = b"".join(path.read_bytes() for path in (tmp_path / "tape").rglob("*") if path.is_file())
    assert REAL_KEY.encode() not in kept


def test_one_api_on_all_interfaces(behind: Behind, tmp_path: Path) -> None:
    with running("--upstream", f"openai={behind.url}/v1", "--listen", "0.0.0.0:0", cwd=tmp_path) as gateway:
        gateway.url = gateway.url.replace("0.0.0.0", "127.0.0.1")
        other_api = gateway.ask(gateway.keys["default"])
        assert gateway.get(f"/v1/{gateway.keys['default']}", gateway.keys["default"]).status == 404
        _, err = gateway.stop()
    assert (other_api.status, "no key for anthropic" in other_api.json["error"]["message"]) == (400, True)
    assert re.match(r"warning: http://0\.0\.0\.0:\d+ can be reached from other machines", err)
    assert "GET /v1/[REDACTED] · 404" in err


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], "GATEWAY_KEY_MISSING", "Export ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY"),
        (["--listen", ":80"], "ADDRESS_INVALID", "--listen :80"),
        (["--listen", "name.invalid:0", "--upstream", "http://127.0.0.1:9"], "GATEWAY_LISTEN_FAILED", "name.invalid"),
        (["--ledger", "file/l", "--upstream", "http://127.0.0.1:9"], "LEDGER_NOT_WRITABLE", "file/l"),
        (["--secrets", "nowhere"], "SECRETS_FILE_UNREADABLE", "--secrets takes a file of NAME=VALUE lines"),
        (["--secrets", "file"], "SECRETS_FILE_OPEN", "chmod 600 file"),
        (["--record", "a", "--replay", "b"], "OPTION_INVALID", "exclude each other"),
        (["--replay", "nowhere"], "CASSETTE_NOT_FOUND", "nothing to replay"),
        (["--budget-total", "much"], "BUDGET_INVALID", "--budget-total much"),
    ],
)
def test_invalid_options_are_reported(options: list[str], code: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    done = yb("gateway", *options, cwd=tmp_path, **NO_KEYS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error [{code}] ")
    assert says in done.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = yb("gateway", "--upstream", "http://127.0.0.1:9", "--listen", address, cwd=tmp_path)
    assert done.returncode == 2
    assert f"error [GATEWAY_LISTEN_FAILED] Cannot listen on {address}: " in done.stderr
