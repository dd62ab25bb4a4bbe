"""A judge's answer: one score for each assertion, or what is wrong with it. Pure.

Two shapes are known: ours, `{"assertions": {NAME: {"score": 1, "reason": "…"}}}`, and that of the original youBencha,
`{"status": "passed", "metrics": {NAME: 1}, "message": "…"}`. What the judge says of passing
is kept, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from youbencha.evaluators.judge.extraction import objects_in
from youbencha.log import YouBenchaLog

_SHAPES = ("assertions", "metrics", "criteria")
_REASONS = ("reason", "reasoning", "explanation", "message", "evidence")
_LONGEST_WORD = 4_000
"""Of a reason or message: a result is read by people."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    scores: Mapping[str, float]
    reasons: Mapping[str, str]
    status: str | None
    message: str | None
    faults: Mapping[str, str] = field(default_factory=dict)
    """Assertions without a score that counts, and why."""


def find_answer(log: YouBenchaLog, names: Sequence[str]) -> Answer | None:
    """The last object that answers any of the assertions. What a subagent or a tool said is not the judge's word."""
    for message in reversed(log.messages):
        if message.role != "assistant" or message.parent is not None:
            continue
        for found in objects_in(message.content, _SHAPES):
            answer = read_answer(found, names)
            if answer is not None:
                return answer
    return None


def read_answer(found: Mapping[str, Any], names: Sequence[str]) -> Answer | None:
    """None if the object answers none of the assertions: it is something else, then."""
    given = _entries(found)
    entries = {name: given[folded(name)] for name in names if folded(name) in given}
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
    return Answer(
        scores=scores,
        reasons=reasons,
        status=_text(found.get("status")),
        message=_first_text(found, ("message", "summary")),
        faults=faults,
    )


def read_score(value: Any) -> float | None:
    """From 0 to 1, or nothing: what is out of range is a misunderstanding, and not nearly 1."""
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
            return {folded(str(name)): entry for name, entry in entries.items()}
    return {}


def folded(name: str) -> str:
    """Models write `No-Errors` for `no_errors`."""
    return re.sub(r"[\W_]+", "_", name).strip("_").casefold()


def _general_reasons(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Some judges put their reasons beside the scores."""
    given = found.get("reasons")
    texts = {folded(str(name)): _text(text) for name, text in given.items()} if isinstance(given, dict) else {}
    return {name: text for name in names if (text := texts.get(folded(name)))}


def _first_text(entry: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((text for key in keys if (text := _text(entry.get(key)))), None)


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip().encode("utf-8", "replace").decode()  # half of a surrogate pair could not be written down
    return text if len(text) <= _LONGEST_WORD else text[:_LONGEST_WORD] + "…"
