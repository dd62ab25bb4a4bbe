"""Recurring events."""

from recur.agenda import Agenda, Entry
from recur.expand import first_on_or_after, occurrences
from recur.rule import Rule, RuleError, parse_rule

__all__ = ["Agenda", "Entry", "Rule", "RuleError", "first_on_or_after", "occurrences", "parse_rule"]
