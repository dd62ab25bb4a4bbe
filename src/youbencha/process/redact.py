"""Mask secrets in everything that is written, even if one is split over two chunks.

Two kinds are known: values of the agent's environment whose names suggest a secret (in the forms in which they may be
printed: plain, JSON, URL, base64), and the shapes of well-known keys.
"""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    r"(.*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)|(API|ACCESS|PRIVATE|MASTER)?KEY|(DB|PG|SSH)?PASS|O?AUTH"
    r"|AUTHORIZATION|COOKIE|HEADER|DSN|WEBHOOK|PAT|SK)S?",
    re.I,
)
"""A word of a name, as in `GITHUB_TOKEN`, `authToken` or `OPENAI_APIKEY`; not in `KEYBOARD` or `TOKENIZERS`."""
_NOT_SECRET_NAME = re.compile(r"GIT_CONFIG_KEY_[0-9]+|.*_(SOCK|FILE|PATH|DIR)", re.I | re.S)
"""A setting of git, or a variable that holds a path."""
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_COUNT = re.compile(r"[0-9]*\Z")  # MAX_THINKING_TOKENS=128000 is a limit; masked, it would break JSON numbers
MIN_SECRET_CHARS = 6  # shorter values ("test", "none") are words that would be cut out of ordinary text
_TOKEN = rb"[A-Za-z0-9_\-+/=.~]"
TOKEN_CHARACTERS = (string.ascii_letters + string.digits + "_-+/=.~").encode()

SHAPES: dict[bytes, bytes] = {
    # prefix: what must follow (the whole run of token characters is then taken)
    b"sk-ant-": rb"[A-Za-z0-9_\-]{8}",
    b"sk-": rb"(?=[A-Za-z_\-]{0,64}[0-9])[A-Za-z0-9_\-]{20}",
    b"sk_live_": rb"[A-Za-z0-9]{16}",
    b"rk_live_": rb"[A-Za-z0-9]{16}",
    b"ghp_": rb"[A-Za-z0-9]{30}",
    b"gho_": rb"[A-Za-z0-9]{30}",
    b"ghs_": rb"[A-Za-z0-9]{30}",
    b"ghu_": rb"[A-Za-z0-9]{30}",
    b"github_pat_": rb"[A-Za-z0-9_]{22}",
    b"glpat-": rb"[A-Za-z0-9_\-]{20}",
    b"npm_": rb"[A-Za-z0-9]{36}",
    b"hf_": rb"[A-Za-z0-9]{30}",
    b"AIza": rb"[A-Za-z0-9_\-]{35}",
    b"AKIA": rb"[0-9A-Z]{16}",
    b"ASIA": rb"[0-9A-Z]{16}",
    b"xoxb-": rb"[A-Za-z0-9\-]{10}",
    b"xoxp-": rb"[A-Za-z0-9\-]{10}",
    b"eyJ": rb"[A-Za-z0-9_\-]{10,2000}\.eyJ[A-Za-z0-9_\-]{10}",
}

# A key starts where a word starts: "risk-assessment-framework-2026" is not "sk-...". A key may also follow a letter
# that ends an escape in JSON (\\n), a colour (ESC[31m) or a character in a URL (%3D).
_WORD_START = rb"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrtbf])|(?<=[0-9\[]m)|(?<=%[0-9A-Fa-f]{2}))"

LOOK_BACK = 3
"""Whether a key starts at a position depends on this many bytes before it."""
_ANY_SHAPE = b"|".join(re.escape(prefix) + rest for prefix, rest in SHAPES.items())

SHAPE = _WORD_START + rb"(?:" + _ANY_SHAPE + rb")" + _TOKEN + rb"*"
"""A pattern, to be part of another."""

TOKEN_RUN = re.compile(_TOKEN + rb"*")
OPEN_SHAPE = re.compile(_WORD_START + rb"(?:" + b"|".join(map(re.escape, SHAPES)) + rb")" + _TOKEN + rb"*\Z")


MASK = b"[REDACTED]"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SHORT = 128
_RARE = (string.ascii_uppercase + string.digits).encode()
_FREQUENT = bytes(set(range(256)) - set(_RARE))
_INDEXED = 48
_MAX_HELD = 4096
"""A token may grow without end; beyond this length it is masked, and its rest is dropped."""


def secret_values(env: Mapping[str, str]) -> frozenset[str]:
    """Return the values of an environment that must not be written anywhere."""
    return _secret_values(tuple(env.items()))


@lru_cache(maxsize=16)  # a run asks for the same environments ten times, which took a millisecond
def _secret_values(env: tuple[tuple[str, str], ...]) -> frozenset[str]:
    named = {value for name, value in env if _is_secret(name, value)}
    in_urls = {password for _, value in env for password in _PASSWORD_IN_URL.findall(value)}
    return frozenset(named | {password for password in in_urls if len(password) >= MIN_SECRET_CHARS})


def _is_secret(name: str, value: str) -> bool:
    if "TOKENS" in name.upper() and _COUNT.match(value):
        return False
    if len(value) < MIN_SECRET_CHARS or _NOT_SECRET_NAME.fullmatch(name):
        return False
    return any(_SECRET_WORD.fullmatch(word) for word in _WORD.findall(name))


def printed_forms(secret: str) -> set[bytes]:
    """Return the forms in which a secret may be printed: plain, quoted by a program, and that again in stream-json."""
    raw = secret.encode("utf-8", "surrogateescape")
    plain = {secret, repr(secret)[1:-1], *_in_json(secret)}
    texts = plain | {form for text in plain for form in _in_json(text)}
    encoded = {form.encode("utf-8", "surrogateescape") for form in texts}
    return encoded | {quote(raw, safe="").encode(), raw.hex().encode(), raw.hex().upper().encode()} | _in_base64(raw)


def _in_json(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _in_base64(raw: bytes) -> set[bytes]:
    """Return the characters that do not depend on the secret's position in the encoded text (`user:SECRET`)."""
    forms = set()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
        first = (0, 2, 3)[before]
        last = len(encoded) - (1 if (before + len(raw)) % 3 else 0)  # the last one shares its bits with what follows
        core = encoded[first:last]
        if len(core) >= MIN_SECRET_CHARS:
            forms |= {core, core.translate(_URL_SAFE)}
    return forms


class Redactor:
    """Knows the secrets of one run. Immutable; make a `stream()` for each byte stream."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        forms = {form for secret in self._secrets for form in printed_forms(secret) if form}
        self._literals = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._longest = max((len(form) for form in self._literals), default=0)
        self._begun = _beginnings(self._literals)
        self._heads = frozenset(form[0] for form in self._literals)
        alternatives = [re.escape(form) for form in self._literals]
        self._pattern = re.compile(b"|".join([*alternatives, b"(?P<shape>" + SHAPE + b")"]))
        beginnings = _without_longer((*self._literals, *SHAPES))
        self._needles = tuple((needle.translate(None, _FREQUENT), needle) for needle in beginnings)

    @classmethod
    def for_env(cls, *environments: Mapping[str, str]) -> Redactor:
        return _redactor(frozenset(value for env in environments for value in secret_values(env)))

    def with_env(self, env: Mapping[str, str]) -> Redactor:
        """Return a redactor that also knows the secrets of another environment."""
        secrets = self._secrets | secret_values(env)
        return self if secrets == self._secrets else _redactor(secrets)

    def text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogateescape")
        if not self.finds_secret(data):
            return text
        stream = self.stream()
        return (stream.feed(data) + stream.finish()).decode("utf-8", "surrogateescape")

    def stream(self) -> RedactedStream:
        return RedactedStream(self)

    def finds_secret(self, data: bytes) -> bool:
        return next(self.matches(data), None) is not None

    def matches(self, data: bytes, start: int = 0) -> Iterator[re.Match[bytes]]:
        """Find the secrets from `start` on, in order.

        Plain searches run at memory speed, so they find where one may begin; to search with the pattern takes 90 ms
        for 1 MB instead of 4.
        """
        if len(data) < _SHORT:
            yield from self._pattern.finditer(data, start)
            return
        position = start
        for at in self._candidates(data, start):
            if at >= position and (match := self._pattern.match(data, at)):
                yield match
                position = match.end()

    def _candidates(self, data: bytes, start: int) -> list[int]:
        rare = data.translate(None, _FREQUENT)  # a tenth of a text, which rules out most encoded forms of a secret
        present = [needle for part, needle in self._needles if part in rare and needle in data]
        return sorted(at for needle in present for at in _positions(needle, data, start))

    def open_from(self, data: bytes, start: int) -> int:
        """Find where the tail begins that more data could turn into a secret; the length of `data` if there is none."""
        return min(self._open_literal(data, start), self._open_shape(data, start))

    def _open_literal(self, data: bytes, start: int) -> int:
        first = max(start, len(data) - self._longest + 1)
        for at in range(first, len(data)):
            if data[at] in self._heads and self._may_become_literal(data[at:]):
                return at
        return len(data)

    def _may_become_literal(self, tail: bytes) -> bool:
        if len(tail) <= _INDEXED:
            return tail in self._begun
        known = tail[:_INDEXED] in self._begun
        return known and any(len(tail) < len(form) and form.startswith(tail) for form in self._literals)

    def _open_shape(self, data: bytes, start: int) -> int:
        end = data[-_MAX_HELD:]
        token = len(end) - len(end.rstrip(TOKEN_CHARACTERS))  # mostly 0: output tends to end with its line
        if token and (match := OPEN_SHAPE.search(data, max(start, len(data) - token))):
            return match.start()
        first = max(start, len(data) - _MAX_PREFIX + 1)
        return next((at for at in range(first, len(data)) if data[at:] in _BEGUN_SHAPES), len(data))


@lru_cache(maxsize=16)
def _redactor(secrets: frozenset[str]) -> Redactor:
    """Return a cached redactor: the runs of one harness mostly have the same secrets, in many forms each."""
    return Redactor(secrets)


def _positions(needle: bytes, data: bytes, start: int) -> Iterator[int]:
    at = data.find(needle, start)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)


def _without_longer(words: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the words that do not begin with another of them."""
    last = None
    for word in sorted(words):
        if last is None or not word.startswith(last):
            yield word
            last = word


def _beginnings(words: Iterable[bytes]) -> frozenset[bytes]:
    """Return all beginnings of the words, up to the indexed length: a secret may be a whole file."""
    return frozenset(word[:length] for word in words for length in range(1, min(len(word), _INDEXED + 1)))


_MAX_PREFIX = max(map(len, SHAPES))
_BEGUN_SHAPES = _beginnings(SHAPES)


class RedactedStream:
    """Redacts one stream chunk by chunk. The result does not depend on the chunks.

    Only what could still become a secret is held back, so ordinary output is passed on at once.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._before = b""  # the last bytes passed on, see LOOK_BACK
        self._dropping = False

    def feed(self, chunk: bytes) -> bytes:
        return self._pass_on(chunk, last=False)

    def finish(self) -> bytes:
        return self._pass_on(b"", last=True)

    def _pass_on(self, chunk: bytes, *, last: bool) -> bytes:
        if self._dropping:
            chunk = self._drop_token(chunk)
        data = self._before + self._held + chunk
        start = len(self._before)
        if len(data) == start:
            return b""
        end = len(data) if last else self._redactor.open_from(data, start)
        return self._mask(data, start, end, last=last)

    def _mask(self, data: bytes, start: int, end: int, *, last: bool) -> bytes:
        pieces: list[bytes] = []
        position = start
        for match in self._redactor.matches(data, start):
            if match.start() >= end:
                break
            growing = match.group("shape") is not None and match.end() == len(data) and not last
            if growing and match.end() - match.start() <= _MAX_HELD:
                end = match.start()
                break
            pieces += data[position : match.start()], MASK
            position = match.end()
            self._dropping = growing
            if position > end:
                end = len(data) if last else self._redactor.open_from(data, position)
        self._held = data[end:]
        self._before = data[max(0, end - LOOK_BACK) : end]
        return b"".join([*pieces, data[position:end]])

    def _drop_token(self, chunk: bytes) -> bytes:
        match = TOKEN_RUN.match(chunk)
        assert match is not None  # the pattern matches the empty string too
        rest = chunk[match.end() :]
        if rest:
            self._dropping = False
            self._before = b"x"  # the end of a token, not of an escape
        return rest
