"""What all CLI agents share: prompt, lookup, environment, live events, verdict and log.

An adapter subclasses `CliAdapter`, and defines its configuration, its command line, its own variables and its events.
"""

from __future__ import annotations

from youbencha.adapters import codes
from youbencha.adapters.causes import Cause
from youbencha.adapters.cli_agent.adapter import CliAdapter, Invocation
from youbencha.adapters.cli_agent.config import AgentConfig, Argument, NonEmptyArgument, fits_argument
from youbencha.adapters.cli_agent.locate import AgentCli
from youbencha.log.session import CallFailed, CallMetered, Handler, SessionFacts, SessionRecord, StreamReader, TurnTaken

__all__ = [
    "AgentCli",
    "AgentConfig",
    "Argument",
    "CallFailed",
    "CallMetered",
    "Cause",
    "CliAdapter",
    "Handler",
    "Invocation",
    "NonEmptyArgument",
    "SessionFacts",
    "SessionRecord",
    "StreamReader",
    "TurnTaken",
    "codes",
    "fits_argument",
]
