"""`lending return`"""

from __future__ import annotations

import argparse

from lending.clock import today
from lending.library import Library

NAME = "return"
HELP = "take a tool back"
CHANGES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("item")


def run(library: Library, options: argparse.Namespace) -> int:
    loan = library.take_back(options.item, today())
    fine = loan.fine_cents(today())
    print(f"{loan.item} is back" + (f", the fine is {fine / 100:.2f}" if fine else ""))
    return 0
