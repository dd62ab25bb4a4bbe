"""Where a webhook goes to, as far as its text tells."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_SCHEMES = ("http://", "https://")
_CREDENTIALS = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)


def address_of(url: str) -> SplitResult | None:
    """None if nothing can be sent there."""
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # brackets or a port that are none
        return None
    return address if usable else None


def may_become_an_address(url: str) -> bool:
    """Of a text that may hold `${NAME}`: what stands before the first, nothing can mend."""
    known, reference, _ = url.strip().partition("${")
    if not reference:
        return address_of(known) is not None
    folded = known.lower()
    if not folded.startswith(_SCHEMES):
        return any(scheme.startswith(folded) for scheme in _SCHEMES)
    host_is_known = re.search(r"[/?#]", known.partition("://")[2]) is not None
    return not host_is_known or address_of(known) is not None


def holds_credentials(url: str) -> bool:
    """`user:password@` before the host, references or not."""
    return _CREDENTIALS.match(url.strip()) is not None
