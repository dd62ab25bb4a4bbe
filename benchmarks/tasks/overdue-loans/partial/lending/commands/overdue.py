"""`lending overdue`"""

from __future__ import annotations

import argparse
from datetime import date

from lending.library import GRACE_DAYS, Library

NAME = "overdue"
HELP = "list the loans that are overdue"
CHANGES = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--member")


def run(library: Library, options: argparse.Namespace) -> int:
    today = date.today()
    for loan in library.loans:
        days = (today - loan.due).days
        if loan.open and days > GRACE_DAYS:
            print(f"{loan.item} ({loan.member}): {days} days overdue")
    return 0
