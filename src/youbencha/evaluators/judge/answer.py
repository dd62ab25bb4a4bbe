"""Read a judge's answer: a score for each assertion, or what is wrong with it.

An answer is a JSON object, bare, fenced or inside other text. There are two forms: youBencha's,
`{"assertions": {NAME: {"score": 1, "reason": "…"}}}`, and that of the original youBencha,
`{"status": "passed", "metrics": {NAME: 1}, "message": "…"}`. The judge's own `status` is reported, but decides nothing.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from youbencha.log.model import YouBenchaLog

_SHAPES = ("assertions", "metrics", "criteria")
_REASONS = ("reason", "reasoning", "explanation", "message", "evidence")

_MAX_TEXT_CHARS = 4_000
"""Characters of a reason or message."""

SEARCHED_CHARS = 300_000
"""Characters from the end: a verdict comes last."""

_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
"""A JSON string contains no newline, so a stray quotation mark affects only its own line."""

_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")
_START = re.compile(r'\{\s*"')
_DECODER = json.JSONDecoder()
_MAX_ATTEMPTS = 1_000


@dataclass(frozen=True, kw_only=True)
class JudgeAnswer:
    scores: Mapping[str, float]
    reasons: Mapping[str, str]
    status: str | None
    message: str | None
    faults: Mapping[str, str] = field(default_factory=dict)
    """Assertions without a valid score, and why."""


def find_answer(log: YouBenchaLog, names: Sequence[str]) -> JudgeAnswer | None:
    """The last answer in the judge's own messages, not in those of its subagents or tools."""
    for message in reversed(log.messages):
        if message.role != "assistant" or message.parent is not None:
            continue
        for found in objects_in(message.content, _SHAPES):
            answer = read_answer(found, names)
            if answer is not None:
                return answer
    return None


def read_answer(found: Mapping[str, Any], names: Sequence[str]) -> JudgeAnswer | None:
    """Read an object as an answer; None if it answers none of the assertions."""
    by_name = _entries(found)
    entries = {name: by_name[normalized_name(name)] for name in names if normalized_name(name) in by_name}
    if not entries:
        return None
    scores, reasons, faults = {}, _general_reasons(found, names), {}
    for name in names:
        entry = entries.get(name)
        score = read_score(entry.get("score") if isinstance(entry, Mapping) else entry)
        if score is None:
            faults[name] = "its score is no number from 0 to 1" if name in entries else "it is missing"
        else:
            scores[name] = score
        if isinstance(entry, Mapping) and (reason := _first_text(entry, _REASONS)):
            reasons[name] = reason
    return JudgeAnswer(
        scores=scores,
        reasons=reasons,
        status=_text(found.get("status")),
        message=_first_text(found, ("message", "summary")),
        faults=faults,
    )


def read_score(value: Any) -> float | None:
    """A number from 0 to 1; None if it is anything else: a larger one may be of another scale."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):  # true and false are numbers in Python: 1 and 0
        return None
    return float(value) if 0 <= value <= 1 else None


def _entries(found: Mapping[str, Any]) -> dict[str, Any]:
    for shape in _SHAPES:
        entries = found.get(shape)
        if isinstance(entries, list):
            entries = {
                entry["name"]: entry for entry in entries if isinstance(entry, dict) and _text(entry.get("name"))
            }
        if isinstance(entries, dict) and entries:
            return {normalized_name(str(name)): entry for name, entry in entries.items()}
    return {}


def normalized_name(name: str) -> str:
    """The name without variations by models, which write `No-Errors` for `no_errors`."""
    return re.sub(r"[\W_]+", "_", name).strip("_").casefold()


def _general_reasons(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The reasons of judges that put them next to the scores."""
    reasons = found.get("reasons")
    if not isinstance(reasons, dict):
        return {}
    texts = {normalized_name(str(name)): _text(text) for name, text in reasons.items()}
    return {name: text for name in names if (text := texts.get(normalized_name(name)))}


def _first_text(entry: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((text for key in keys if (text := _text(entry.get(key)))), None)


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip().encode("utf-8", "replace").decode()  # a lone surrogate cannot be written to a file
    return text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + "…"


def objects_in(text: str, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text that have one of the keys, the last one first and outer ones before inner ones.

    Trailing commas are forgiven. A failure to decode takes time in proportion to the text, so only the last braces
    that may begin an object are tried.
    """
    text = _TRAILING_COMMA.sub(r"\1", text[-SEARCHED_CHARS:])
    last_key = max(text.rfind(f'"{key}"') for key in keys)
    starts = deque((match.start() for match in _START.finditer(text, 0, last_key + 1)), maxlen=_MAX_ATTEMPTS)
    values, end = [], 0
    for start in starts:
        if start >= end:
            with suppress(ValueError, RecursionError):
                value, end = _DECODER.raw_decode(text, start)
                values.append(value)
    while values:
        value = values.pop()
        if isinstance(value, dict):
            if not value.keys().isdisjoint(keys):
                yield value
            values += value.values()
        elif isinstance(value, list):
            values += value
