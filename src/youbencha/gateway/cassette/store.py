"""The files of a cassette: one for each recording, one for each large part of a request.

There is no index, so copying one cassette over another merges them. Files are replaced atomically.

An agent sends its instructions, its tools and all messages again with every turn. A large part of a request has its own
file, named by its content; so the size of a cassette grows with the conversation, not with its square.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from youbencha.errors import YouBenchaError
from youbencha.files import read_nofollow, replace_atomically
from youbencha.gateway.api import WireName
from youbencha.gateway.cassette.matching import MESSAGES, CanonicalRequest, ModelRequest
from youbencha.gateway.cassette.recording import AnswerFormat, RecordedAnswer
from youbencha.json_lines import canonical, dumps, loads
from youbencha.text import one_line, visible

VERSION = 3
"""Increase it when the format of the files or the comparison of requests changes."""

_REQUEST_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")
_SHOWN = 5

# A cassette may come from a stranger, so everything that is read of it is bounded.
MAX_FILES = 10_000
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""Of all exchanges."""

_COMPARED_BYTES = 16 * 1024 * 1024
"""Of all parts that are read to find the nearest request, each counted as often as it is referred to."""

_REFERENCE_BYTES = 10_000
"""What a reference to a part costs at least, because each of them takes time."""

_MAX_DEPTH = 100
_PART_NAME = re.compile(r"[0-9a-f]{12}")

AnswersByTrial = list[list[RecordedAnswer]]
"""The answers of each trial, in order."""


class Recording(NamedTuple):
    file: Path
    fingerprint: str
    method: str
    path: str
    wire: WireName | None
    body: Any
    """In parts."""
    trials: AnswersByTrial
    """In the file: `takes`."""
    day: date | None
    """When it was recorded."""
    outdated: bool
    """Written in an older format, with other fingerprints."""


class _RequestFormat(BaseModel):
    method: str
    path: str
    wire: WireName | None = None
    body: Any


class _Format(BaseModel):
    version: int
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    day: Annotated[date, Field(ge=date(2000, 1, 1), le=date(2999, 1, 1))] | None = None
    request: _RequestFormat
    takes: Annotated[list[Annotated[list[AnswerFormat], Field(min_length=1)]], Field(min_length=1)]


class CassetteStore:
    """Reads and writes the files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._exchanges, self._parts = directory / "exchanges", directory / "parts"
        self._written: set[str] = set()

    def create(self) -> None:
        for directory in (self._exchanges, self._parts):
            if directory.is_symlink():
                raise _broken(f"{visible(str(directory))} is a link", _OF_A_STRANGER)
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _not_writable(self.directory, error) from error

    def check(self) -> dict[str, tuple[Path, date | None]]:
        """Return the file and the day of each fingerprint. Raises YouBenchaError with all files that cannot be read."""
        broken = []
        found = {}
        files = self.files()
        if len(files) > MAX_FILES or sum(file.lstat().st_size for file in files) > MAX_BYTES:
            limits = f"{MAX_FILES:,} exchanges or {MAX_BYTES:,} bytes"
            raise _broken(f"{visible(str(self._exchanges))} has more than {limits}", _OF_A_STRANGER)
        for file in files:
            try:
                recording = self.read(file)
                found[recording.fingerprint] = file, recording.day
            except YouBenchaError as error:
                broken.append(error.message)
        if broken:
            more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
            raise _broken("\n".join([*broken[:_SHOWN], *more]))
        return found

    def files(self) -> list[Path]:
        return sorted(self._exchanges.glob("[!.]*.json"))

    def read(self, file: Path) -> Recording:
        name = visible(str(file))
        try:
            value = self._read("exchanges", file.name)[0]
        except OSError as error:
            raise _broken(f"{name} {error.strerror or error}", _OF_A_STRANGER) from error
        except ValueError as error:
            raise _broken(f"{name} is not JSON: {error}") from error
        if isinstance(value, dict) and isinstance(value.get("version"), int) and value["version"] > VERSION:
            raise _broken(f"{name} was written by a newer youBencha", "Update youBencha.")
        try:
            found = _Format.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = one_line(".".join(map(str, first["loc"])))
            raise _broken(f"{name} is not a recording of youBencha: {where}: {first['msg']}") from error
        asked, is_old = found.request, found.version < VERSION
        wire, body, trials = asked.wire, asked.body, value["takes"]
        return Recording(file, found.fingerprint, asked.method, asked.path, wire, body, trials, found.day, is_old)

    def whole_bodies(self, recordings: Iterable[Recording]) -> Iterator[tuple[Recording, Any]]:
        """Yield recordings with the bodies of their requests, at least one, and no more than can be compared quickly.

        A missing part becomes a note, because the bodies are only used for diffs.
        """
        left = _COMPARED_BYTES

        def part(name: object) -> Any:
            nonlocal left
            if not isinstance(name, str) or not _PART_NAME.fullmatch(name):
                return "(not the name of a part)"
            if left <= 0:
                return "(too many parts)"
            try:
                value, size = self._read("parts", f"{name}.json", left)
            except (OSError, ValueError):
                return f"(parts/{name}.json is missing, broken or too large)"
            left -= max(size, _REFERENCE_BYTES)
            return value

        for recording in recordings:
            yield recording, join_body(recording.body, part)
            if left <= 0:
                return

    def _read(self, directory: str, name: str, limit: int = MAX_FILE_BYTES) -> tuple[Any, int]:
        """Read a file of the cassette, which a stranger may have made. Raises OSError, or ValueError for its content.

        Also returns its size.
        """
        data = read_nofollow(self.directory, f"{directory}/{name}", min(limit, MAX_FILE_BYTES))
        value = loads(data)
        level = [value]
        for _ in range(_MAX_DEPTH):
            level = [inner for each in level for inner in _inside(each)]
        if level:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
        return value, len(data)

    def write(self, request: ModelRequest, matched: CanonicalRequest, trials: AnswersByTrial, day: date) -> Path:
        """Write a recording. Raises YouBenchaError if that fails."""
        body, parts = split_body(matched.body)
        for name, part in parts.items():
            if name not in self._written:
                self._write(self._parts / f"{name}.json", part, unless_there=True)
                self._written.add(name)
        headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
        asked = {"method": request.method, "path": request.path, "wire": request.wire, "headers": headers, "body": body}
        file = self._exchanges / _file_name(request, matched)
        head = {"version": VERSION, "fingerprint": matched.fingerprint, "day": day.isoformat()}
        self._write(file, {**head, "request": asked, "takes": trials})
        return file

    def _write(self, file: Path, value: object, *, unless_there: bool = False) -> None:
        try:
            if unless_there and file.exists():
                return
            data = _indented(value).encode("utf-8", "surrogatepass")
            if len(data) > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, f"it would have more than {MAX_FILE_BYTES:,} bytes")
            replace_atomically(file, data)
        except OSError as error:
            raise _not_writable(file, error) from error


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _file_name(request: ModelRequest, matched: CanonicalRequest) -> str:
    body = matched.body if isinstance(matched.body, dict) else {}
    messages = messages_of(body)
    model = body.get("model")
    name = model if isinstance(model, str) else request.path.rpartition("/")[2]
    clean = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "request"
    return f"{clean}-{len(messages):03}-{matched.fingerprint[:12]}.json"


def messages_of(body: Any) -> list[Any]:
    """Return the conversation of a request in any API."""
    found = [body[key] for key in MESSAGES if isinstance(body.get(key), list)] if isinstance(body, dict) else []
    return found[0] if found else []


_OF_A_STRANGER = "A cassette has only regular files of bounded size. Record it again, or use one that you trust."


def _broken(message: str, hint: str = "Record it again, or restore the file.") -> YouBenchaError:
    return YouBenchaError("CASSETTE_BROKEN", message, hint=hint)


def _not_writable(file: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "CASSETTE_NOT_WRITABLE",
        f"Cannot write the cassette {file}: {error.strerror or error}",
        hint="Check that you may write to the directory, and that the disk is not full.",
    )


PART, LINES = "$part", "$lines"

_LARGE = 1000
"""The minimum number of characters of a part with its own file."""

_MESSAGES_PER_PART = 10
_SHORT_LINE = 16
_OURS = re.compile(r"\$+(?:part|lines)\Z")


def split_body(body: Any) -> tuple[Any, dict[str, Any]]:
    """Return the body with references, and the parts that they refer to."""
    parts: dict[str, Any] = {}
    if not isinstance(body, dict):
        return _split(body, parts), parts
    split = {
        _key(key): _split_messages(value, parts) if key in MESSAGES else _split(value, parts)
        for key, value in body.items()
    }
    return split, parts


def join_body(body: Any, part: Callable[[Any], Any]) -> Any:
    """Return the whole body; `part` returns the part for a reference."""
    whole = _whole(body, part, _MAX_DEPTH)
    if not isinstance(whole, dict):
        return whole
    return {key: _one_list(value) if key in MESSAGES else value for key, value in whole.items()}


def _whole(value: Any, part: Callable[[Any], Any], depth: int) -> Any:
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        return "(nested too deeply)"
    if isinstance(value, list):
        return [_whole(each, part, depth - 1) for each in value]
    if set(value) == {PART}:
        return _whole(part(value[PART]), part, depth - 1)
    if set(value) == {LINES}:
        return "\n".join(map(str, _inside(value[LINES])))
    return {_own_key(key): _whole(each, part, depth - 1) for key, each in value.items()}


def _split_messages(value: Any, parts: dict[str, Any]) -> Any:
    """Group messages from the start, so that groups stay the same when the conversation continues."""
    if not isinstance(value, list):
        return _split(value, parts)
    grouped = len(value) // _MESSAGES_PER_PART * _MESSAGES_PER_PART
    messages = [_split(each, parts) for each in value]
    groups = [messages[at : at + _MESSAGES_PER_PART] for at in range(0, grouped, _MESSAGES_PER_PART)]
    return [*(_reference(group, parts) for group in groups), *messages[grouped:]]


def _one_list(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [each for item in value for each in (item if isinstance(item, list) else [item])]


def _split(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return _reference(_in_lines(value), parts) if len(value) >= _LARGE else value
    if isinstance(value, list):
        small: Any = [_split(each, parts) for each in value]
    elif isinstance(value, dict):
        small = {_key(key): _split(each, parts) for key, each in value.items()}
    else:
        return value
    return _reference(small, parts) if len(canonical(small)) >= _LARGE else small


def _in_lines(text: str) -> Any:
    """Split into lines, for `git diff`, unless the quotes would be longer than the text."""
    lines = text.split("\n")
    return {LINES: lines} if len(text) >= _SHORT_LINE * len(lines) else text


def _reference(value: Any, parts: dict[str, Any]) -> dict[str, str]:
    name = sha256(canonical(value)).hexdigest()[:12]
    parts[name] = value
    return {PART: name}


def _key(key: str) -> str:
    """Escape a key of the body that looks like a reference."""
    return f"${key}" if _OURS.match(key) else key


def _own_key(key: str) -> str:
    return key[1:] if key.startswith("$$") and _OURS.match(key) else key


_WIDTH = 110
_INDENT = "  "


def _indented(value: object) -> str:
    """Write a value that fits on one line, and every event, on one line."""
    return _lines(value, "") + "\n"


def _lines(value: object, indent: str, *, flat_items: bool = False) -> str:
    flat = dumps(value)
    inner = indent + _INDENT
    if len(flat) + len(indent) <= _WIDTH or not value:
        return flat
    if isinstance(value, dict):
        rows = [
            f"{inner}{dumps(key)}: {_lines(each, inner, flat_items=key == 'events')}" for key, each in value.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list):
        rows = [inner + (dumps(each) if flat_items else _lines(each, inner)) for each in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return flat
