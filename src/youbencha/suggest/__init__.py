"""From an agent's work to a test case for it: facts first, then an agent's ideas around them."""

from youbencha.suggest.draft import DEFAULT_AGENT, Wanted
from youbencha.suggest.facts import Facts, Home, find_home, gather
from youbencha.suggest.session import NO_AGENT, Session, Suggestion, suggest

__all__ = [
    "DEFAULT_AGENT",
    "NO_AGENT",
    "Facts",
    "Home",
    "Session",
    "Suggestion",
    "Wanted",
    "find_home",
    "gather",
    "suggest",
]
