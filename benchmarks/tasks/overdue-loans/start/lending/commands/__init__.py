"""The commands, by name."""

from lending.commands import items, lend, loans, take_back

COMMANDS = (items, lend, loans, take_back)
