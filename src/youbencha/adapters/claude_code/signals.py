"""What Claude Code says that no other agent says in this form: events for this package's own accounting.

They travel in the same stream as the common events; whoever does not know them passes over them.
"""

from __future__ import annotations

from youbencha.events import Event, SessionResult
from youbencha.log.tokens import Tokens


class ModelCalled(Event):
    """One call to the model, or one more piece of news about it: ids repeat, once for each content block."""

    message_id: str | None
    """None: the call that was last started under the same `parent`."""
    model: str | None
    tokens: Tokens
    final: bool
    """False where `tokens.output` is only what the call started with (2.1.x: always 1)."""
    parent: str | None = None


class ModelRefused(Event):
    """The model declined, and there was no other to ask."""


class ModelSwitched(Event):
    """The CLI went over to another model on its own: what follows does not measure the one asked for."""

    original: str | None
    fallback: str | None
    trigger: str | None


class McpServerFailed(Event):
    name: str


class ClaudeResult(SessionResult):
    errors: tuple[str, ...] = ()
    status: int | None = None
    """HTTP status of the call that ended the session, where one did (2.1.197 and later)."""
    terminal_reason: str | None = None
    session_id: str | None = None
