"""Find the recorded request that is most similar to one without a match, and show the difference."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from youbencha.gateway.cassette.matching import MESSAGES, Mismatch, ModelRequest
from youbencha.gateway.cassette.store import CassetteStore, Recording, messages_of
from youbencha.json_lines import dumps, records

_COMPARED_CHARACTERS = 4000
_MOST_COMPARED = 50
_NUMBER_OF_MESSAGES = re.compile(r"-(\d{3,})-[0-9a-f]{12}\.json\Z")
_OUTDATED = "It was recorded by an older youBencha, which compared requests differently: record it again."


class _Likeness(NamedTuple):
    """How similar two requests are; the most important criterion comes first."""

    model: bool
    leading: int
    """The number of equal messages at the start."""
    instructions: bool
    tools: bool
    same_length: float


def mismatch(request: ModelRequest, body: Any, store: CassetteStore) -> Mismatch:
    """Explain why no recording matches a request; `body` is its canonical form."""
    recorded = [store.read(file) for file in store.files()]
    here = [each for each in recorded if (each.method, each.path) == (request.method, request.path)]
    if not here:
        summary = f"nothing is recorded for {request.method} {request.path}; {_what_is_recorded(recorded)}"
        return Mismatch(summary, summary)
    near, other = _nearest(body, _likely(body, here), store)
    same = f"it was recorded without an answer: {near.trials[0][-1].get('lost', 'unknown')}"
    summary = "; ".join(_differences(body, other)) or same
    head = [f"{request.method} {request.path}: {summary}", f"The nearest recorded request is {near.file.name}."]
    head += [_OUTDATED] if near.outdated else []
    return Mismatch(summary, "\n".join([*head, "", *diff(lines_of(other), lines_of(body))]))


def _what_is_recorded(recorded: list[Recording]) -> str:
    counts = Counter(f"{each.method} {each.path}" for each in recorded)
    return "recorded: " + ", ".join(f"{count} of {what}" for what, count in counts.most_common(5))


def _likely(body: Any, recorded: list[Recording]) -> list[Recording]:
    """Return those to compare in full: of the same model, and about as long."""
    model, length = _at(body, "model"), len(messages_of(body))

    def distance(recording: Recording) -> tuple[bool, int]:
        return _at(recording.body, "model") != model, abs(_messages_in(recording) - length)

    return sorted(recorded, key=distance)[:_MOST_COMPARED]


def _messages_in(recording: Recording) -> int:
    """Return the number in the file name, because one part may contain many messages; else an estimate."""
    named = _NUMBER_OF_MESSAGES.search(recording.file.name)
    return int(named[1]) if named else len(messages_of(recording.body))


def _nearest(body: Any, recorded: list[Recording], store: CassetteStore) -> tuple[Recording, Any]:
    rated = [(_likeness(body, other), each, other) for each, other in store.whole_bodies(recorded)]
    best = max(likeness for likeness, _, _ in rated)
    _, recording, other = max(
        ((_wording(body, other), each, other) for likeness, each, other in rated if likeness == best),
        key=lambda found: found[0],
    )
    return recording, other


def _likeness(body: Any, other: Any) -> _Likeness:
    messages, recorded = messages_of(body), messages_of(other)
    leading = 0
    while leading < min(len(messages), len(recorded)) and messages[leading] == recorded[leading]:
        leading += 1
    return _Likeness(
        model=_at(body, "model") == _at(other, "model"),
        leading=leading,
        instructions=_instructions(body) == _instructions(other),
        tools=_at(body, "tools") == _at(other, "tools"),
        same_length=-abs(len(messages) - len(recorded)),
    )


def _wording(body: Any, other: Any) -> float:
    from rapidfuzz import fuzz

    first, second = (dumps(messages_of(each))[-_COMPARED_CHARACTERS:] for each in (body, other))
    return fuzz.ratio(first, second)


def _differences(body: Any, other: Any) -> Iterator[str]:
    if not isinstance(body, dict) or not isinstance(other, dict):
        yield from () if body == other else ("the body differs",)
        return
    for key in sorted((body.keys() | other.keys()) - set(MESSAGES)):
        if body.get(key) != other.get(key):
            yield _of_tools(body, other) if key == "tools" else _of_key(key, body, other)
    yield from _of_messages(messages_of(body), messages_of(other))


def _of_key(key: str, body: dict[str, Any], other: dict[str, Any]) -> str:
    if key not in other or key not in body:
        return f"`{key}` is {'new' if key in body else 'missing'}"
    return f"`{key}` differs: {_first_difference(body[key], other[key])}"


def _of_tools(body: dict[str, Any], other: dict[str, Any]) -> str:
    now, then = _tool_names(body.get("tools")), _tool_names(other.get("tools"))
    new, missing = sorted(now - then), sorted(then - now)
    changes = [f"new: {', '.join(new)}"] if new else []
    changes += [f"missing: {', '.join(missing)}"] if missing else []
    return f"the tools differ ({'; '.join(changes) or 'in their descriptions'})"


def _tool_names(tools: Any) -> set[str]:
    named = records(tools)
    inner = [each.get("function") for each in named]
    return {str(each["name"]) for each in [*named, *inner] if isinstance(each, dict) and "name" in each}


def _of_messages(messages: list[Any], recorded: list[Any]) -> Iterator[str]:
    for number, (now, then) in enumerate(zip(messages, recorded, strict=False), 1):
        if now != then:
            role = f" ({now['role']})" if isinstance(now, dict) and "role" in now else ""
            yield f"message {number}{role} differs: {_first_difference(now, then)}"
            return
    if len(messages) != len(recorded):
        yield f"it has {len(messages)} messages, the recording has {len(recorded)}"


def _first_difference(now: Any, then: Any) -> str:
    ours, theirs = lines_of(now), lines_of(then)
    start, end = equal_ends(ours, theirs)
    mine, recorded = (lines[start : len(lines) - end] for lines in (ours, theirs))
    if mine and recorded:
        one, other = from_difference(mine[0].strip(), recorded[0].strip())
        return f"{_shown(one)}, recorded: {_shown(other)}"
    return f"added: {_shown(mine[0])}" if mine else f"missing: {_shown(recorded[0])}"


def _shown(line: str) -> str:
    return repr(clipped(line.strip()))


def _instructions(body: Any) -> list[Any]:
    return [_at(body, key) for key in ("system", "instructions", "systemInstruction")]


def _at(body: Any, key: str) -> Any:
    return body.get(key) if isinstance(body, dict) else None


_WIDEST = 200
_MOST_LINES = 120
_COMPARED = 2000  # lines; the time that difflib takes may grow with their square
_CONTEXT = 3
_SHORT = 80
_LEAD = 30


def lines_of(value: Any) -> list[str]:
    return list(_lines(value, ""))


def diff(recorded: list[str], now: list[str]) -> list[str]:
    """Return a unified diff. Equal lines at the start and the end are not compared."""
    start, end = equal_ends(recorded, now)
    skipped = max(0, start - _CONTEXT)
    before, after = (lines[skipped : len(lines) - max(0, end - _CONTEXT)][:_COMPARED] for lines in (recorded, now))
    found = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=_CONTEXT))
    shown = found[:_MOST_LINES]
    for at, (one, other) in enumerate(pairwise(shown)):
        if one.startswith("-") and other.startswith("+"):
            cut, same = from_difference(one[1:], other[1:])
            shown[at : at + 2] = [f"-{cut}", f"+{same}"]
    shown = [clipped(line, _WIDEST) for line in shown]
    return [*shown, f"… and {len(found) - _MOST_LINES} more lines"] if len(found) > _MOST_LINES else shown


def from_difference(one: str, other: str) -> tuple[str, str]:
    """Shorten the common start of two long lines."""
    same = _equal(one, other)
    if same < _SHORT - _LEAD:
        return one, other
    return f"…{one[same - _LEAD :]}", f"…{other[same - _LEAD :]}"


def clipped(text: str, width: int = _SHORT) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def equal_ends(first: list[str], second: list[str]) -> tuple[int, int]:
    """Return how many lines are equal at the start, and how many of the rest at the end."""
    start = _equal(first, second)
    return start, _equal(first[start:][::-1], second[start:][::-1])


def _equal(first: Sequence[str], second: Sequence[str]) -> int:
    return next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _item(f"{indent}{key}:", each, indent)
    elif isinstance(value, list) and value:
        for each in value:
            yield from _item(f"{indent}-", each, indent)
    elif isinstance(value, str):
        yield from (f"{indent}{line}" for line in value.split("\n"))
    else:
        yield indent + dumps(value)


def _item(head: str, value: Any, indent: str) -> Iterator[str]:
    """Yield a key and its value on one line, if the value has only one line."""
    if isinstance(value, str) and "\n" not in value:
        yield f"{head} {value}"
    elif isinstance(value, dict | list | str) and value:
        yield head
        yield from _lines(value, indent + "  ")
    else:
        yield f"{head} {dumps(value)}"
