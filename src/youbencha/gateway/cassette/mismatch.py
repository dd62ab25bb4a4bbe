"""For a request that nothing answers: the recorded one that is most like it, and what differs."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from youbencha.gateway.cassette.matching import Mismatch, ModelRequest
from youbencha.gateway.cassette.store import TALK, CassetteStore, Recording
from youbencha.json_lines import dumps

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


def mismatch(asking: ModelRequest, body: Any, store: CassetteStore) -> Mismatch:
    """`body` as it is compared."""
    recorded = [store.read(file) for file in store.files()]
    here = [each for each in recorded if (each.method, each.path) == (asking.method, asking.path)]
    if not here:
        summary = f"nothing is recorded for {asking.method} {asking.path}; {_what_there_is(recorded)}"
        return Mismatch(summary, summary)
    near, other = _nearest(body, _likely(body, here), store)
    summary = "; ".join(_differences(body, other)) or "it is the same, but for what is not kept"
    head = [f"{asking.method} {asking.path}: {summary}", f"The nearest recorded request is {near.file.name}."]
    head += [_OUTDATED] if near.outdated else []
    return Mismatch(summary, "\n".join([*head, "", *diff(lines_of(other), lines_of(body))]))


def _what_there_is(recorded: list[Recording]) -> str:
    counts = Counter(f"{each.method} {each.path}" for each in recorded)
    return "recorded: " + ", ".join(f"{count} of {what}" for what, count in counts.most_common(5))


def _likely(body: Any, recorded: list[Recording]) -> list[Recording]:
    """Those worth putting together and comparing: of the same model, and about as long."""
    model, length = _at(body, "model"), len(talk_of(body))

    def distance(exchange: Recording) -> tuple[bool, int]:
        return _at(exchange.body, "model") != model, abs(_messages_in(exchange) - length)

    return sorted(recorded, key=distance)[:_MOST_COMPARED]


def _messages_in(exchange: Recording) -> int:
    """As its file is called, since many of them may stand in one part; if somebody called it otherwise, a guess."""
    named = _NUMBER_OF_MESSAGES.search(exchange.file.name)
    return int(named[1]) if named else len(talk_of(exchange.body))


def _nearest(body: Any, recorded: list[Recording], store: CassetteStore) -> tuple[Recording, Any]:
    bodies = [(each, store.whole_body(each)) for each in recorded]
    rated = [(_likeness(body, other), each, other) for each, other in bodies]
    best = max(text_similarity for text_similarity, _, _ in rated)
    _, exchange, other = max(
        ((_wording(body, other), each, other) for text_similarity, each, other in rated if text_similarity == best),
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

    first, second = (dumps(talk_of(each))[-_COMPARED_CHARACTERS:] for each in (body, other))
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


# A request as lines that a person can read, and how two of them differ, in not too many. Pure.

_WIDEST = 200

_MOST_LINES = 120

_CONTEXT = 3

_SHORT = 80

_LEAD = 30


def lines_of(value: Any) -> list[str]:
    return list(_lines(value, ""))


def diff(recorded: list[str], now: list[str]) -> list[str]:
    """As `diff -u` has it. What is equal before the first difference and after the last is not even looked at."""
    start, end = equal_ends(recorded, now)
    skipped = max(0, start - _CONTEXT)
    before, after = (lines[skipped : len(lines) - max(0, end - _CONTEXT)] for lines in (recorded, now))
    found = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=_CONTEXT))
    shown = found[:_MOST_LINES]
    for at, (one, other) in enumerate(pairwise(shown)):
        if one.startswith("-") and other.startswith("+"):
            cut, same = from_difference(one[1:], other[1:])
            shown[at : at + 2] = [f"-{cut}", f"+{same}"]
    shown = [clipped(line, _WIDEST) for line in shown]
    return [*shown, f"… and {len(found) - _MOST_LINES} more lines"] if len(found) > _MOST_LINES else shown


def from_difference(one: str, other: str) -> tuple[str, str]:
    """Two long lines, without most of what they have in common before they differ."""
    same = _equal(one, other)
    if same < _SHORT - _LEAD:
        return one, other
    return f"…{one[same - _LEAD :]}", f"…{other[same - _LEAD :]}"


def clipped(text: str, width: int = _SHORT) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def equal_ends(first: list[str], second: list[str]) -> tuple[int, int]:
    """How many lines are the same from the beginning on, and how many of the others at the end."""
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
    """In one line with its key, if it has but one."""
    if isinstance(value, str) and "\n" not in value:
        yield f"{head} {value}"
    elif isinstance(value, dict | list | str) and value:
        yield head
        yield from _lines(value, indent + "  ")
    else:
        yield f"{head} {dumps(value)}"
