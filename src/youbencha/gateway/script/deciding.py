"""What a request is answered with. No I/O; the only state is the script's progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from youbencha.gateway.script.asked import Incoming
from youbencha.gateway.script.choosing import Chosen, Progress
from youbencha.gateway.script.format import Answer, Script
from youbencha.gateway.script.reply import Reply, json_reply, refusal, reply_to
from youbencha.gateway.script.tokens import tokens_of
from youbencha.gateway.script.variables import UnknownVariableError, substitute
from youbencha.gateway.script.wires import ANTHROPIC, Action, Wire, endpoint_of

Kind = Literal["turn", "side", "other"]


@dataclass(frozen=True, slots=True)
class Decision:
    reply: Reply
    wire: Wire | None = None
    kind: Kind = "other"
    chosen: Chosen | None = None


class Decider:
    def __init__(self, script: Script, variables: Mapping[str, str]) -> None:
        self._script = script
        self._variables = variables
        self._required_key = substitute(script.require_key, variables)
        self._progress = Progress(script)

    def decide(self, method: str, request: Incoming) -> Decision:
        if method == "HEAD":  # Claude Code 2.1.197 looks this way whether its base URL is alive
            return Decision(Reply())
        if method == "GET" and request.path.endswith("/healthz"):
            return Decision(json_reply(ANTHROPIC, {"status": "ok"}))
        endpoint = endpoint_of(method, request.path, request.headers)
        if endpoint is None:
            return Decision(refusal(ANTHROPIC, 404, f"there is no {method} {request.path} here"))
        wire = endpoint.wire
        if self._required_key is not None and request.key != self._required_key:
            return Decision(refusal(wire, 401, wire.bad_key), wire)
        if endpoint.action is Action.MODELS:
            return Decision(json_reply(wire, wire.models(self._script.model)), wire)
        if wrong := wire.complaint(request, endpoint.action):
            return Decision(refusal(wire, 400, wrong), wire)
        if endpoint.action is Action.COUNT:
            return Decision(json_reply(wire, wire.counted(len(json.dumps(request.body)) // 4)), wire)
        return self._answer(wire, request)

    def _answer(self, wire: Wire, request: Incoming) -> Decision:
        asked = wire.asked(request)
        chosen = self._progress.choose(asked)
        kind: Kind = "side" if chosen.answer is self._script.side else "turn"
        if chosen.answer is None:
            return Decision(refusal(wire, 400, _exhausted(chosen)), wire, kind, chosen)
        known = {**({"cwd": asked.cwd} if asked.cwd else {}), **self._variables}
        try:
            answer = _filled(chosen.answer, known)
            model = substitute(self._script.model, known) or asked.model
        except UnknownVariableError as unknown:
            return Decision(refusal(wire, 400, _unknown_variable(unknown.name, known)), wire, kind, chosen)
        tokens = tokens_of(answer, self._script.usage)
        reply = reply_to(wire, request, answer, stream=asked.stream, model=model, tokens=tokens)
        return Decision(reply, wire, kind, chosen)


def _filled(answer: Answer, variables: Mapping[str, str]) -> Answer:
    return type(answer).model_validate(substitute(answer.model_dump(exclude_unset=True), variables))


def _exhausted(chosen: Chosen) -> str:
    where = "" if chosen.conversation is None else f" (conversation {chosen.conversation + 1})"
    return f"script exhausted after {chosen.given} turn{'' if chosen.given == 1 else 's'}{where}"


def _unknown_variable(name: str, known: Mapping[str, str]) -> str:
    names = ", ".join(sorted(known)) or "none"
    hint = "; the request does not say where it works" if name == "cwd" else ""
    return f"the script names an unknown variable '{name}'{hint} (known: {names})"
