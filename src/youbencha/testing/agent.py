"""Define for the kit how to bring an agent into each situation of the contract."""

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
"""A word that does not appear by chance."""


class Situation(StrEnum):
    """What the agent has to do."""

    ANSWERS = "answers"
    """Prints a text with MARKER in it, and succeeds."""
    WRITES_FILE = "writes-file"
    """Writes the value of the environment variable KIT_PROBE into a file `kit.txt` in its current directory, and
    succeeds."""
    SAYS_MUCH = "says-much"
    """Prints more than 15 MB, and succeeds."""
    FAILS = "fails"
    """Ends with an exit code other than 0, and an error text in its output."""
    HANGS = "hangs"
    """Prints a text with MARKER in it, and then does not end."""


class NotApplicable(Exception):
    """Raised if an agent cannot be brought into a situation; the test is skipped with this reason."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An agent, ready for one situation."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Its `agent.config`, without the prompt, which the kit adds."""
    env: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    """The agent's exit code, if it is known in advance: the adapter must report the same."""
    prompts: Callable[[], list[str]] | None = None
    """The prompts that reached the model so far, byte for byte, if they can be observed."""
    model_url: str | None = None
    """The address of its model, without a path, which the kit uses as the gateway's; None if there is no model."""
    keys: Callable[[], list[str]] | None = None
    """The keys that the model's server received so far, if they can be observed."""


class Agent(ABC):
    """One agent under test."""

    prompt_key = "prompt"
    """The configuration key of the prompt."""
    time_to_speak_ms: int | None = None
    """The time until its first output; five seconds if None. If that is too short, the kit tries longer times."""

    @abstractmethod
    def adapter(self) -> AgentAdapter:
        """Return the adapter, with its agent installed and authenticated."""

    def adapter_without_cli(self) -> AgentAdapter:
        """Return the adapter on a machine where its agent is not installed."""
        raise NotApplicable("this agent needs no installation")

    def adapter_without_credentials(self) -> AgentAdapter:
        """Return the adapter on a machine where its agent is installed but not authenticated."""
        raise NotApplicable("this agent needs no authentication")

    @abstractmethod
    def in_situation(self, situation: Situation, workspace: Path) -> AbstractAsyncContextManager[Prepared]:
        """Prepare the agent for a situation; clean up afterwards."""
