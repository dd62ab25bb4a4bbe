"""`lending items`"""

from __future__ import annotations

import argparse

from lending.library import Library
from lending.output import show

NAME = "items"
HELP = "list the tools"
CHANGES = False
COLUMNS = ("Item", "Lent to")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(library: Library, options: argparse.Namespace) -> int:
    members = {loan.item: loan.member for loan in library.open_loans()}
    names = sorted(item.name for item in library.items if not item.lost)
    return show(COLUMNS, [(name, members.get(name)) for name in names], as_json=options.json)
