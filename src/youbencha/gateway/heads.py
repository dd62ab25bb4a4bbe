"""What an agent asks of its model apart from the conversation: kept to tell whether two agents ask for the same.

A head has the model, its parameters, the system prompt and the tools. The head of the main conversation also has what
comes before the model's first answer: the prompt, and instructions such as those of a CLAUDE.md. Whatever follows
depends on the model's answers, which differ from trial to trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from itertools import takewhile
from typing import Any

from youbencha.gateway.cassette.matching import MESSAGES, ModelRequest, Places, RequestMatcher, path_forms
from youbencha.gateway.cassette.volatile import around
from youbencha.gateway.wires import WireName
from youbencha.json_lines import as_mapping, canonical, loads
from youbencha.process import Redactor

_MAX_HEADS = 64
_MAX_BYTES = 2 * 1024 * 1024
"""The size of all heads. Those of Claude Code have 60 to 160 KB, and a session has one to five."""

_IGNORED = frozenset({"stream", "stream_options"})
"""They change how an answer is sent. Some agents repeat a broken call without streaming."""

_BETA = "anthropic-beta"
"""A header that switches on features of a model."""

_SYSTEM_ROLES = frozenset({"system", "developer"})
_DIGITS = 16


class RequestHeads:
    """The heads of the requests of one key. They are made comparable when it has ended, because that takes time."""

    def __init__(self, places: Places) -> None:
        """`places` are the directories that differ from trial to trial."""
        self._places = places
        self._heads: dict[bytes, bytes] = {}
        """Each with what its first conversation began with, by the digest of the head alone."""
        self._size = 0
        self._complete = True

    def add(self, wire: WireName, path: str, headers: Mapping[str, str], body: object) -> None:
        """Keep the head of a request to a model, unless it is known."""
        if not self._complete:
            return
        try:
            self._add(wire, path, _read_head(as_mapping(body), headers), _read_opening(as_mapping(body)))
        except RecursionError:  # an agent may send anything
            self._complete = False

    def _add(self, wire: WireName, path: str, head: Mapping[str, Any], opening: Sequence[Any]) -> None:
        digest = sha256(canonical([path, head])).digest()
        if digest not in self._heads:
            self._heads[digest] = canonical([wire, path, head, opening])
            self._size += len(self._heads[digest])
            self._complete = self._size <= _MAX_BYTES and len(self._heads) <= _MAX_HEADS

    def fingerprints(self) -> tuple[str, ...] | None:
        """A digest of each head, without what differs in every trial, sorted. None if they are not known."""
        if not self._heads or not self._complete:
            return None
        try:
            return tuple(sorted(set(self._canonical())))
        except RecursionError:
            return None

    def _canonical(self) -> Iterator[str]:
        matcher, days = RequestMatcher(path_forms(self._places), Redactor()), around(date.today())
        heads = [loads(head) for head in self._heads.values()]
        main = max(heads, key=lambda head: len(_tools(head[2])))  # the first of those: subagents have fewer tools
        for head in heads:
            wire, path, body, opening = head
            whole = {**body, MESSAGES[0]: opening if head is main else []}
            yield matcher.canonical(ModelRequest("POST", path, wire, {}, whole), days).fingerprint[:_DIGITS]


def _read_head(body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    left_out = {*MESSAGES, *_IGNORED}
    head = {key: value for key, value in body.items() if key not in left_out}
    features = sorted(filter(None, (each.strip() for each in headers.get(_BETA, "").split(","))))
    return {**head, "system messages": list(_system_messages(body)), _BETA: features}


def _system_messages(body: Mapping[str, Any]) -> Iterator[Any]:
    """Some APIs have the system prompt among the messages."""
    return takewhile(lambda message: as_mapping(message).get("role") in _SYSTEM_ROLES, _conversation(body))


def _read_opening(body: Mapping[str, Any]) -> list[Any]:
    """The messages before the model's first answer."""
    return list(takewhile(lambda message: as_mapping(message).get("role") in _ASKING_ROLES, _conversation(body)))


_ASKING_ROLES = {*_SYSTEM_ROLES, "user"}


def _conversation(body: Mapping[str, Any]) -> list[Any]:
    talk: object = next((body[key] for key in MESSAGES if key in body), [])
    return talk if isinstance(talk, list) else [{"role": "user", "content": talk}]


def _tools(head: Mapping[str, Any]) -> list[Any]:
    tools = head.get("tools")
    return tools if isinstance(tools, list) else []
