"""Suggest a test case from an agent's work: collect facts, then let an agent extend a draft made from them."""

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
