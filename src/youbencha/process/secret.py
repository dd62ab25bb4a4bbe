"""What counts as a secret: values of the environment whose names sound so, and the shapes of well-known keys."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Mapping
from urllib.parse import quote

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|(^|_|PG)PASS(_|$)|CREDENTIAL|AUTH(?!ORS?(_|$)|ORITY)|COOKIE|HEADERS|DSN"
    r"|WEBHOOK|(^|_)(PAT|SK)(_|$)",
    re.I,
)
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_COUNT = re.compile(r"[0-9]*\Z")  # MAX_THINKING_TOKENS=128000 is a limit; masked, it would break JSON numbers
_SHORTEST_SECRET = 6  # shorter values ("test", "none") are words that would be cut out of ordinary text

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
# A key starts where a word starts: "risk-assessment-framework-2026" is not "sk-...". What ends in a letter but is
# no word: an escape in JSON (\\n), a colour (ESC[31m), a character in a URL (%3D).
_WORD_START = rb"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrtbf])|(?<=[0-9\[]m)|(?<=%[0-9A-Fa-f]{2}))"
LOOK_BACK = 3
"""How many bytes before it decide whether a key starts here."""
_ANY_SHAPE = b"|".join(re.escape(prefix) + rest for prefix, rest in SHAPES.items())
SHAPE = _WORD_START + rb"(?:" + _ANY_SHAPE + rb")" + _TOKEN + rb"*"
"""A pattern, to be part of another."""
TOKEN_RUN = re.compile(_TOKEN + rb"*")
OPEN_SHAPE = re.compile(_WORD_START + rb"(?:" + b"|".join(map(re.escape, SHAPES)) + rb")" + _TOKEN + rb"*\Z")


def secret_values(env: Mapping[str, str]) -> set[str]:
    """The values of an environment that must not be written anywhere."""
    named = {value for name, value in env.items() if _is_secret(name, value)}
    in_urls = {found for value in env.values() for found in _PASSWORD_IN_URL.findall(value)}
    return named | {password for password in in_urls if len(password) >= _SHORTEST_SECRET}


def _is_secret(name: str, value: str) -> bool:
    if "TOKENS" in name.upper() and _COUNT.match(value):
        return False
    return len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name) is not None


def printed_forms(secret: str) -> set[bytes]:
    """The ways in which a secret may come out: as it is, quoted by a program, and that once more in stream-json."""
    raw = secret.encode("utf-8", "surrogateescape")
    plain = {secret, repr(secret)[1:-1], *_in_json(secret)}
    texts = plain | {form for text in plain for form in _in_json(text)}
    encoded = {form.encode("utf-8", "surrogateescape") for form in texts}
    return encoded | {quote(raw, safe="").encode(), raw.hex().encode(), raw.hex().upper().encode()} | _in_base64(raw)


def _in_json(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _in_base64(raw: bytes) -> set[bytes]:
    """Wherever the secret stands in what was encoded (`user:SECRET`), these characters are the same."""
    forms = set()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
        first = (0, 2, 3)[before]
        last = len(encoded) - (1 if (before + len(raw)) % 3 else 0)  # the last one shares its bits with what follows
        core = encoded[first:last]
        if len(core) >= _SHORTEST_SECRET:
            forms |= {core, core.translate(_URL_SAFE)}
    return forms


_URL_SAFE = bytes.maketrans(b"+/", b"-_")
