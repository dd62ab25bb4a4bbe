"""For a request that nothing answers: the recorded one that is most like it, and what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from youbencha.gateway.cassette.model import Asking, Mismatch
from youbencha.gateway.cassette.parts import TALK
from youbencha.gateway.cassette.shelf import Exchange, Shelf
from youbencha.gateway.cassette.wording import clipped, diff, equal_ends, from_difference, lines_of
from youbencha.gateway.cassette.written import one_line

_COMPARED_CHARACTERS = 4000
_MOST_COMPARED = 50
_NUMBER_OF_MESSAGES = re.compile(r"-(\d{3,})-[0-9a-f]{12}\.json\Z")
_OUTDATED = "It was recorded by an older youBencha, which compared requests in another way: record it again."


class _Likeness(NamedTuple):
    """What counts more comes first."""

    model: bool
    leading: int
    """So many messages from the first on are the same."""
    instructions: bool
    tools: bool
    same_length: float
    wording: float = 0.0


def mismatch(asking: Asking, body: Any, shelf: Shelf) -> Mismatch:
    """`body` as it is compared."""
    recorded = [shelf.read(file) for file in shelf.files()]
    here = [each for each in recorded if (each.method, each.path) == (asking.method, asking.path)]
    if not here:
        summary = f"nothing is recorded for {asking.method} {asking.path}; {_what_there_is(recorded)}"
        return Mismatch(summary, summary)
    near, other = _nearest(body, _likely(body, here), shelf)
    summary = "; ".join(_differences(body, other)) or "it is the same, but for what is not kept"
    head = [f"{asking.method} {asking.path}: {summary}", f"The nearest recorded request is {near.file.name}."]
    head += [_OUTDATED] if near.outdated else []
    return Mismatch(summary, "\n".join([*head, "", *diff(lines_of(other), lines_of(body))]))


def _what_there_is(recorded: list[Exchange]) -> str:
    counts = Counter(f"{each.method} {each.path}" for each in recorded)
    return "recorded: " + ", ".join(f"{count} of {what}" for what, count in counts.most_common(5))


def _likely(body: Any, recorded: list[Exchange]) -> list[Exchange]:
    """Those worth putting together and comparing: of the same model, and about as long."""
    model, length = _at(body, "model"), len(talk_of(body))

    def distance(exchange: Exchange) -> tuple[bool, int]:
        return _at(exchange.body, "model") != model, abs(_messages_in(exchange) - length)

    return sorted(recorded, key=distance)[:_MOST_COMPARED]


def _messages_in(exchange: Exchange) -> int:
    """As its file is called, since many of them may stand in one part; if somebody called it otherwise, a guess."""
    named = _NUMBER_OF_MESSAGES.search(exchange.file.name)
    return int(named[1]) if named else len(talk_of(exchange.body))


def _nearest(body: Any, recorded: list[Exchange], shelf: Shelf) -> tuple[Exchange, Any]:
    bodies = [(each, shelf.whole_body(each)) for each in recorded]
    rated = [(_likeness(body, other), each, other) for each, other in bodies]
    best = max(likeness for likeness, _, _ in rated)
    _, exchange, other = max(
        ((_wording(body, other), each, other) for likeness, each, other in rated if likeness == best),
        key=lambda found: found[0],
    )
    return exchange, other


def _likeness(body: Any, other: Any) -> _Likeness:
    talk, recorded = talk_of(body), talk_of(other)
    leading = 0
    while leading < min(len(talk), len(recorded)) and talk[leading] == recorded[leading]:
        leading += 1
    return _Likeness(
        model=_at(body, "model") == _at(other, "model"),
        leading=leading,
        instructions=_instructions(body) == _instructions(other),
        tools=_at(body, "tools") == _at(other, "tools"),
        same_length=-abs(len(talk) - len(recorded)),
    )


def _wording(body: Any, other: Any) -> float:
    from rapidfuzz import fuzz

    first, second = (one_line(talk_of(each))[-_COMPARED_CHARACTERS:] for each in (body, other))
    return fuzz.ratio(first, second)


def _differences(body: Any, other: Any) -> Iterator[str]:
    if not isinstance(body, dict) or not isinstance(other, dict):
        yield from () if body == other else ("the body differs",)
        return
    for key in sorted((body.keys() | other.keys()) - set(TALK)):
        if body.get(key) != other.get(key):
            yield _of_tools(body, other) if key == "tools" else _of_key(key, body, other)
    yield from _of_talk(talk_of(body), talk_of(other))


def _of_key(key: str, body: dict[str, Any], other: dict[str, Any]) -> str:
    if key not in other or key not in body:
        return f"`{key}` is {'new' if key in body else 'gone'}"
    return f"`{key}` differs: {_first_difference(body[key], other[key])}"


def _of_tools(body: dict[str, Any], other: dict[str, Any]) -> str:
    now, then = _tool_names(body.get("tools")), _tool_names(other.get("tools"))
    new, gone = sorted(now - then), sorted(then - now)
    told = [f"new: {', '.join(new)}"] if new else []
    told += [f"gone: {', '.join(gone)}"] if gone else []
    return f"the tools differ ({'; '.join(told) or 'in how they are described'})"


def _tool_names(tools: Any) -> set[str]:
    named = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    inner = [each.get("function") for each in named]
    return {str(each["name"]) for each in [*named, *inner] if isinstance(each, dict) and "name" in each}


def _of_talk(talk: list[Any], recorded: list[Any]) -> Iterator[str]:
    for number, (now, then) in enumerate(zip(talk, recorded, strict=False), 1):
        if now != then:
            role = f" ({now['role']})" if isinstance(now, dict) and "role" in now else ""
            yield f"message {number}{role} differs: {_first_difference(now, then)}"
            return
    if len(talk) != len(recorded):
        yield f"it has {len(talk)} messages, recorded were {len(recorded)}"


def _first_difference(now: Any, then: Any) -> str:
    ours, theirs = lines_of(now), lines_of(then)
    start, end = equal_ends(ours, theirs)
    mine, recorded = (lines[start : len(lines) - end] for lines in (ours, theirs))
    if mine and recorded:
        one, other = from_difference(mine[0].strip(), recorded[0].strip())
        return f"{_shown(one)}, recorded was {_shown(other)}"
    return f"it says more: {_shown(mine[0])}" if mine else f"it no longer says {_shown(recorded[0])}"


def _shown(line: str) -> str:
    return repr(clipped(line.strip()))


def talk_of(body: Any) -> list[Any]:
    found = [body[key] for key in TALK if isinstance(body.get(key), list)] if isinstance(body, dict) else []
    return found[0] if found else []


def _instructions(body: Any) -> list[Any]:
    return [_at(body, key) for key in ("system", "instructions", "systemInstruction")]


def _at(body: Any, key: str) -> Any:
    return body.get(key) if isinstance(body, dict) else None
