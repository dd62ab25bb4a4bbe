"""The webhook hook: send the results as JSON to an address.

Nothing that may be secret is shown: no header's value, no password or query of the address, and of the address itself
only what the user wrote (for example, only `${SLACK_URL}`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from youbencha import __version__
from youbencha.errors import YouBenchaError
from youbencha.files import open_nofollow
from youbencha.hooks.context import HookContext, HookOutcome
from youbencha.hooks.database import as_json_bytes
from youbencha.process import Redactor
from youbencha.spec.testcase import WebhookConfig
from youbencha.store.bundle import ArtifactManifest, ResultsBundle

if TYPE_CHECKING:
    from aiohttp import ClientSession


_EXCERPT_BYTES = 500

_MIN_SECRET_CHARS = 6
"""The same limit as everywhere: shorter values ("prod") occur in ordinary texts."""

_RETRYABLE_STATUS = frozenset({408, 425, 429})
"""Besides 5xx: the server is busy or broken. Any other error would only be repeated."""

_SCHEMES = ("http://", "https://")
_CREDENTIALS = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)
MIB = 1024 * 1024
MAX_ARTIFACT_BYTES = MIB
MAX_ALL_ARTIFACT_BYTES = 10 * MIB


@dataclass(frozen=True, kw_only=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float
    proxy: str | None
    redactor: Redactor


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """The server's answer; `status` is None if there was none."""

    status: int | None
    reason: str
    retry_after_s: float | None = None
    moved_to: str | None = None

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed."""
        return self.status is None or self.status in _RETRYABLE_STATUS or self.status >= 500


async def send(config: WebhookConfig, context: HookContext, bundle: ResultsBundle, policy: RetryPolicy) -> HookOutcome:
    request = await asyncio.to_thread(_request, config, context, bundle)
    answer, attempts = await _deliver(request, policy if config.retry_on_failure else RetryPolicy(waits_s=()))
    metadata = {
        "url": _shown(config.url),
        "method": config.method,
        "status_code": answer.status,
        "attempts": attempts,
        "sent_bytes": len(request.body),
    }
    tries = "one attempt" if attempts == 1 else f"{attempts} attempts"
    if answer.accepted:
        return HookOutcome(message=f"delivered with {tries}, status {answer.status}", metadata=metadata)
    hint = f"It has moved to {answer.moved_to}: write that address." if answer.moved_to else None
    message = f"not delivered with {tries}: {answer.reason}"
    return HookOutcome(message=message, metadata=metadata, error="HOOK_WEBHOOK_FAILED", hint=hint)


def _request(config: WebhookConfig, context: HookContext, bundle: ResultsBundle) -> _Request:
    from youbencha.gateway.forward import proxy_for

    url = context.exact(config.url, "url").strip()
    address = _require_address(url)
    given = {name: context.exact(value, f"headers.{name}") for name, value in config.headers.items()}
    defaults = {"Content-Type": "application/json", "User-Agent": f"youbencha/{__version__}"}
    known = {name.lower() for name in given}
    return _Request(
        method=config.method,
        url=url,
        headers={**{name: value for name, value in defaults.items() if name.lower() not in known}, **given},
        body=as_json_bytes(_payload(config, bundle, context.artifacts_dir, context.redactor)),
        timeout_s=config.timeout_s,
        proxy=proxy_for(url),
        redactor=Redactor(_secrets(address, given)),
    )


def _payload(config: WebhookConfig, bundle: ResultsBundle, artifacts_dir: Path, redactor: Redactor) -> dict[str, Any]:
    payload = bundle.model_dump(mode="json")
    if config.include_artifacts:
        texts = read_artifacts(bundle.artifacts, artifacts_dir)
        masked = {path: redactor.text(text) for path, text in texts.contents.items()}  # a patch may contain a key
        payload |= {"artifact_contents": masked, "artifacts_left_out": texts.left_out}
    return payload


def _require_address(url: str) -> SplitResult:
    address = parse_address(url)
    if address is None:
        raise YouBenchaError("HOOK_CONFIG_INVALID", "`url` must be an http or https address, with a host.")
    return address


def _secrets(address: SplitResult, headers: Mapping[str, str]) -> list[str]:
    """List the parts of the request that a server may repeat in its answer, and that must not be shown."""
    parts = [address.query, address.password or "", address.path.lstrip("/")]
    parts += [part for pair in address.query.split("&") for part in pair.split("=")[1:]]
    parts += [part for value in headers.values() for part in (value, *value.split())]
    return [part for part in parts if len(part) >= _MIN_SECRET_CHARS]


def _shown(url: str) -> str:
    """Return the address as it was written, without user, password and query."""
    try:
        address = urlsplit(url)
        return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", ""))
    except ValueError:
        return ""


async def _deliver(request: _Request, policy: RetryPolicy) -> tuple[_Answer, int]:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=request.timeout_s)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        attempts = 0
        while True:
            attempts += 1
            answer = await _attempt(session, request)
            wait_s = policy.wait_s(attempts, answer.retry_after_s)
            if answer.accepted or not answer.is_retryable or wait_s is None:
                return answer, attempts
            await policy.sleep(wait_s)


async def _attempt(session: ClientSession, request: _Request) -> _Answer:
    import aiohttp

    try:
        # Redirects are not followed: they might lead to a host that must not get these headers.
        async with session.request(
            request.method,
            request.url,
            data=request.body,
            headers=request.headers,
            proxy=request.proxy,
            allow_redirects=False,
        ) as response:
            text = (await response.content.read(_EXCERPT_BYTES)).decode("utf-8", "replace")
            excerpt = " ".join(request.redactor.text(text).split())
            return _Answer(
                status=response.status,
                reason=f"status {response.status}" + (f": {excerpt}" if excerpt else ""),
                retry_after_s=parse_retry_after(response.headers.get("Retry-After")),
                moved_to=_host(response.headers.get("Location")) if 300 <= response.status < 400 else None,
            )
    except TimeoutError:
        return _Answer(status=None, reason=f"no answer within {request.timeout_s * 1000:,.0f} ms")
    except aiohttp.ClientConnectionError as error:
        return _Answer(status=None, reason=request.redactor.text(str(error)) or type(error).__name__)
    except aiohttp.ClientError as error:  # without its message, which contains the whole address
        return _Answer(status=None, reason=f"the answer cannot be read as HTTP ({type(error).__name__})")


def _host(location: str | None) -> str | None:
    try:
        address = urlsplit(location or "")
        return f"{address.scheme}://{address.hostname}" if address.hostname else None
    except ValueError:
        return None


@dataclass(frozen=True)
class RetryPolicy:
    waits_s: tuple[float, ...] = (1.0, 2.0)
    """The waits before the second attempt, the third, and so on."""
    max_wait_s: float = 30.0
    """The limit for what the server asks for."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def wait_s(self, failures: int, asked_s: float | None) -> float | None:
        """Return how long to wait after that many failures; None after the last attempt."""
        if failures > len(self.waits_s):
            return None
        return max(self.waits_s[failures - 1], min(asked_s or 0.0, self.max_wait_s))


def parse_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for: it has seconds, or a date."""
    text = (retry_after or "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])  # a longer number makes no difference
    if not text:
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def parse_address(url: str) -> SplitResult | None:
    """Parse the address of a webhook; None if it cannot be used."""
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # invalid brackets or port
        return None
    return address if usable else None


def may_become_an_address(url: str) -> bool:
    """Whether a text with `${NAME}` can become an address, judging by the part before the first reference."""
    known, reference, _ = url.strip().partition("${")
    if not reference:
        return parse_address(known) is not None
    folded = known.lower()
    if not folded.startswith(_SCHEMES):
        return any(scheme.startswith(folded) for scheme in _SCHEMES)
    host_is_known = re.search(r"[/?#]", known.partition("://")[2]) is not None
    return not host_is_known or parse_address(known) is not None


def holds_credentials(url: str) -> bool:
    """Whether the address has `user:password@` before the host."""
    return _CREDENTIALS.match(url.strip()) is not None


@dataclass
class ArtifactTexts:
    contents: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """The reason for each that was left out."""


def read_artifacts(manifest: ArtifactManifest, artifacts_dir: Path) -> ArtifactTexts:
    """Read the artifacts' texts, the most important first; what does not fit into one request is left out."""
    texts, remaining = ArtifactTexts(), MAX_ALL_ARTIFACT_BYTES
    single = [path for path in (manifest.diff, manifest.agent_log) if path]
    for path in dict.fromkeys((*manifest.reports, *single, *manifest.evaluator_artifacts)):
        try:
            raw = _read(path, artifacts_dir, remaining)
            texts.contents[path] = raw.decode("utf-8")
            remaining -= len(raw)
        except UnicodeDecodeError:
            texts.left_out[path] = "is not text"
        except OSError as error:
            texts.left_out[path] = error.strerror or str(error)
    return texts


def _read(path: str, artifacts_dir: Path, remaining: int) -> bytes:
    """Read an artifact without following links, which could lead to files that must not leave the machine."""
    with open_nofollow(artifacts_dir, path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_ARTIFACT_BYTES:
            raise OSError(errno.EFBIG, "is larger than 1 MiB")
        if size > remaining:
            raise OSError(errno.EFBIG, "exceeds 10 MiB together with the others")
        return file.read(remaining)
