"""The commands, by name."""

from lending.commands import items, lend, loans, overdue, take_back

COMMANDS = (items, lend, loans, overdue, take_back)
