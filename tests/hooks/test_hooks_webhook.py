"""Results sent to a real server: the request, its retries, and secrets that are not reported."""

from __future__ import annotations

import asyncio
import os
import socket
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hook_bench import HookBench, bundle
from hook_server import server, status

from systems import posix_only
from youbencha import __version__
from youbencha.hooks import RetryPolicy, run_post_evaluation
from youbencha.hooks.webhook import MIB, parse_retry_after, read_artifacts
from youbencha.spec.testcase import WebhookConfig, WebhookHook
from youbencha.store.bundle import ArtifactManifest, HookResult, ResultsBundle


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Patience:
    """Waits for nothing, and remembers how long it should have."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


async def post(
    bench: HookBench,
    url: str,
    *,
    patience: Patience | None = None,
    results: ResultsBundle | None = None,
    env: dict[str, str] | None = None,
    **config: Any,
) -> HookResult:
    hook = WebhookHook(name="webhook", config=WebhookConfig(url=url, **config))
    results = results or bundle()
    (result,) = await run_post_evaluation(
        [hook],
        results,
        bench.after(results, {**os.environ, **(env or {})}),
        retries=RetryPolicy(sleep=(patience or Patience()).sleep),
    )
    return result


async def test_the_results_are_sent(hook_bench: HookBench) -> None:
    async with server(status(204)) as received:
        result = await post(hook_bench, f"{received.address}/hook", headers={"X-Team": "${TEST_CASE_NAME}"})
    assert received.bodies == [bundle().model_dump(mode="json")]
    (request,) = received.requests
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"] == f"youbencha/{__version__}"
    assert request.headers["X-Team"] == "Fix it"
    assert result.status == "success"
    assert result.message == "delivered with one attempt, status 204"
    assert {name: result.metadata[name] for name in ("url", "method", "status_code", "attempts")} == {
        "url": f"{received.address}/hook",
        "method": "POST",
        "status_code": 204,
        "attempts": 1,
    }


async def test_method_and_headers_are_configurable(hook_bench: HookBench) -> None:
    headers = {"content-type": "application/vnd.x+json", "Authorization": "Bearer ${TOKEN_X}"}
    async with server(status(200)) as received:
        result = await post(
            hook_bench, f"{received.address}/", method="PUT", headers=headers, env={"TOKEN_X": "tok-123456"}
        )
    (request,) = received.requests
    assert request.method == "PUT"
    assert request.headers.getall("Content-Type") == ["application/vnd.x+json"]
    assert request.headers["Authorization"] == "Bearer tok-123456"
    assert result.status == "success"
    assert "tok-123456" not in result.model_dump_json()


@pytest.mark.parametrize("code", [408, 425, 429, 500, 503])
async def test_server_errors_are_retried(code: int, hook_bench: HookBench) -> None:
    patience = Patience()
    async with server(status(code), status(code), status(200)) as received:
        result = await post(hook_bench, received.address, patience=patience)
    assert (result.status, result.metadata["attempts"], result.metadata["status_code"]) == ("success", 3, 200)
    assert patience.waited == [1.0, 2.0]
    assert len(received.requests) == 3


async def test_three_attempts_are_enough(hook_bench: HookBench) -> None:
    async with server(status(503, "try later")) as received:
        result = await post(hook_bench, received.address)
    assert len(received.requests) == 3
    assert result.status == "failed"
    assert result.message == "not delivered with 3 attempts: status 503: try later"
    assert result.error
    assert result.error.code == "HOOK_WEBHOOK_FAILED"


@pytest.mark.parametrize("code", [400, 401, 404, 410])
async def test_a_refusal_is_final(code: int, hook_bench: HookBench) -> None:
    async with server(status(code)) as received:
        result = await post(hook_bench, received.address)
    assert (result.status, result.metadata["status_code"], len(received.requests)) == ("failed", code, 1)


async def test_retries_can_be_turned_off(hook_bench: HookBench) -> None:
    async with server(status(503)) as received:
        result = await post(hook_bench, received.address, retry_on_failure=False)
    assert (result.metadata["attempts"], len(received.requests)) == (1, 1)


@pytest.mark.parametrize(("asked", "waited"), [("7", [7.0]), ("0", [1.0]), ("3600", [30.0]), ("soon", [1.0])])
async def test_retry_after_is_respected_within_bounds(asked: str, waited: list[float], hook_bench: HookBench) -> None:
    patience = Patience()
    async with server(status(429, Retry_After=asked), status(200)) as received:
        result = await post(hook_bench, received.address, patience=patience)
    assert result.status == "success"
    assert patience.waited == waited


def test_a_date_to_wait_for() -> None:
    in_an_hour = parse_retry_after(formatdate(4_000_000_000, usegmt=True))
    assert in_an_hour is not None
    assert in_an_hour > 3600
    assert parse_retry_after(formatdate(1, usegmt=True)) == 0.0
    assert parse_retry_after(None) is None
    assert parse_retry_after("9" * 400) == 999_999_999.0


async def test_a_timeout_is_retried(hook_bench: HookBench) -> None:
    done = asyncio.Event()

    async def never(_: web.Request) -> web.StreamResponse:
        await done.wait()
        return web.Response()

    async with server(never) as received:
        result = await post(hook_bench, received.address, timeout_ms=100)
        done.set()
    assert (result.status, result.metadata["attempts"], result.metadata["status_code"]) == ("failed", 3, None)
    assert result.message == "not delivered with 3 attempts: no answer within 100 ms"


async def test_a_closed_port_is_retried(hook_bench: HookBench) -> None:
    with socket.socket() as reserved:  # bound, but not listening
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        result = await post(hook_bench, f"http://127.0.0.1:{port}/secret-path?token=abcdef123", timeout_ms=20_000)
    assert (result.status, result.metadata["attempts"]) == ("failed", 3)
    assert f"127.0.0.1:{port}" in result.message
    assert "abcdef123" not in result.model_dump_json()


async def test_an_invalid_http_answer_is_reported_without_the_address(hook_bench: HookBench) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ready\r\n")
        await writer.drain()
        await reader.read(100_000)
        writer.close()

    mail = await asyncio.start_server(babble, "127.0.0.1", 0)
    port = mail.sockets[0].getsockname()[1]
    async with mail:
        result = await post(hook_bench, f"http://127.0.0.1:{port}/?token=abcdef123")
    assert result.status == "failed"
    assert "cannot be read as HTTP" in result.message
    assert "abcdef123" not in result.model_dump_json()


async def test_a_redirection_is_not_followed(hook_bench: HookBench) -> None:
    """It would send the headers to another server."""
    async with server(status(200)) as other, server(status(307, Location=f"{other.address}/x?y=z")) as received:
        result = await post(hook_bench, received.address, headers={"Authorization": "Bearer abcdef123"})
    assert other.requests == []
    assert (result.status, len(received.requests)) == ("failed", 1)
    assert result.error
    assert result.error.hint == "It has moved to http://127.0.0.1: write that address."


async def test_secrets_are_not_reported(hook_bench: HookBench) -> None:
    """Not even if the server repeats it."""

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(status=400, text=f"{dict(request.headers)} {request.path_qs}")

    async with server(echo) as received:
        host = received.address.removeprefix("http://")
        result = await post(
            hook_bench,
            "http://me:pass-word-1@" + host + "${HOOK_PATH}?token=query-secret-2",
            headers={"X-Key": "header-secret-3"},
            env={"HOOK_PATH": "/services/path-secret-4"},
        )
    assert received.requests[0].path_qs == "/services/path-secret-4?token=query-secret-2"
    assert result.metadata["url"] == f"http://{host}${{HOOK_PATH}}"
    text = result.model_dump_json()
    assert [
        secret for secret in ("pass-word-1", "query-secret-2", "header-secret-3", "path-secret-4") if secret in text
    ] == []
    assert "[REDACTED]" in result.message


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "HOOK_CONFIG_INVALID"),
        ("example.com", "HOOK_CONFIG_INVALID"),
        ("http://", "HOOK_CONFIG_INVALID"),
        ("http://[::1/", "HOOK_CONFIG_INVALID"),
        ("http://x:99999/", "HOOK_CONFIG_INVALID"),
        ("http://${NOBODY_KNOWS_THIS}/", "HOOK_VARIABLE_UNKNOWN"),
    ],
)
async def test_an_invalid_address(url: str, code: str, hook_bench: HookBench) -> None:
    result = await post(hook_bench, url)
    assert (result.status, result.error and result.error.code) == ("failed", code)


async def test_a_header_that_is_not_defined_is_never_sent(hook_bench: HookBench) -> None:
    async with server(status(200)) as received:
        result = await post(hook_bench, received.address, headers={"Authorization": "Bearer ${NOBODY_KNOWS_THIS}"})
    assert received.requests == []
    assert (result.status, result.error and result.error.code) == ("failed", "HOOK_VARIABLE_UNKNOWN")


async def test_artifacts_are_sent_on_request(hook_bench: HookBench) -> None:
    (hook_bench.artifacts / "report.md").write_text("# ä\n", encoding="utf-8")
    (hook_bench.artifacts / "git-diff.patch").write_bytes(b"\xff\xfe")
    async with server(status(200)) as received:
        result = await post(hook_bench, received.address, include_artifacts=True)
    assert result.status == "success"
    (body,) = received.bodies
    assert body["artifact_contents"] == {"report.md": "# ä\n"}
    assert body["artifacts_left_out"] == {
        "git-diff.patch": "is not text",
        "youbencha-log.json": "cannot be opened: No such file or directory",
    }
    assert body["summary"]["overall_status"] == "passed"


def test_artifacts_are_bounded(tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(12)]
    for name in names:
        (tmp_path / name).write_bytes(b"x" * MIB)
    (tmp_path / "large.txt").write_bytes(b"x" * (MIB + 1))
    texts = read_artifacts(ArtifactManifest(reports=("large.txt", *names)), tmp_path)
    assert list(texts.contents) == names[:10]
    assert texts.left_out == {
        "large.txt": "is larger than 1 MiB",
        "10.txt": "exceeds 10 MiB together with the others",
        "11.txt": "exceeds 10 MiB together with the others",
    }


@posix_only("links and pipes")
def test_only_files_of_the_artifacts_leave_the_machine(tmp_path: Path) -> None:
    inside = tmp_path / "artifacts"
    inside.mkdir()
    (tmp_path / "private").write_text("private")
    (inside / "link").symlink_to(tmp_path / "private")
    os.mkfifo(inside / "pipe")
    texts = read_artifacts(ArtifactManifest(reports=("link", "../private", "pipe")), inside)
    assert texts.contents == {}
    assert texts.left_out == {
        "link": "is a link, or behind one",
        "../private": "is outside its directory",
        "pipe": "is not a regular file",
    }


async def test_a_proxy_of_the_environment_is_used(hook_bench: HookBench, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(status(200)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        result = await post(hook_bench, "http://results.invalid/hook")
    assert result.status == "success"
    assert str(proxy.requests[0].url) == "http://results.invalid/hook"
