"""`lending loans`"""

from __future__ import annotations

import argparse

from lending.library import Library
from lending.output import show

NAME = "loans"
HELP = "list the loans that are open"
CHANGES = False
COLUMNS = ("Item", "Member", "Due")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--member", help="only this member's")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(library: Library, options: argparse.Namespace) -> int:
    rows = [(loan.item, loan.member, loan.due) for loan in library.open_loans(options.member)]
    return show(COLUMNS, rows, as_json=options.json)
