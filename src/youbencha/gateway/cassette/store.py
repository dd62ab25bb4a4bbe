"""The files of a cassette: one for each recorded request, with its answers.

There is no index, so copying one cassette over another merges them. Files are replaced atomically.

An agent sends its instructions, its tools and all messages again with every turn. A file has only what an earlier
request of the same session did not have, so the size of a cassette grows with the conversation, not with its square.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow, replace_atomically
from youbencha.gateway.cassette.answers import AnswerFormat, RecordedAnswer
from youbencha.gateway.cassette.matching import MESSAGES, CanonicalRequest, ModelRequest, messages_last
from youbencha.gateway.cassette.mismatch import Continuation, messages_in
from youbencha.gateway.wires import WireName
from youbencha.json_lines import dumps, loads
from youbencha.text import one_line, visible

VERSION = 4
"""Increase it when the format of the files or the comparison of requests changes."""

_OLDEST_MATCHING = 3
"""The oldest version with the same fingerprints. It differs in how it stored requests, which only a mismatch shows."""

_REQUEST_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")
_MAX_SHOWN = 5

# A cassette may come from a stranger, so everything that is read of it is bounded.
MAX_FILES = 10_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""The size of all exchanges."""

_MAX_DEPTH = 100

AnswersByTrial = list[list[RecordedAnswer]]
"""The answers of each trial, in order."""


class _RequestFormat(BaseModel):
    method: str
    path: str
    wire: WireName | None = None
    after: str | None = None
    same: list[str] = []
    same_messages: Annotated[int, Field(strict=True, ge=0)] = 0
    body: Any


class _Format(BaseModel):
    version: int
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    day: Annotated[date, Field(ge=date(2000, 1, 1), le=date(2999, 1, 1))] | None = None
    request: _RequestFormat
    takes: Annotated[list[Annotated[list[AnswerFormat], Field(min_length=1)]], Field(min_length=1)]


class Recording(NamedTuple):
    """A recorded request and its answers."""

    file: Path
    fingerprint: str
    method: str
    path: str
    wire: WireName | None
    position: Continuation
    body: Any
    """Without what it has in common with the request at its position."""
    trials: AnswersByTrial
    """Called `takes` in the file."""
    day: date | None
    """When it was recorded."""
    version: int

    @property
    def outdated(self) -> bool:
        """Whether no request matches it, because fingerprints have changed since."""
        return self.version < _OLDEST_MATCHING


class RecordingHead(NamedTuple):
    """What is kept in memory of a recording."""

    file: Path
    method: str
    path: str
    after: str | None
    day: date | None
    version: int


class CassetteStore:
    """Reads and writes the files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._exchanges = directory / "exchanges"

    def create(self) -> None:
        if self._exchanges.is_symlink():
            raise _broken(f"{visible(str(self._exchanges))} is a link", _UNTRUSTED_HINT)
        try:
            self._exchanges.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self._directory, error) from error

    def check(self) -> dict[str, RecordingHead]:
        """Return an entry for each fingerprint. Raises YouBenchaError with all files that cannot be read."""
        broken: list[str] = []
        entries: dict[str, RecordingHead] = {}
        files = self.files()
        if len(files) > MAX_FILES or sum(file.lstat().st_size for file in files) > MAX_BYTES:
            limits = f"{MAX_FILES:,} exchanges or {MAX_BYTES:,} bytes"
            raise _broken(f"{visible(str(self._exchanges))} has more than {limits}", _UNTRUSTED_HINT)
        for file in files:
            try:
                recording = self.read(file)
            except YouBenchaError as error:
                broken.append(error.message)
            else:
                entries[recording.fingerprint] = RecordingHead(
                    file, recording.method, recording.path, recording.position.after, recording.day, recording.version
                )
        if broken:
            more = [f"and {len(broken) - _MAX_SHOWN} more"] if len(broken) > _MAX_SHOWN else []
            raise _broken("\n".join([*broken[:_MAX_SHOWN], *more]))
        return entries

    def files(self) -> list[Path]:
        return sorted(self._exchanges.glob("[!.]*.json"))

    def read(self, file: Path) -> Recording:
        name = visible(str(file))
        try:
            value = self._load(file.name)
        except OSError as error:
            raise _broken(f"{name} {error.strerror or error}", _UNTRUSTED_HINT) from error
        except ValueError as error:
            raise _broken(f"{name} is not JSON: {error}") from error
        if isinstance(value, dict) and isinstance(value.get("version"), int) and value["version"] > VERSION:
            raise _broken(f"{name} was written by a newer youBencha", "Update youBencha.")
        try:
            valid = _Format.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = one_line(".".join(map(str, first["loc"])))
            raise _broken(f"{name} is not a recording of youBencha: {where}: {first['msg']}") from error
        request = valid.request
        return Recording(
            file=file,
            fingerprint=valid.fingerprint,
            method=request.method,
            path=request.path,
            wire=request.wire,
            position=Continuation(request.after, tuple(request.same), request.same_messages),
            body=_join_lines(request.body),
            trials=value["takes"],
            day=valid.day,
            version=valid.version,
        )

    def whole_body(self, recording: Recording, entries: Mapping[str, RecordingHead]) -> Any:
        """Return the body of a recorded request with what it has in common with earlier ones, as far as recorded."""
        chain, seen = [recording], {recording.fingerprint}
        while (after := chain[-1].position.after) in entries and after is not None and after not in seen:
            seen.add(after)
            chain.append(self.read(entries[after].file))
        body: Any = {}
        for later in reversed(chain):
            body = _complete(later, body)
        return body

    def _load(self, name: str) -> Any:
        """Read a file, which a stranger may have made. Raises OSError, or ValueError for its content."""
        value = loads(read_nofollow(self._directory, f"exchanges/{name}", MAX_FILE_BYTES))
        level = [value]
        for _ in range(_MAX_DEPTH):
            level = [inner for outer in level for inner in _children(outer)]
        if level:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
        return value

    def write(
        self,
        request: ModelRequest,
        matched: CanonicalRequest,
        position: Continuation,
        trials: AnswersByTrial,
        day: date,
    ) -> Path:
        """Write a recording. Raises YouBenchaError if that fails."""
        file = self._exchanges / _file_name(request, matched)
        written = {
            "method": request.method,
            "path": request.path,
            "wire": request.wire,
            "headers": {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers},
            **({"after": position.after, "same": list(position.same)} if position.after else {}),
            **({"same_messages": position.same_messages} if position.same_messages else {}),
            "body": _split_lines(_new_in(matched.body, position)),
        }
        value = {
            "version": VERSION,
            "fingerprint": matched.fingerprint,
            "day": day.isoformat(),
            "request": written,
            "takes": trials,
        }
        try:
            data = (_pretty(value, "") + "\n").encode("utf-8", "surrogatepass")
            if len(data) > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, f"it would have more than {MAX_FILE_BYTES:,} bytes")
            replace_atomically(file, data)
        except OSError as error:
            raise _not_writable(file, error) from error
        return file


def _new_in(body: object, position: Continuation) -> object:
    """Return the body without what the request at its position had already."""
    if not isinstance(body, dict):
        return body
    new = {key: value for key, value in body.items() if key not in position.same}
    for key in MESSAGES:
        if isinstance(new.get(key), list) and position.same_messages:
            new[key] = new[key][position.same_messages :]
            break
    return new


def _complete(recording: Recording, earlier: Any) -> Any:
    """Return the body of a recording, given that of the request at its position."""
    body, position = recording.body, recording.position
    if not isinstance(body, dict) or position.after is None or not isinstance(earlier, dict):
        return body
    whole = {key: earlier[key] for key in position.same if key in earlier}
    for key, value in body.items():
        is_talk = key in MESSAGES and isinstance(value, list)
        whole[key] = [*messages_in(earlier)[: position.same_messages], *value] if is_talk else value
    return dict(sorted(whole.items(), key=messages_last))


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _file_name(request: ModelRequest, matched: CanonicalRequest) -> str:
    body = matched.body if isinstance(matched.body, dict) else {}
    model = body.get("model")
    name = model if isinstance(model, str) else request.path.rpartition("/")[2]
    clean = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "request"
    return f"{clean}-{len(messages_in(body)):03}-{matched.fingerprint[:12]}.json"


_UNTRUSTED_HINT = "A cassette has only regular files of bounded size. Record it again, or use one that you trust."


def _broken(message: str, hint: str = "Record it again, or restore the file.") -> YouBenchaError:
    return YouBenchaError("CASSETTE_BROKEN", message, hint=hint)


def _not_writable(file: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "CASSETTE_NOT_WRITABLE",
        f"Cannot write the cassette {file}: {error.strerror or error}",
        hint="Check that you may write to the directory, and that the disk is not full.",
    )


_LINES = "$lines"
_MIN_CHARS = 1000
"""A longer text is a list of its lines, for `git diff`."""

_MIN_LINE_CHARS = 16
"""With shorter lines, the quotes would be longer than the text."""

_LOOKS_LIKE_OURS = re.compile(r"\$+lines\Z")


def _split_lines(value: Any) -> Any:
    if isinstance(value, str):
        lines = value.split("\n") if len(value) >= _MIN_CHARS else []
        return {_LINES: lines} if lines and len(value) >= _MIN_LINE_CHARS * len(lines) else value
    if isinstance(value, list):
        return [_split_lines(item) for item in value]
    if isinstance(value, dict):
        return {f"${key}" if _LOOKS_LIKE_OURS.match(key) else key: _split_lines(item) for key, item in value.items()}
    return value


def _join_lines(value: Any) -> Any:
    if isinstance(value, list):
        return [_join_lines(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_LINES}:
        return "\n".join(map(str, _children(value[_LINES])))
    return {key[1:] if _LOOKS_LIKE_OURS.match(key) else key: _join_lines(item) for key, item in value.items()}


_WIDTH = 110
_INDENT = "  "


def _pretty(value: object, indent: str, *, flat_items: bool = False) -> str:
    """Write a value that fits on one line, and every event, on one line."""
    flat = dumps(value)
    inner = indent + _INDENT
    if len(flat) + len(indent) <= _WIDTH or not value:
        return flat
    if isinstance(value, dict):
        rows: Iterator[str] = (
            f"{dumps(key)}: {_pretty(item, inner, flat_items=key == 'events')}" for key, item in value.items()
        )
        start, end = "{", "}"
    elif isinstance(value, list):
        rows = (dumps(item) if flat_items else _pretty(item, inner) for item in value)
        start, end = "[", "]"
    else:
        return flat
    return f"{start}\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}{end}"
