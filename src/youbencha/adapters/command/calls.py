"""The calls of tools in the log of a program that only counted them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice, repeat
from typing import Any

from youbencha.adapters.cli_agent.normalize import live_facts
from youbencha.log import ToolCall

_MOST = 10_000
"""Whoever claims more does not fill our memory."""


def calls_told(details: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    facts = live_facts(details)
    if facts is None:
        return ()
    names = chain.from_iterable(repeat(name, times) for name, times in facts.tools_used.items())
    return tuple(ToolCall(name=name, arguments="") for name in islice(names, _MOST))
