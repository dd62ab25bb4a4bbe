"""The files of a cassette: one for each exchange, one for each large part of a request. Nothing else, so that two
cassettes are merged by copying one over the other, and no file is ever written by half.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.errors import YouBenchaError
from youbencha.files import replace_file
from youbencha.gateway.api import WireName
from youbencha.gateway.cassette.matching import CanonicalRequest, ModelRequest
from youbencha.gateway.cassette.recording import RecordedAnswer
from youbencha.json_lines import canonical, dumps, loads

VERSION = 2
"""Of the files, and of what counts as the same request: a change to either makes it another one."""

_REQUEST_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")

_SHOWN = 5

AnswersByTrial = list[list[RecordedAnswer]]
"""What each of the trials was answered, in the order in which it asked."""


class Recording(NamedTuple):
    file: Path
    fingerprint: str
    method: str
    path: str
    wire: WireName | None
    body: Any
    """In parts."""
    takes: AnswersByTrial
    day: date | None
    """On which it was recorded."""
    outdated: bool
    """Written when other requests were taken for the same."""


class FoundRecording(NamedTuple):
    file: Path
    day: date | None


class CassetteStore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._exchanges, self._parts = directory / "exchanges", directory / "parts"
        self._written: set[str] = set()

    def create(self) -> None:
        try:
            self._exchanges.mkdir(parents=True, exist_ok=True)
            self._parts.mkdir(exist_ok=True)
        except OSError as error:
            raise _not_writable(self.directory, error) from error

    def check(self) -> dict[str, FoundRecording]:
        """The exchange of each fingerprint. Names all files that cannot be read, at once."""
        broken = []
        found = {}
        for file in self.files():
            try:
                exchange = self.read(file)
                found[exchange.fingerprint] = FoundRecording(file, exchange.day)
            except YouBenchaError as error:
                broken.append(error.message)
        if broken:
            more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
            raise _broken("\n".join([*broken[:_SHOWN], *more]))
        return found

    def files(self) -> list[Path]:
        return sorted(self._exchanges.glob("[!.]*.json"))

    def read(self, file: Path) -> Recording:
        try:
            value = _parsed(file)
            if value["version"] > VERSION:
                raise _broken(f"{file} was written by a newer youBencha", "Update youBencha.")
            request, takes = value["request"], value["takes"]
            day = date.fromisoformat(value["day"]) if "day" in value else None
            exchange = Recording(
                file,
                str(value["fingerprint"]),
                request["method"],
                request["path"],
                request.get("wire"),
                request["body"],
                takes,
                day,
                value["version"] < VERSION,
            )
            if not all(isinstance(answer["status"], int) for take in takes for answer in take) or not takes[0]:
                raise TypeError("an answer has no status")
        except OSError as error:
            raise _broken(f"{file} cannot be read: {error.strerror or error}") from error
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise _broken(f"{file} is not an exchange as youBencha writes it: {error}") from error
        return exchange

    def whole_body(self, exchange: Recording) -> Any:
        """A part that is not there is named in its place: it is only needed to show what differs."""
        return put_together(exchange.body, self._part)

    def write(self, asking: ModelRequest, normal: CanonicalRequest, takes: AnswersByTrial, day: date) -> Path:
        """Raises YouBenchaError if it cannot be written, whatever is in the way."""
        body, parts = taken_apart(normal.body)
        for name, part in parts.items():
            if name not in self._written:
                self._write(self._parts / f"{name}.json", part, unless_there=True)
                self._written.add(name)
        headers = {name: asking.headers[name] for name in _REQUEST_HEADERS if name in asking.headers}
        request = {"method": asking.method, "path": asking.path, "wire": asking.wire, "headers": headers, "body": body}
        file = self._exchanges / _file_name(asking, normal)
        told = {"version": VERSION, "fingerprint": normal.fingerprint, "day": day.isoformat()}
        self._write(file, {**told, "request": request, "takes": takes})
        return file

    def _part(self, name: str) -> Any:
        try:
            return loads((self._parts / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return f"(parts/{name}.json is missing or broken)"

    def _write(self, file: Path, value: object, *, unless_there: bool = False) -> None:
        try:
            if unless_there and file.exists():
                return
            replace_file(file, _indented(value).encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise _not_writable(file, error) from error


def _parsed(file: Path) -> Any:
    try:
        return loads(file.read_bytes())
    except ValueError as error:
        raise _broken(f"{file} is no JSON: {error}") from error


def _file_name(asking: ModelRequest, normal: CanonicalRequest) -> str:
    body = normal.body if isinstance(normal.body, dict) else {}
    talk: list[Any] = next((body[key] for key in TALK if isinstance(body.get(key), list)), [])
    model = body.get("model")
    name = model if isinstance(model, str) else asking.path.rpartition("/")[2]
    clean = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "request"
    return f"{clean}-{len(talk):03}-{normal.fingerprint[:12]}.json"


def _broken(
    message: str, hint: str = "Record it again, or take the file from where the cassette came from."
) -> YouBenchaError:
    return YouBenchaError("CASSETTE_BROKEN", message, hint=hint)


def _not_writable(file: Path, error: OSError) -> YouBenchaError:
    return YouBenchaError(
        "CASSETTE_NOT_WRITABLE",
        f"Cannot write the cassette {file}: {error.strerror or error}",
        hint="Check that the directory belongs to you and has room.",
    )


# A request in parts, so that what it has in common with others is written once. Pure.
#
# An agent sends its instructions, its tools and the whole talk again with every turn. A large part is named by its
# content, and stands in a file of its own; so a talk takes as much room as was said in it, not the square of that.

PART, LINES = "$part", "$lines"

TALK = ("messages", "input", "contents")

_LARGE = 1000

_TOGETHER = 10
"""So many messages, once they are complete, are one part."""

_SHORT_LINE = 16

_OURS = re.compile(r"\$+(?:part|lines)\Z")


def taken_apart(body: Any) -> tuple[Any, dict[str, Any]]:
    """The body with references, and what they refer to."""
    parts: dict[str, Any] = {}
    if not isinstance(body, dict):
        return _apart(body, parts), parts
    return {_key(key): (_talk if key in TALK else _apart)(value, parts) for key, value in body.items()}, parts


def put_together(body: Any, part: Callable[[str], Any]) -> Any:
    """`part` gives what a reference refers to."""
    whole = _whole(body, part)
    if not isinstance(whole, dict):
        return whole
    return {key: _one_list(value) if key in TALK else value for key, value in whole.items()}


def _whole(value: Any, part: Callable[[str], Any]) -> Any:
    if isinstance(value, list):
        return [_whole(each, part) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {PART}:
        return _whole(part(value[PART]), part)
    if set(value) == {LINES}:
        return "\n".join(value[LINES])
    return {_own_key(key): _whole(each, part) for key, each in value.items()}


def _talk(value: Any, parts: dict[str, Any]) -> Any:
    """The beginning of a talk stays as it is when it goes on, so it is cut at the same places every time."""
    if not isinstance(value, list):
        return _apart(value, parts)
    whole = len(value) // _TOGETHER * _TOGETHER
    messages = [_apart(each, parts) for each in value]
    groups = [messages[at : at + _TOGETHER] for at in range(0, whole, _TOGETHER)]
    return [*(_reference(group, parts) for group in groups), *messages[whole:]]


def _one_list(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [each for item in value for each in (item if isinstance(item, list) else [item])]


def _apart(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return _reference(_in_lines(value), parts) if len(value) >= _LARGE else value
    if isinstance(value, list):
        small: Any = [_apart(each, parts) for each in value]
    elif isinstance(value, dict):
        small = {_key(key): _apart(each, parts) for key, each in value.items()}
    else:
        return value
    return _reference(small, parts) if len(canonical(small)) >= _LARGE else small


def _in_lines(text: str) -> Any:
    """For `git diff`; but not if the quotes would be more than the text."""
    lines = text.split("\n")
    return {LINES: lines} if len(text) >= _SHORT_LINE * len(lines) else text


def _reference(value: Any, parts: dict[str, Any]) -> dict[str, str]:
    name = sha256(canonical(value)).hexdigest()[:12]
    parts[name] = value
    return {PART: name}


def _key(key: str) -> str:
    """A key of the body's own that looks like one of ours gets a dollar more."""
    return f"${key}" if _OURS.match(key) else key


def _own_key(key: str) -> str:
    return key[1:] if key.startswith("$$") and _OURS.match(key) else key


# JSON in short lines, for people and for `git diff`.

_WIDTH = 110

_INDENT = "  "


def _indented(value: object) -> str:
    """What fits into a line is in one line, and an event is always: a thousand of them are a thousand lines."""
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
