"""What every CLI agent needs, once: prompt, lookup, environment, live events, verdict and log.

An adapter on it says what differs (`CliAdapter`): its configuration, its command line, its own variables, its events.
"""

from youbencha.adapters.cli_agent.adapter import CliAdapter
from youbencha.adapters.cli_agent.causes import Cause, words
from youbencha.adapters.cli_agent.config import AgentConfig, Argument, Word, fits_argument
from youbencha.adapters.cli_agent.facts import SessionFacts
from youbencha.adapters.cli_agent.kind import Kind
from youbencha.adapters.cli_agent.locate import Cli
from youbencha.adapters.cli_agent.session import Handler, StreamReader
from youbencha.adapters.cli_agent.signals import CallFailed, CallMetered, TurnTaken
from youbencha.adapters.cli_agent.task import Task
from youbencha.adapters.cli_agent.tokens import Tokens, usage_of

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
    "StreamReader",
    "Task",
    "Tokens",
    "TurnTaken",
    "Word",
    "fits_argument",
    "usage_of",
    "words",
]
