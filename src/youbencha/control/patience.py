"""How long to wait, and for what, in seconds."""

from __future__ import annotations

from typing import NamedTuple


class Patience(NamedTuple):
    connect_s: float = 60
    """For somebody to connect."""
    handshake_s: float = 20
    """For an answer to `initialize`; a cold start took 15 s. Then the prompt goes out: not every client answers."""
    silence_s: float = 300
    """For the next message. A tool at work is not silence."""
    interrupt_s: float = 2
    """For a result after `interrupt`: agents answer it in 0.1 s, and the kill must not wait."""
    background_s: float = 600
    """For commands left in the background once the agent said it was done. As long as Claude Code's own print mode."""
    more_results_s: float = 10
    """For the turn in which the agent looks at background work that has ended. It begins within milliseconds."""


PATIENT = Patience()
