"""What all CLI agents share: prompt, lookup, environment, live events, verdict and log.

An adapter subclasses `CliAdapter`, and defines its configuration, its command line, its own variables and its events.
"""

from __future__ import annotations

from youbencha.adapters.cli_agent import codes
from youbencha.adapters.cli_agent.adapter import CliAdapter
from youbencha.adapters.cli_agent.causes import Cause
from youbencha.adapters.cli_agent.config import AgentConfig, Argument, NonEmptyArgument, fits_argument
from youbencha.adapters.cli_agent.invocation import Invocation
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.adapters.cli_agent.locate import AgentCli
from youbencha.adapters.cli_agent.verdict import VerdictRules
from youbencha.log.session import CallFailed, CallMetered, Handler, SessionFacts, SessionRecord, StreamReader, TurnTaken

__all__ = [
    "AgentCli",
    "AgentConfig",
    "AgentKind",
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
    "VerdictRules",
    "codes",
    "fits_argument",
]
