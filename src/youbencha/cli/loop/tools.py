"""`ralph emit` and `ralph tools`, as commands of the table. Their arguments are parsed where agents' requests are."""

from __future__ import annotations

import typer

from youbencha.cli.loop.emit import call


def emit(context: typer.Context) -> int:
    """Publish an event. Agents call this.

    Example: `ralph emit build.done "tests: pass"`
    """
    return call(["emit", *context.args])


def tools(context: typer.Context) -> int:
    """Manage tasks and memories. Agents call this.

    Example: `ralph tools task add "Write the parser" -p 2`
    """
    return call(["tools", *context.args])
