"""`lending overdue`"""

from __future__ import annotations

import argparse

from lending.clock import today
from lending.library import Library
from lending.output import show

NAME = "overdue"
HELP = "list the loans that are overdue"
CHANGES = False
COLUMNS = ("Item", "Member", "Due", "Days overdue")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--member", help="only this member's")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(library: Library, options: argparse.Namespace) -> int:
    day = today()
    rows = [
        (loan.item, loan.member, loan.due, (day - loan.due).days)
        for loan in library.open_loans(options.member)
        if loan.due < day
    ]
    return show(COLUMNS, rows, as_json=options.json)
