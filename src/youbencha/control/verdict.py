"""What a `result` says, in words."""

from __future__ import annotations

from typing import NamedTuple

from youbencha.control.reading import Message, text

COMPLETED = "completed"
_LONGEST = 500
_SUBTYPES = {
    "error_max_turns": "the agent reached its limit of turns",
    "error_max_budget_usd": "the agent reached its own budget",
    "error_during_execution": "the agent stopped in the middle of its work",
}


class Verdict(NamedTuple):
    ok: bool
    reason: str


def verdict_on(result: Message) -> Verdict:
    """An absent `subtype` or `is_error` is no error; a wrong `is_error` is one. API errors come as "success"."""
    subtype = result.get("subtype")
    wrong = result.get("is_error", False) is not False
    if subtype in (None, "success") and not wrong:
        return Verdict(True, COMPLETED)
    if subtype in (None, "success"):
        return Verdict(False, _in_words("the agent reported an error", result))
    return Verdict(False, _in_words(_SUBTYPES.get(str(subtype), f"the agent ended with {str(subtype)[:80]}"), result))


def _in_words(what: str, result: Message) -> str:
    errors = result.get("errors")
    listed = [error for error in errors if isinstance(error, str)] if isinstance(errors, list) else []
    details = " ".join(" ".join(listed or [text(result.get("result")) or ""]).split())
    return f"{what}: {details[:_LONGEST]}" if details else what
