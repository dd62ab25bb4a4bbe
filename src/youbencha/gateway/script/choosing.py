"""Which answer a request gets. No I/O; the only state is how many answers each conversation has given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from youbencha.gateway.script.asked import Asked
from youbencha.gateway.script.format import Answer, Script, Turn, When


@dataclass(frozen=True, slots=True)
class Chosen:
    answer: Answer | None
    """None when the turns have run out."""
    turn: int | None = None
    """Which of the conversation's turns, from 0; None for an answer on the side."""
    conversation: int | None = None
    """Which of the script's `conversations`, from 0; None for its own `turns`."""
    given: int = 0
    """How many answers this conversation had, when they have run out."""


class Progress:
    """How far each conversation of each session has come."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._given: Counter[tuple[str, int | None]] = Counter()

    def choose(self, request: Asked) -> Chosen:
        if not request.has_tools and not self._script.tools_optional:
            return Chosen(self._script.side)
        which = conversation_for(self._script, request)
        turns = self._script.turns if which is None else self._script.conversations[which].turns
        number = self._given[request.session, which]
        self._given[request.session, which] += 1
        turn = turn_at(turns, number)
        if turn is None and self._script.after == "repeat-last" and turns:
            turn = len(turns) - 1
        if turn is None:
            return Chosen(None, conversation=which, given=total(turns))
        return Chosen(turns[turn], turn, which)


def conversation_for(script: Script, request: Asked) -> int | None:
    matching = (n for n, talk in enumerate(script.conversations) if matches(talk.when, request))
    return next(matching, None)


def matches(when: When, request: Asked) -> bool:
    return (
        (when.system_contains is None or when.system_contains in request.system)
        and (when.prompt_contains is None or when.prompt_contains in request.prompt)
        and (when.model is None or fnmatchcase(request.model, when.model))
    )


def turn_at(turns: Sequence[Turn], number: int) -> int | None:
    """The turn that gives the answer with this number, counted from 0; None if there is none."""
    for index, turn in enumerate(turns):
        if turn.times == "forever" or number < turn.times:
            return index
        number -= turn.times
    return None


def total(turns: Sequence[Turn]) -> int:
    return sum(turn.times for turn in turns if turn.times != "forever")
