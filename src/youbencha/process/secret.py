"""What counts as a secret: values of the environment whose names sound so, and the shapes of well-known keys."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Iterable, Mapping
from urllib.parse import quote

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|(^|_)PASS(_|$)|CREDENTIAL|AUTH(?!ORS?(_|$)|ORITY)|COOKIE|HEADERS|DSN",
    re.I,
)
_COUNT = re.compile(r"[0-9]*\Z")  # MAX_THINKING_TOKENS=128000 is a limit; masked, it would break JSON numbers
_SHORTEST_SECRET = 6  # shorter values ("test", "none") are words that would be cut out of ordinary text

_TOKEN = rb"[A-Za-z0-9_\-+/=.~]"
TOKEN_CHARACTERS = (string.ascii_letters + string.digits + "_-+/=.~").encode()
SHAPES: dict[bytes, bytes] = {
    # prefix: what must follow (the whole run of token characters is then taken)
    b"sk-ant-": rb"[A-Za-z0-9_\-]{8}",
    b"sk-": rb"(?=[A-Za-z_\-]{0,64}[0-9])[A-Za-z0-9_\-]{20}",
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
SHAPE = re.compile(
    _WORD_START
    + rb"(?:"
    + b"|".join(re.escape(prefix) + rest for prefix, rest in SHAPES.items())
    + rb")"
    + _TOKEN
    + rb"*"
)
TOKEN_RUN = re.compile(_TOKEN + rb"*")
OPEN_SHAPE = re.compile(_WORD_START + rb"(?:" + b"|".join(map(re.escape, SHAPES)) + rb")" + _TOKEN + rb"*\Z")


def secret_values(env: Mapping[str, str]) -> set[str]:
    """The values of an environment that must not be written anywhere."""
    return {value for name, value in env.items() if _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    if "TOKENS" in name.upper() and _COUNT.match(value):
        return False
    return len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name) is not None


def printed_forms(secret: str) -> Iterable[bytes]:
    raw = secret.encode("utf-8", "surrogateescape")
    yield raw
    yield json.dumps(secret, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    yield json.dumps(secret)[1:-1].encode()
    yield quote(raw, safe="").encode()
    yield base64.b64encode(raw)
