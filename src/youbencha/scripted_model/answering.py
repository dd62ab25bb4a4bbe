"""Choose the answer to a request, and create its bytes, including faults. No I/O: the server sends it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Literal

from youbencha.gateway.wires import Action, WireName, find_route
from youbencha.scripted_model.anthropic import ScriptedAnthropic
from youbencha.scripted_model.format import (
    HttpError,
    Script,
    ScriptedAnswer,
    Turn,
    UnknownVariableError,
    When,
    substitute,
)
from youbencha.scripted_model.gemini import ScriptedGemini
from youbencha.scripted_model.openai import ScriptedChat, ScriptedResponses
from youbencha.scripted_model.wire import (
    MODEL_WITHOUT_NAME,
    ClaimedTokens,
    HttpRequest,
    Message,
    ScriptedWire,
    ScriptRequest,
    WireEvent,
    claimed_tokens,
    event_bytes,
    new_id,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    answer: ScriptedAnswer | None
    """None after the last turn."""
    turn: int | None = None
    """The number of the turn in its conversation, from 0; None for the answer to a side request."""
    conversation: int | None = None
    """The number of the conversation in `conversations`, from 0; None for the script's `turns`."""
    given: int = 0
    """The number of answers in this conversation, after the last one."""


class ScriptedProgress:
    """Counts the answers in each conversation of each session."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._given: Counter[tuple[str, int | None]] = Counter()

    def choose(self, request: ScriptRequest) -> Chosen:
        if not request.has_tools and not self._script.tools_optional:
            return Chosen(self._script.side)
        conversations = self._script.conversations
        which = next((n for n, talk in enumerate(conversations) if matches(talk.when, request)), None)
        turns = self._script.turns if which is None else conversations[which].turns
        session = "" if self._script.across_sessions else request.session
        number = self._given[session, which]
        self._given[session, which] += 1
        turn = turn_at(turns, number)
        if turn is None and self._script.after == "repeat-last" and turns:
            turn = len(turns) - 1
        if turn is None:
            return Chosen(None, conversation=which, given=total(turns))
        return Chosen(turns[turn], turn, which)


def matches(when: When, request: ScriptRequest) -> bool:
    return (
        (when.system_contains is None or when.system_contains in request.system)
        and (when.prompt_contains is None or when.prompt_contains in request.prompt)
        and (when.user_contains is None or any(when.user_contains in text for text in request.by_user))
        and (when.model is None or fnmatchcase(request.model, when.model))
    )


def turn_at(turns: Sequence[Turn], number: int) -> int | None:
    """Return the turn for the answer with this number, from 0; None if there is none."""
    for index, turn in enumerate(turns):
        if turn.times == "forever" or number < turn.times:
            return index
        number -= turn.times
    return None


def total(turns: Sequence[Turn]) -> int:
    return sum(turn.times for turn in turns if turn.times != "forever")


EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


class ScriptedEnding(Enum):
    """How the body ends."""

    COMPLETE = "complete"
    DROP = "drop"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()
    """Each is written separately."""
    ending: ScriptedEnding = ScriptedEnding.COMPLETE
    delay: float = 0.0
    pause: float = 0.0


def json_reply(
    wire: ScriptedWire,
    body: Any,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request_id: str | None = None,
) -> Reply:
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Reply(
        status=status, headers={"content-type": JSON, **_identified(wire, request_id), **(headers or {})}, pieces=(raw,)
    )


def error_reply(wire: ScriptedWire, error: HttpError, *, delay: float = 0.0) -> Reply:
    request_id = new_id("req")
    body = wire.error_body(error.status, error.message, error.type, request_id)
    given = {name.lower(): str(value) for name, value in error.headers.items()}
    reply = json_reply(wire, body, status=error.status, headers=given, request_id=request_id)
    return replace(reply, delay=delay)


def refusal(wire: ScriptedWire, status: int, message: str) -> Reply:
    """Return an error of the server itself, with a header that tells clients not to retry."""
    return error_reply(wire, HttpError(status=status, message=message, headers={"x-should-retry": "false"}))


def reply_to(
    wire: ScriptedWire, request: HttpRequest, answer: ScriptedAnswer, *, stream: bool, model: str, tokens: ClaimedTokens
) -> Reply:
    """`answer` has its variables filled in."""
    if answer.error is not None:
        return error_reply(wire, answer.error, delay=answer.delay)
    if answer.garbage is not None:
        headers = {"content-type": "text/plain; charset=utf-8"}
        return Reply(headers=headers, pieces=(answer.garbage.encode("utf-8", "replace"),), delay=answer.delay)
    message = wire.message(answer, model, tokens, request)
    return _stream(wire, answer, wire.events(message, request)) if stream else _whole(wire, answer, message)


def _stream(wire: ScriptedWire, answer: ScriptedAnswer, events: list[WireEvent]) -> Reply:
    begun = _up_to_first_delta(wire, events)
    ending, closing = ScriptedEnding.COMPLETE, b""
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        body = wire.error_body(error.status, error.message, error.type, None)
        events = [*begun, wire.error_event(body, begun)]
    elif answer.drop is not None:
        events = events[: answer.drop.after_events]
        ending = ScriptedEnding.COMPLETE if answer.drop.clean else ScriptedEnding.DROP
    elif answer.hang:
        events, ending = begun, ScriptedEnding.HANG
    else:
        closing = wire.closing
    return Reply(
        headers={"content-type": EVENT_STREAM, "cache-control": "no-cache", **_identified(wire)},
        pieces=_cut([*(event_bytes(event) for event in events), *([closing] if closing else [])], answer.chunk_bytes),
        ending=ending,
        delay=answer.delay,
        pause=answer.pause,
    )


def _whole(wire: ScriptedWire, answer: ScriptedAnswer, message: Message) -> Reply:
    """The same faults for a client without a stream, as far as they are possible."""
    if answer.error_mid_stream is not None:
        error = answer.error_mid_stream
        instead = HttpError(status=error.status, type=error.type, message=error.message)
        return error_reply(wire, instead, delay=answer.delay)
    sent = json_reply(wire, message)
    body, ending = sent.pieces[0], ScriptedEnding.COMPLETE
    if answer.drop is not None:
        body = body[: len(body) // 2 if answer.drop.after_events else 0]
        ending = ScriptedEnding.COMPLETE if answer.drop.clean else ScriptedEnding.DROP
    elif answer.hang:
        body, ending = b"", ScriptedEnding.HANG
    return replace(sent, pieces=_cut([body], answer.chunk_bytes), ending=ending, delay=answer.delay, pause=answer.pause)


def _identified(wire: ScriptedWire, request_id: str | None = None) -> dict[str, str]:
    return {wire.request_id_header: request_id or new_id("req")} if wire.request_id_header else {}


def _up_to_first_delta(wire: ScriptedWire, events: Sequence[WireEvent]) -> list[WireEvent]:
    deltas = (n for n, event in enumerate(events) if wire.is_delta(event))
    return list(events[: next(deltas, 0) + 1])


def _cut(parts: Sequence[bytes], size: int | None) -> tuple[bytes, ...]:
    if size is None:
        return tuple(parts)
    body = b"".join(parts)
    return tuple(body[start : start + size] for start in range(0, len(body), size))


Kind = Literal["turn", "side", "other"]


@dataclass(frozen=True, slots=True)
class ScriptedDecision:
    reply: Reply
    wire: ScriptedWire | None = None
    kind: Kind = "other"
    chosen: Chosen | None = None


class Decider:
    def __init__(self, script: Script, variables: Mapping[str, str]) -> None:
        self._script = script
        self._variables = variables
        self._required_key = substitute(script.require_key, variables)
        self._progress = ScriptedProgress(script)

    def decide(self, method: str, request: HttpRequest) -> ScriptedDecision:
        if method == "HEAD":  # Claude Code 2.1.197 probes its base URL in this way
            return ScriptedDecision(Reply())
        if method == "GET" and request.path.endswith("/healthz"):
            return ScriptedDecision(json_reply(ANTHROPIC, {"status": "ok"}))
        route = find_route(method, request.path, request.headers)
        if route is None:
            return ScriptedDecision(refusal(ANTHROPIC, 404, f"{method} {request.path} is not served here"))
        wire = _WIRES[route.wire.name]
        if self._required_key is not None and request.key != self._required_key:
            return ScriptedDecision(refusal(wire, 401, wire.bad_key), wire)
        if route.action is Action.MODELS:
            return ScriptedDecision(self._models(wire, route.path), wire)
        if wrong := wire.problem_with(request, route.action):
            return ScriptedDecision(refusal(wire, 400, wrong), wire)
        if route.action is Action.COUNT:
            return ScriptedDecision(json_reply(wire, wire.counted(len(json.dumps(request.body)) // 4)), wire)
        return self._answer(wire, request)

    def _models(self, wire: ScriptedWire, path: str) -> Reply:
        """Answer a request for the list of models, or for one."""
        if name := path.partition("/models/")[2]:
            return json_reply(wire, wire.model(name)) if self._exists(name) else _unknown_model(wire, name)
        names = self._script.models or [self._script.model or MODEL_WITHOUT_NAME]
        return json_reply(wire, wire.models(names))

    def _exists(self, model: str) -> bool:
        return not self._script.models or model in self._script.models

    def _answer(self, wire: ScriptedWire, request: HttpRequest) -> ScriptedDecision:
        incoming = wire.read(request)
        if not self._exists(incoming.model):
            return ScriptedDecision(_unknown_model(wire, incoming.model), wire)
        chosen = self._progress.choose(incoming)
        kind: Kind = "side" if chosen.answer is self._script.side else "turn"
        if chosen.answer is None:
            return ScriptedDecision(refusal(wire, 400, _exhausted(chosen)), wire, kind, chosen)
        known = {**({"cwd": incoming.cwd} if incoming.cwd else {}), **self._variables}
        try:
            answer = _filled(chosen.answer, known)
            model = substitute(self._script.model, known) or incoming.model
        except UnknownVariableError as unknown:
            return ScriptedDecision(refusal(wire, 400, _unknown_variable(unknown.name, known)), wire, kind, chosen)
        tokens = claimed_tokens(answer, self._script.usage)
        reply = reply_to(wire, request, answer, stream=incoming.stream, model=model, tokens=tokens)
        return ScriptedDecision(reply, wire, kind, chosen)


def _filled(answer: ScriptedAnswer, variables: Mapping[str, str]) -> ScriptedAnswer:
    return type(answer).model_validate(substitute(answer.model_dump(exclude_unset=True), variables))


def _unknown_model(wire: ScriptedWire, name: str) -> Reply:
    return refusal(wire, 404, f"model: {name}")


def _exhausted(chosen: Chosen) -> str:
    where = "" if chosen.conversation is None else f" (conversation {chosen.conversation + 1})"
    return f"script exhausted after {chosen.given} turn{'' if chosen.given == 1 else 's'}{where}"


def _unknown_variable(name: str, known: Mapping[str, str]) -> str:
    names = ", ".join(sorted(known)) or "none"
    hint = "; the request names no working directory" if name == "cwd" else ""
    return f"the script names an unknown variable '{name}'{hint} (known: {names})"


ANTHROPIC = ScriptedAnthropic()
"""Also used if the path does not identify the API."""

_WIRES: Mapping[WireName, ScriptedWire] = {
    wire.name: wire for wire in (ANTHROPIC, ScriptedChat(), ScriptedResponses(), ScriptedGemini())
}
