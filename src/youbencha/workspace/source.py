"""Parse `repo` of a test case, and find its branch, tag or commit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from youbencha.errors import YouBenchaError
from youbencha.text import did_you_mean, first_few
from youbencha.workspace.git import is_ref_name

_REMOTE = frozenset({"https", "http", "ssh", "git"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")

_SCP = re.compile(r"(?:(?P<user>[^@/:\s]+)@)?(?P<host>\[[^\]/]+\]|[^:/\\\s@\[\]]{2,}):(?P<path>.+)", re.DOTALL)
"""`git@host:path`. A single letter before the colon is a Windows drive."""

_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_HINT = "Write an https, ssh or file URL, `user@host:path`, or a path."
RefKind = Literal["branch", "tag", "commit"]
_HEADS, _TAGS, _TRACKED = "refs/heads/", "refs/tags/", "refs/remotes/origin/"

_PREFIXES: Mapping[str, tuple[str, ...]] = {"branch": (_HEADS, _TAGS, _TRACKED), "tag": (_TAGS,)}
"""Where a name is searched. A `branch` may be a tag; in a local clone it may exist only as a branch of the remote."""

_PEELED = "^{}"
_FEW = 5
LOCAL_FORMAT = "%(HEAD)%00%(objecttype)%00%(objectname)%00%(*objectname)%00%(refname)"
LOCAL_PREFIXES = (_HEADS, _TAGS, _TRACKED)


class RemoteUrl(NamedTuple):
    url: str
    """For git, including credentials. Never shown, and never written."""
    public_url: str
    key: str
    """The same for all spellings of the same address."""
    secrets: tuple[str, ...] = ()


def read_source(written: str, base: Path) -> Path | RemoteUrl:
    """Read an address, or a path relative to `base`. Anything that git could read as an option is refused."""
    text = written.strip()
    _check_characters(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        scp = None if _is_path(text, base) else _SCP.fullmatch(text)
        return _parse_scp(scp) if scp else (base / Path(text).expanduser()).absolute()
    if scheme[1].lower() == "file":
        return _parse_file_url(text)
    if scheme[1].lower() in _REMOTE:
        return _parse_url(text)
    raise _invalid(f"Unsupported repository URL scheme: {scheme[1]}")


def public_url(written: str) -> str:
    """Return the address without credentials, which may be shown and stored."""
    text = written.strip()
    if not _SCHEME.match(text):
        return text
    parts = _split(text)
    return parts._replace(netloc=_public_netloc(parts), query="", fragment="").geturl()


def _check_characters(text: str) -> None:
    if not text or any(ord(character) < 32 for character in text):
        raise _invalid("The repository is empty, or contains control characters.")
    if text.startswith("-"):
        raise _invalid("The repository begins with `-`, which makes it an option.")
    if _HELPER.match(text):
        raise _invalid("Addresses with `::` make git run a program; they are not accepted.")


def _is_path(text: str, base: Path) -> bool:
    """Return whether it is a path, as git decides: a slash before the first colon, or something that exists."""
    return "/" in text.partition(":")[0] or text.startswith("~") or os.path.lexists(base / text)


def _parse_scp(match: re.Match[str]) -> RemoteUrl:
    if any((match[part] or "").startswith("-") for part in ("user", "host", "path")):
        raise _invalid("The repository's host or path begins with `-`, which makes it an option.")
    return RemoteUrl(match[0], match[0], _without_ending(match[0]))


def _parse_url(text: str) -> RemoteUrl:
    parts = _split(text)
    if not parts.hostname:
        raise _invalid("The repository's URL names no host.")
    if parts.hostname.startswith("-") or (parts.username or "").startswith("-"):
        raise _invalid("The repository's host begins with `-`, which makes it an option.")
    public = public_url(text)
    secrets = {part for part in (parts.password, *_token(parts)) if part}
    secrets |= {unquote(secret) for secret in secrets}
    port = parts.port if parts.port != _DEFAULT_PORTS.get(parts.scheme) else None
    host = f"{parts.hostname}:{port}" if port else parts.hostname
    key = _without_ending(f"{parts.scheme}://{host}{parts.path}")
    return RemoteUrl(text, public, key, tuple(sorted(secrets)))


def _public_netloc(parts: SplitResult) -> str:
    """Return the host, over ssh with the user, who is part of the address; over http, the user may be a token."""
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return f"{name}@{host}" if name and parts.scheme == "ssh" else host


def _token(parts: SplitResult) -> tuple[str, ...]:
    return (parts.username,) if parts.username and parts.scheme in ("http", "https") else ()


def _parse_file_url(text: str) -> Path:
    rest = text[len("file://") :]
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise _invalid("A file URL cannot name another host.")
    path = unquote(slash + path)
    return Path(path[1:] if re.match(r"/[A-Za-z]:[/\\]", path) else path)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - validated on access
    except ValueError as error:
        raise _invalid("The repository's URL is malformed.") from error
    return parts


def _without_ending(text: str) -> str:
    return text.rstrip("/").removesuffix(".git").rstrip("/")


def _invalid(message: str) -> YouBenchaError:
    return YouBenchaError("REPO_INVALID", message, hint=_HINT)


class Refs(NamedTuple):
    """The branches and tags of a repository."""

    ids: Mapping[str, str]
    """Commit ids by full ref name. For an annotated tag, the id of its commit."""
    head: str | None
    """The commit that is checked out by default."""
    default_branch: str | None
    """None if HEAD names no branch."""
    commits: frozenset[str] = frozenset()
    """Ids that are known to be commits, and to exist locally."""

    def resolve(self, name: str | None, kind: Literal["branch", "tag"], where: str) -> str:
        """Return the id that a name refers to; without a name, that of HEAD."""
        if not self.ids and self.head is None:
            raise YouBenchaError(
                "REPO_EMPTY", f"The repository {where} is empty.", hint="It needs at least one commit to start from."
            )
        if name is None:
            return self.head or self._no_head(where)
        short = short_name(name)
        ids = (self.ids[prefix + short] for prefix in _PREFIXES[kind] if prefix + short in self.ids)
        return next(ids, None) or self._unknown(short, kind, where)

    def _unknown(self, name: str, kind: str, where: str) -> str:
        names = self._names(_PREFIXES[kind])
        raise YouBenchaError(
            "REPO_BRANCH_UNKNOWN",
            f"The repository {where} has no {'branch or tag' if kind == 'branch' else kind} `{name}`.",
            hint=did_you_mean(name, names)
            or (f"It has: {first_few(names, _FEW)}." if names else f"It has no {kind} at all."),
        )

    def _no_head(self, where: str) -> str:
        names = first_few(self._names((_HEADS,)), _FEW)
        raise YouBenchaError(
            "REPO_BRANCH_UNKNOWN",
            f"The default branch of the repository {where} does not exist.",
            hint=f"Name a `branch`. It has: {names}." if names else "Name a `branch` or a `commit`.",
        )

    def _names(self, prefixes: Iterable[str]) -> list[str]:
        short = {name.removeprefix(prefix) for prefix in prefixes for name in self.ids if name.startswith(prefix)}
        return sorted(short - {"HEAD"})


def short_name(name: str) -> str:
    return name.removeprefix(_HEADS).removeprefix(_TAGS)


def from_listing(output: str) -> Refs:
    """Read the output of `git ls-remote --symref`. Invalid names of refs are left out."""
    ids: dict[str, str] = {}
    head = branch = None
    for line in output.splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            branch = value.removeprefix("ref: ").removeprefix(_HEADS)
        elif name == "HEAD":
            head = value
        elif name.startswith((_HEADS, _TAGS)) and is_ref_name(name.removesuffix(_PEELED)):
            ids[name.removesuffix(_PEELED)] = value  # the peeled one comes after the tag itself
    return Refs(ids, head, branch if branch and is_ref_name(branch) else None)


def from_local(output: bytes) -> Refs:
    """Read the output of `git for-each-ref` in `LOCAL_FORMAT`."""
    ids: dict[str, str] = {}
    commits: set[str] = set()
    head = branch = None
    for line in output.decode("utf-8", "surrogateescape").splitlines():
        mark, kind, direct, peeled, name = line.split("\0")
        ids[name] = peeled or direct
        if kind == "commit":
            commits.add(direct)
        if mark == "*":
            head, branch = direct, name.removeprefix(_HEADS)
    return Refs(ids, head, branch, frozenset(commits))
