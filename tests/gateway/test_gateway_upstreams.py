"""The upstreams: their URLs, their keys, and proxies."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_bench import (
    ANTHROPIC,
    APIS,
    EVENTS,
    MESSAGE,
    Api,
    Connection,
    RawUpstream,
    gateway_at,
    upstreams_at,
    whole,
)

from systems import posix_only
from youbencha.errors import YouBenchaError
from youbencha.gateway.forward import load_certificates, new_client, proxy_for
from youbencha.gateway.request import retry_after_s
from youbencha.gateway.upstreams import Upstream, find_upstreams, read_secrets, same_for_all, without_version
from youbencha.spec.gateway import GatewaySpec, UpstreamSpec, UpstreamSpecs


def test_without_a_key_there_is_no_upstream() -> None:
    assert find_upstreams(GatewaySpec(), {}) == {}
    assert find_upstreams(GatewaySpec(), {"OPENAI_API_KEY": "", "GEMINI_API_KEY": " \n"}) == {}
    assert find_upstreams(GatewaySpec(), {"ANTHROPIC_BASE_URL": "http://a"}) == {}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, ("anthropic", "https://api.anthropic.com", "k", "x-api-key")),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, ("anthropic", "https://api.anthropic.com", "t", "authorization")),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://h:1/p/"},
            ("anthropic", "http://h:1/p", "k", "x-api-key"),
        ),
        ({"ANTHROPIC_API_KEY": "k\n", "ANTHROPIC_API_BASE": "http://a"}, ("anthropic", "http://a", "k", "x-api-key")),
        ({"OPENAI_API_KEY": "k"}, ("openai", "https://api.openai.com", "k", "authorization")),
        ({"CODEX_API_KEY": "c"}, ("openai", "https://api.openai.com", "c", "authorization")),
        (
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://o/v1", "OPENAI_API_BASE": "http://no/v1"},
            ("openai", "http://o", "k", "authorization"),
        ),
        ({"GOOGLE_API_KEY": "g"}, ("gemini", "https://generativelanguage.googleapis.com", "g", "x-goog-api-key")),
        (
            {"GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://g/v1beta/"},
            ("gemini", "http://g", "k", "x-goog-api-key"),
        ),
    ],
)
def test_upstreams_from_the_environment(env: dict[str, str], expected: tuple[str, str, str, str]) -> None:
    assert [tuple(upstream)[:4] for upstream in find_upstreams(GatewaySpec(), env).values()] == [expected]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://o", "http://o/v1/chat/completions"),
        ("http://o/v1/", "http://o/v1/chat/completions"),
        ("http://o/litellm/v1", "http://o/litellm/v1/chat/completions"),
        ("http://o/v1beta/openai/", "http://o/v1beta/openai/chat/completions"),
        ("http://o/api/paas/v4", "http://o/api/paas/v4/chat/completions"),
    ],
)
def test_the_api_version_is_not_repeated_in_a_url(base: str, url: str) -> None:
    upstream = find_upstreams(GatewaySpec(), {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": base})["openai"]
    assert upstream.full_url("/v1/chat/completions") == url


def test_the_configuration_wins_over_the_environment() -> None:
    given = UpstreamSpec(url="http://written/v1", key_env="MY_KEY")
    spec = GatewaySpec(upstreams=UpstreamSpecs(openai=given))
    env = {"MY_KEY": "mine", "OPENAI_API_KEY": "other", "OPENAI_BASE_URL": "http://other", "ANTHROPIC_API_KEY": "a"}
    found = find_upstreams(spec, env)
    assert found["openai"] == Upstream("openai", "http://written", "mine", "authorization")
    assert set(found) == {"openai", "anthropic"}


def test_a_key_for_another_header() -> None:
    spec = GatewaySpec(upstreams=UpstreamSpecs(anthropic=UpstreamSpec(key_env="ANTHROPIC_AUTH_TOKEN")))
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_AUTH_TOKEN": "t"}
    assert find_upstreams(spec, env)["anthropic"].credentials() == {"authorization": "Bearer t"}


@pytest.mark.parametrize("env", [{}, {"MY_KEY": ""}, {"MY_KEY": "\n"}])
def test_a_named_key_that_is_not_set(env: dict[str, str]) -> None:
    spec = GatewaySpec(upstreams=UpstreamSpecs(gemini=UpstreamSpec(key_env="MY_KEY")))
    with pytest.raises(YouBenchaError, match=r"gateway\.upstreams\.gemini\.key_env: MY_KEY is not set"):
        find_upstreams(spec, {**env, "GEMINI_API_KEY": "k"})


def test_a_key_is_not_shown() -> None:
    found = find_upstreams(GatewaySpec(), {"OPENAI_API_KEY": "very-secret"})
    assert "very-secret" not in repr(found)
    assert "very-secret" not in f"{found['openai']}"


def test_one_url_for_all_apis() -> None:
    found = same_for_all("http://localhost:4000/v1/", "k")
    assert {upstream.url for upstream in found.values()} == {"http://localhost:4000"}
    assert {name: upstream.credentials() for name, upstream in found.items()} == {
        "anthropic": {"x-api-key": "k"},
        "openai": {"authorization": "Bearer k"},
        "gemini": {"x-goog-api-key": "k"},
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        ("http://h/v1", "http://h"),
        (" http://h/v1/ ", "http://h"),
        ("http://h/api/v1beta", "http://h/api"),
        ("http://h/v1alpha/", "http://h"),
        ("http://h/v12", "http://h/v12"),
        ("http://h/v1/more", "http://h/v1/more"),
        ("http://v1", "http://v1"),
    ],
)
def test_versions_of_base_urls(url: str, expected: str) -> None:
    assert without_version(url) == expected


def _secrets(directory: Path, content: bytes, mode: int = 0o600) -> Path:
    path = directory / "secrets.env"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_secrets_file(tmp_path: Path) -> None:
    content = b"""\xef\xbb\xbf# the first line is a comment
PLAIN=sk-1=2#3
export  EXPORTED = with spaces

  SINGLE='$HOME # "x"'
DOUBLE="it's"
COMMENTED=value # why
QUOTED="a # b"   # why
EMPTY=
NOTHING= # only a comment
UNCLOSED="half\r
LAST=1"""
    assert read_secrets(_secrets(tmp_path, content)) == {
        "PLAIN": "sk-1=2#3",
        "EXPORTED": "with spaces",
        "SINGLE": '$HOME # "x"',
        "DOUBLE": "it's",
        "COMMENTED": "value",
        "QUOTED": "a # b",
        "EMPTY": "",
        "NOTHING": "",
        "UNCLOSED": '"half',
        "LAST": "1",
    }


@pytest.mark.parametrize("line", ["sk-very-secret", "1KEY=sk-very-secret", "MY KEY=sk-very-secret", "=sk-very-secret"])
def test_an_invalid_line_is_not_shown(line: str, tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        read_secrets(_secrets(tmp_path, f"A=1\n{line}\n".encode()))
    assert caught.value.code == "SECRETS_FILE_INVALID"
    assert ":2 is not of the form NAME=VALUE" in caught.value.message
    assert "very-secret" not in repr(vars(caught.value)) + str(caught.value)


@posix_only("there, permissions are other ones")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606, 0o660])
def test_a_secrets_file_that_others_may_read(mode: int, tmp_path: Path) -> None:
    with pytest.raises(YouBenchaError, match="readable by other users") as caught:
        read_secrets(_secrets(tmp_path, b"A=1", mode))
    assert (caught.value.code, caught.value.hint) == (
        "SECRETS_FILE_OPEN",
        f"Run `chmod 600 {tmp_path / 'secrets.env'}`.",
    )


def test_a_secrets_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path, _secrets(tmp_path, b"A=\xff")):
        with pytest.raises(YouBenchaError, match="The secrets file cannot be read"):
            read_secrets(path)


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment that says nothing of proxies yet."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    proxy_for.cache_clear()
    yield monkeypatch
    proxy_for.cache_clear()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com", "http://secure:1"),
        ("http://api.example.com", "http://plain:2"),
        ("https://inner.example.org/x", None),
        ("https://deep.inner.example.org", None),
        ("https://by-port.example:8443", None),
        ("https://by-port.example", "http://secure:1"),
        ("http://localhost:4000", None),
        ("http://127.0.0.1:4000", None),
        ("http://127.1.2.3", None),
        ("http://[::1]:4000", None),
        ("http://[2001:db8::1]:80", "http://plain:2"),
    ],
)
def test_proxies(url: str, expected: str | None, proxies: pytest.MonkeyPatch) -> None:
    proxies.setenv("HTTPS_PROXY", "http://secure:1")
    proxies.setenv("http_proxy", "plain:2")  # without a scheme, as curl takes it too
    proxies.setenv("NO_PROXY", "inner.example.org, by-port.example:8443")
    assert proxy_for(url) == expected


def test_without_proxies(proxies: pytest.MonkeyPatch) -> None:
    assert proxy_for("https://api.example.com") is None


async def test_a_proxy_is_used(proxies: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(b"{}"))

    async with RawUpstream(answer) as proxy:
        proxies.setenv("http_proxy", proxy.url.replace("://", "://user:pass@"))
        async with gateway_at("http://api.invalid", tmp_path) as bench:
            assert (await bench.ask()).status == 200
    assert proxy.seen[0].head.startswith("POST http://api.invalid/v1/messages HTTP/1.1\r\n")
    assert proxy.seen[0].header("proxy-authorization") == ["Basic dXNlcjpwYXNz"]


async def test_a_failing_proxy_does_not_reveal_its_password(proxies: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def refuse(connection: Connection) -> None:
        await connection.say(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")

    async with RawUpstream(refuse) as proxy:
        proxies.setenv("https_proxy", proxy.url.replace("://", "://user:pa55word@"))
        async with gateway_at("https://api.invalid", tmp_path) as bench:
            answer = await bench.ask()
    assert answer.status == 502
    assert b"pa55word" not in answer.raw
    assert proxy.seen[0].head.startswith("CONNECT api.invalid:443")


async def test_certificates_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(tmp_path / "missing.pem"))
    certificates = load_certificates(upstreams_at("https://api.invalid"))
    assert certificates is not None
    async with new_client(certificates):
        pass
    assert load_certificates(upstreams_at("http://api.invalid")) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("17", 17.0), (" 1.5 ", 1.5), ("0", 0.0), ("", None), ("-1", None), ("1e9", None), ("nan", None), ("9" * 40, None),
     ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)  # fmt: skip
def test_retry_after(value: str, expected: float | None) -> None:
    assert retry_after_s({"retry-after": value}) == expected


@pytest.mark.parametrize("stream", [True, False])
async def test_litellms_own_headers_are_removed(stream: bool, tmp_path: Path) -> None:
    own = "x-litellm-model-api-base: http://inside\r\nx-litellm-key-spend: 0.1\r\nllm_provider-date: today\r\n"
    passed_on = "llm_provider-x-ratelimit-remaining-requests: 3\r\nllm_provider-request-id: req_1\r\nx-own: kept\r\n"
    kind = "text/event-stream" if stream else "application/json"
    body = b"".join(EVENTS) if stream else json.dumps({"type": "message", **MESSAGE}).encode()

    async def answer(connection: Connection) -> None:
        await connection.say(whole(body, kind=kind, headers=own + passed_on))

    async with RawUpstream(answer) as upstream:
        given = same_for_all(upstream.url, "k", is_litellm=True)
        async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
            heard = await bench.ask(stream=stream)
    assert (heard.status, heard.raw) == (200, body)
    assert {name: value for name, value in heard.headers.items() if name.lower().startswith(("x-", "llm", "req"))} == {
        "x-ratelimit-remaining-requests": "3",
        "request-id": "req_1",
        "x-own": "kept",
    }


async def test_a_compressed_error_of_litellm_is_readable(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": "litellm.Timeout: AnthropicException - slow", "type": "timeout"}}).encode()

    async def answer(connection: Connection) -> None:
        await connection.say(whole(gzip.compress(body), "408 Request Timeout", headers="Content-Encoding: gzip\r\n"))

    async with RawUpstream(answer) as upstream:
        given = same_for_all(upstream.url, "k", is_litellm=True)
        async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
            heard = await bench.ask()
    assert (heard.status, heard.raw, heard.headers.get("content-encoding")) == (408, body, None)


def seen_by_upstream(body: bytes) -> Callable[[Connection], Awaitable[None]]:
    async def answer(connection: Connection) -> None:
        await connection.say(whole(body))

    return answer


ORDERS: list[dict[str, Any]] = [
    {"fallbacks": ["claude-opus-4-5"]},
    {"context_window_fallbacks": [{"a": ["b"]}]},
    {"num_retries": 50},
    {"api_base": "http://elsewhere"},
    {"mock_response": "free"},
    {"litellm_metadata": {}},
    {"model": "claude-haiku-4-5,claude-opus-4-5"},
    {"extra_body": {"max_tokens": 100_000}},
    {"user_config": {"model_list": []}},
    {"guardrails": ["g"]},
    {"prompt_id": "p"},
    {"n": 50},
    {"best_of": 50},
    {"metadata": {"user_id": "u", "tags": ["expensive"]}},
    {"tools": [{"type": "mcp", "server_url": "litellm_proxy"}]},
    {"aws_region_name": "eu-central-1"},
    {"vertex_credentials": "/etc/passwd"},
    {"a_field_of_next_year": True},
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: next(iter(order)))
async def test_unmetered_litellm_fields_are_removed(order: dict[str, Any], tmp_path: Path) -> None:
    async with RawUpstream(seen_by_upstream(b"{}")) as upstream:
        given = same_for_all(upstream.url, "k", is_litellm=True)
        async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
            heard = await bench.ask(**order)
            call = await bench.call()
            grant = await bench.end()
    assert (heard.status, call.error, upstream.seen) == (400, "not_metered", [])
    assert "not passed on to LiteLLM" in heard.raw.decode()
    assert (grant.account.spent_tokens, grant.account.unseen_tokens, grant.account.reserved_tokens) == (0, 0, 0)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.wire)
async def test_fields_of_the_apis_are_passed_on_to_litellm(api: Api, tmp_path: Path) -> None:
    async with RawUpstream(seen_by_upstream(b"{}")) as upstream:
        given = same_for_all(upstream.url, "k", is_litellm=True)
        async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
            heard = await bench.ask(api, metadata={"user_id": "u"} if api is ANTHROPIC else None)
    assert heard.status == 200
    assert json.loads(upstream.seen[0].body).items() >= api.request()[1].items()


async def test_unmetered_forms_queries_and_headers_are_removed(tmp_path: Path) -> None:
    """`?model=` was asked for, and the body's paid for; a form can be JSON to us and another request to LiteLLM."""
    body = b'{"model":"claude-haiku-4-5","max_tokens":1,"stop_sequences":["&model=claude-opus-4-5&input=hello&"]}'
    path = "/v1/messages?model=claude-opus-4-5&beta=true&api-version=1&%6dodel=x"
    async with RawUpstream(seen_by_upstream(json.dumps({"type": "message", **MESSAGE}).encode())) as upstream:
        for is_litellm, sent_on in ((True, "/v1/messages?beta=true"), (False, "/v1/messages?beta=true&api-version=1")):
            given = same_for_all(upstream.url, "k", is_litellm=is_litellm)
            async with gateway_at(upstream.url, tmp_path, upstreams=given) as bench:
                orders = {"x-litellm-num-retries": "9", "content-type": "application/x-www-form-urlencoded"}
                key = {"x-api-key": bench.access.key}
                assert (await bench.send("POST", path, data=body, headers={**orders, **key})).status == 200
            seen = upstream.seen[-1]
            assert seen.head.split()[1] == sent_on
            assert seen.header("x-litellm-num-retries") == []
            kind = "application/json" if is_litellm else "application/x-www-form-urlencoded"
            assert seen.header("content-type") == [kind]
            assert seen.body == body
