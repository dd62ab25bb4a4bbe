"""What a person writes for a repository, read: a place on this machine, or one that is reached over a network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from youbencha.errors import YouBenchaError

_REMOTE = frozenset({"https", "http", "ssh", "git"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_SCP = re.compile(r"(?:(?P<user>[^@/:\s]+)@)?(?P<host>\[[^\]/]+\]|[^:/\\\s@\[\]]{2,}):(?P<path>.+)", re.DOTALL)
"""`git@host:path`. A host of one letter is a drive of Windows."""
_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_HINT = "Write an https, ssh or file URL, `user@host:path`, or a path."


class RemotePlace(NamedTuple):
    url: str
    """As git gets it, credentials included. Never shown, and written nowhere."""
    public_url: str
    key: str
    """The same for all ways to write the same place."""
    secrets: tuple[str, ...] = ()


def read_source(written: str, base: Path) -> Path | RemotePlace:
    """A relative path starts at `base`. Whatever could be an option or a command of git's is refused."""
    text = written.strip()
    _refuse_what_is_odd(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        scp = None if _is_path(text, base) else _SCP.fullmatch(text)
        return _scp_place(text) if scp else (base / Path(text).expanduser()).absolute()
    if scheme[1].lower() == "file":
        return _path_of(text)
    if scheme[1].lower() in _REMOTE:
        return _url_place(text)
    raise _invalid(f"Repositories cannot be had by {scheme[1]}.")


def public_url(written: str) -> str:
    """The same without credentials: what may be shown and stored."""
    text = written.strip()
    if not _SCHEME.match(text):
        return text
    parts = _split(text)
    return parts._replace(netloc=_public_netloc(parts), query="", fragment="").geturl()


def _refuse_what_is_odd(text: str) -> None:
    if not text or any(ord(character) < 32 for character in text):
        raise _invalid("The repository is empty, or holds characters that no address has.")
    if text.startswith("-"):
        raise _invalid("The repository begins with `-`, which makes it an option.")
    if _HELPER.match(text):
        raise _invalid("Addresses with `::` make git run a program; they are not taken.")


def _is_path(text: str, base: Path) -> bool:
    """As git decides: a slash before the first colon, or something that is there."""
    return "/" in text.partition(":")[0] or text.startswith("~") or os.path.lexists(base / text)


def _scp_place(text: str) -> RemotePlace:
    found = _SCP.fullmatch(text)
    assert found is not None
    if found["host"].startswith("-") or found["path"].startswith("-") or (found["user"] or "").startswith("-"):
        raise _invalid("The repository's host or path begins with `-`, which makes it an option.")
    return RemotePlace(text, text, _without_ending(text))


def _url_place(text: str) -> RemotePlace:
    parts = _split(text)
    if not parts.hostname:
        raise _invalid("The repository's URL names no host.")
    if parts.hostname.startswith("-") or (parts.username or "").startswith("-"):
        raise _invalid("The repository's host begins with `-`, which makes it an option.")
    public = public_url(text)
    secrets = {part for part in (parts.password, *_token(parts)) if part}
    secrets |= {unquote(secret) for secret in secrets}
    port = parts.port if parts.port != _DEFAULT_PORTS.get(parts.scheme) else None
    place = f"{parts.hostname}:{port}" if port else parts.hostname
    key = _without_ending(f"{parts.scheme}://{place}{parts.path}")
    return RemotePlace(text, public, key, tuple(sorted(secrets)))


def _public_netloc(parts: SplitResult) -> str:
    """Over http the user's name may be the token itself; over ssh it is part of the address."""
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return f"{name}@{host}" if name and parts.scheme == "ssh" else host


def _token(parts: SplitResult) -> tuple[str, ...]:
    return (parts.username,) if parts.username and parts.scheme in ("http", "https") else ()


def _path_of(text: str) -> Path:
    rest = text[len("file://") :]
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise _invalid("A file URL cannot name another host.")
    path = unquote(slash + path)
    return Path(path[1:] if re.match(r"/[A-Za-z]:[/\\]", path) else path)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - checked only when asked for
    except ValueError as error:
        raise _invalid("The repository's URL is malformed.") from error
    return parts


def _without_ending(text: str) -> str:
    return text.rstrip("/").removesuffix(".git").rstrip("/")


def _invalid(message: str) -> YouBenchaError:
    return YouBenchaError("REPO_INVALID", message, hint=_HINT)
