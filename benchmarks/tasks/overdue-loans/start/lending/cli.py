"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lending.commands import COMMANDS
from lending.library import LendingError, load, save


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="lending")
    commands = parser.add_subparsers(dest="command", required=True)
    for module in COMMANDS:
        module.add_arguments(commands.add_parser(module.NAME, help=module.HELP))
    options = parser.parse_args(arguments)
    path = Path(os.environ.get("LENDING_DATA", "lending.json"))
    library = load(path)
    command = next(module for module in COMMANDS if module.NAME == options.command)
    try:
        code: int = command.run(library, options)
    except LendingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if command.CHANGES:
        save(path, library)
    return code
