"""What every CLI agent needs, once: prompt, lookup, environment, live events, verdict and log.

An adapter on it says what differs (`CliAdapter`): its configuration, its command line, its own variables, its events.
What is not used is not loaded: an agent without events, or a run without a fault, pays for neither.
"""

from typing import TYPE_CHECKING

from youbencha.adapters.cli_agent import codes, fields
from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.adapter import CliAdapter
    from youbencha.adapters.cli_agent.causes import Cause, words
    from youbencha.adapters.cli_agent.config import AgentConfig, Argument, Word, fits_argument
    from youbencha.adapters.cli_agent.facts import SessionFacts
    from youbencha.adapters.cli_agent.kind import Kind
    from youbencha.adapters.cli_agent.locate import Cli
    from youbencha.adapters.cli_agent.session import Handler, StreamReader
    from youbencha.adapters.cli_agent.signals import CallFailed, CallMetered, SessionNamed, TurnTaken
    from youbencha.adapters.cli_agent.task import Task

__all__ = [
    "AgentConfig",
    "Argument",
    "CallFailed",
    "CallMetered",
    "Cause",
    "Cli",
    "CliAdapter",
    "Handler",
    "Kind",
    "SessionFacts",
    "SessionNamed",
    "StreamReader",
    "Task",
    "TurnTaken",
    "Word",
    "codes",
    "fields",
    "fits_argument",
    "words",
]

_HOMES = {
    "AgentConfig": "config",
    "Argument": "config",
    "CallFailed": "signals",
    "CallMetered": "signals",
    "Cause": "causes",
    "Cli": "locate",
    "CliAdapter": "adapter",
    "Handler": "session",
    "Kind": "kind",
    "SessionFacts": "facts",
    "SessionNamed": "signals",
    "StreamReader": "session",
    "Task": "task",
    "TurnTaken": "signals",
    "Word": "config",
    "fits_argument": "config",
    "words": "causes",
}

__getattr__ = imported_when_asked(__name__, _HOMES)
