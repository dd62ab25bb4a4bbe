"""From an agent's work to a test case for it: facts first, then an agent's ideas around them."""

from youbencha.suggest.draft import DEFAULT_AGENT, UserAnswers
from youbencha.suggest.facts import Facts, RepositoryInfo, collect_facts, find_repository
from youbencha.suggest.session import NO_AGENT, Suggester, Suggestion, suggest

__all__ = [
    "DEFAULT_AGENT",
    "NO_AGENT",
    "Facts",
    "RepositoryInfo",
    "Suggester",
    "Suggestion",
    "UserAnswers",
    "collect_facts",
    "find_repository",
    "suggest",
]
