"""`yb config`: show and change the settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from youbencha.cli.help import Commands
from youbencha.cli.options import settings_here
from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError
from youbencha.text import one_line, table

if TYPE_CHECKING:
    from youbencha.spec.settings import LoadedSettings


app = Commands(help="Show and change the settings: the project's `.youbencharc`, and your own in the home directory.")
NOT_SET = 1
_NEW_FILE = ".youbencharc"
Global = Annotated[bool, typer.Option("--global", help="Use the settings in your home directory, not the project's.")]


def _keys(incomplete: str) -> list[str]:
    """Complete a key for the shell."""
    from youbencha.spec.settings_edit import known_keys

    return [key for key in known_keys() if key.startswith(incomplete)]


Key = Annotated[str, typer.Argument(metavar="KEY", help="For example agent.model.", autocompletion=_keys)]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of `yb config list`."""

    key: str
    value: Any
    origin: str
    """The file, or "default"."""


@app.command()
def init(
    everywhere: Global = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing settings file.")] = False,
) -> None:
    """Write a settings file that shows every setting with its default.

    Example: `yb config init --global`
    """
    from youbencha.spec.settings import TEMPLATE, json_template, settings_file_in, write_settings

    directory = Path.home() if everywhere else Path.cwd()
    present = settings_file_in(directory)
    if present and not force:
        raise YouBenchaError(
            "SETTINGS_EXIST",
            f"{present} already exists",
            hint="Change it with `yb config set`, or replace it with `yb config init --force`.",
        )
    file = present or directory / _NEW_FILE
    write_settings(file, json_template() if file.suffix == ".json" else TEMPLATE)
    typer.echo(f"wrote {file}")


@app.command("list")
def list_settings(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show the settings in effect here, and where each comes from. Variables with names of secrets are masked.

    Example: `yb config list`
    """
    loaded = settings_here()
    rows = list(_rows(loaded))
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    cells = ((row.key, one_line(_bare(row.value)), row.origin) for row in rows)
    typer.echo(table(("KEY", "VALUE", "FROM"), cells, width=width_of(sys.stdout), drop=["FROM"]))


@app.command()
def get(key: Key) -> None:
    """Print the effective value. Exit code 1: it is not set.

    Example: `yb config get agent.model`
    """
    from youbencha.spec.settings_edit import check_key

    check_key(key)
    value: Any = settings_here().settings.model_dump()
    for step in key.split("."):
        value = value.get(step)
    if value is None:
        raise typer.Exit(NOT_SET)
    typer.echo(_bare(value))


@app.command("set")
def set_setting(
    key: Key,
    value: Annotated[str, typer.Argument(help="true, false, a number, or text.")],
    everywhere: Global = False,
    as_text: Annotated[bool, typer.Option("--string", help="Keep the value as text, even if it is a number.")] = False,
) -> None:
    """Change a setting in its file; comments and everything else are kept.

    Example: `yb config set agent.model opus`
    """
    from youbencha.spec.settings import read_settings, settings_file_in
    from youbencha.spec.settings_edit import set_value

    everywhere = everywhere or Path.cwd() == Path.home()
    file = _file(everywhere) or (Path.home() if everywhere else Path.cwd()) / _NEW_FILE
    users_file = settings_file_in(Path.home())
    user_values = None if everywhere else read_settings(users_file) if users_file else {}
    set_value(file, key, value, as_text=as_text, user_values=user_values)
    typer.echo(f"set {key} in {file}")


@app.command()
def unset(key: Key, everywhere: Global = False) -> None:
    """Remove a setting from its file, so that the next one applies. Exit code 1: it was not set there.

    Example: `yb config unset agent.model`
    """
    from youbencha.spec.settings_edit import check_key, unset_value

    file = _file(everywhere)
    if file is not None and unset_value(file, key):
        typer.echo(f"removed {key} from {file}")
        return
    check_key(key)
    typer.echo(f"{key} is not set in {file}" if file else "there is no settings file", err=True)
    raise typer.Exit(NOT_SET)


def _file(everywhere: bool) -> Path | None:
    """The file to change. In the home directory, there is only the user's own."""
    from youbencha.spec.settings import find_settings

    found = find_settings(Path.cwd(), Path.home())
    return found.user if everywhere or Path.cwd() == Path.home() else found.project


def _rows(loaded: LoadedSettings) -> Iterator[SettingRow]:
    from youbencha.process import Redactor
    from youbencha.spec.settings import leaves

    for key, value in leaves(loaded.settings.model_dump()):
        origin = loaded.origin.get(key)
        name = key.rpartition(".")[2]
        # A `key_env` is the name of a variable, not a key.
        hidden = Redactor.for_env({name: value}) if isinstance(value, str) and name != "key_env" else None
        shown = hidden.text(value) if hidden else value
        yield SettingRow(key, shown, str(origin) if origin else "default")


def _bare(value: Any) -> str:
    """Format a value as `yb config set` takes it; a group as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
