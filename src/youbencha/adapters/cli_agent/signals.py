"""What CLIs say that only their adapters need: events for the accounting of a run.

They travel in the same stream as the common events; whoever does not know them passes over them.
"""

from __future__ import annotations

from youbencha.events import Event
from youbencha.log.tokens import Tokens


class CallFailed(Event):
    """A call to the model failed for good."""

    kind: str | None
    status: int | None
    text: str


class CallMetered(Event):
    """What one call to the model took; calls add up."""

    tokens: Tokens
    cost_usd: float | None = None
    model: str | None = None


class SessionNamed(Event):
    """Which session it was, told after its beginning."""

    session_id: str | None


class TurnTaken(Event):
    """The model was asked once more, in the main conversation."""
