"""`lending lend`"""

from __future__ import annotations

import argparse

from lending.clock import today
from lending.library import Library

NAME = "lend"
HELP = "lend a tool"
CHANGES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("item")
    parser.add_argument("member")


def run(library: Library, options: argparse.Namespace) -> int:
    loan = library.lend(options.item, options.member, today())
    print(f"{loan.item} is due on {loan.due}")
    return 0
