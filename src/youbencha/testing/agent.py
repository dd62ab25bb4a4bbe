"""What the kit must be told about an agent: how to bring it into each situation of the contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter

MARKER = "KIT-7f3a9c51d2e8"
"""A word that appears nowhere by chance."""


class Situation(StrEnum):
    """What the agent is to be made to do."""

    ANSWERS = "answers"
    """Ends well, having said a text with MARKER in it."""
    WRITES_FILE = "writes-file"
    """Ends well, having written a file `kit.txt` into its current directory, holding the value of the environment
    variable KIT_PROBE."""
    SAYS_MUCH = "says-much"
    """Ends well, having written more than 15 MB of output."""
    FAILS = "fails"
    """Ends with an exit code other than 0, and an error text in its output."""
    HANGS = "hangs"
    """Says a text with MARKER in it, and then does not end."""


class NotApplicable(Exception):
    """Raised by an agent that cannot be brought into a situation; the test is skipped, with this reason."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An agent, ready for one situation."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Its `agent.config`, without the prompt: the kit adds that."""
    env: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    """What the agent ends with, if that is known beforehand: the adapter must say the same."""
    prompts: Callable[[], list[str]] | None = None
    """The prompts that reached the model so far, byte for byte, if that can be seen."""
    model_url: str | None = None
    """Where its model listens, without a path. The kit takes that for a gateway; leave it out if there is no model."""
    keys: Callable[[], list[str]] | None = None
    """The keys with which the model was asked so far, if that can be seen."""


class Agent(ABC):
    """One agent under test."""

    prompt_key = "prompt"
    """The configuration key that takes the prompt."""
    time_to_speak_ms: int | None = None
    """How long it takes to its first word. Without it, five seconds; on a busy machine, the kit tries longer ones."""

    @abstractmethod
    def adapter(self) -> AgentAdapter:
        """The adapter, with its agent installed and authenticated."""

    def adapter_without_cli(self) -> AgentAdapter:
        """The adapter on a machine where its agent is not installed."""
        raise NotApplicable("this agent needs no installation")

    def adapter_without_credentials(self) -> AgentAdapter:
        """The adapter on a machine where its agent is installed but not authenticated."""
        raise NotApplicable("this agent needs no authentication")

    @abstractmethod
    def in_situation(self, situation: Situation, workspace: Path) -> AbstractAsyncContextManager[Prepared]:
        """Prepare the agent for a situation; clean up afterwards."""
