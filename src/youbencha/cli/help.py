"""Format the help of a command as two columns of plain text, in which nothing is cut off.

Typer's own help is a table of six columns. In a line of 80 characters, it cuts the names of options
("--delete-works…"); and it has to load a library for tables.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from youbencha.cli.terminal import is_plain

_WIDEST_TEXT = 100
_WIDEST_NAMES = 28
_LEAST_TEXT = 40
"""With less room for the text, it goes below the name of the option."""

Row = tuple[str, str]
_BOLD, _CYAN, _DIM, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[2m", "\x1b[0m"

_LOOKS = (
    (r"^([A-Z][a-z ]+:)(?= |$)", _BOLD),  # headings
    (r"(?<=^  )( *-[^ ,]+(?:(?:,| /) -[^ ,]+)?|[a-z][a-z-]+(?=  |$))", _CYAN),  # names
    (r"(\[(?:default: [^]]+|required)\])", _DIM),
    (r"`([^`]+)`", _CYAN),
)


class Commands(typer.Typer):
    """A group of commands with this help."""

    def __init__(self, *, cls: type[HelpfulGroup] | None = None, **options: Any) -> None:
        super().__init__(cls=cls or HelpfulGroup, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=HelpfulCommand, **options)


class HelpfulCommand(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_rendered(ctx, self, {}))


class HelpfulGroup(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), color=ctx.color)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_rendered(ctx, self, self.command_rows()))

    def command_rows(self) -> dict[str, list[Row]]:
        """Return names and summaries of the commands, by section."""
        return {"Commands": [(name, first_sentence(command.help or "")) for name, command in self.commands.items()]}


def _rendered(ctx: Any, command: TyperCommand | TyperGroup, commands: dict[str, list[Row]]) -> str:
    usage = " ".join(_usage_piece(piece) for piece in command.collect_usage_pieces(ctx))
    width = min(shutil.get_terminal_size().columns, _WIDEST_TEXT)
    paragraphs = [f"Usage: {ctx.command_path} {usage}", *_paragraphs(command.help or "")]
    blocks = [_filled(text, width) for text in paragraphs]
    for sections in (commands, _parameter_rows(ctx, command)):
        names = _names_width(sections.values(), width)
        blocks += [f"{title}:\n{_columns(rows, names, width)}" for title, rows in sections.items()]
    text = "\n\n".join(blocks) + "\n"
    return text if is_plain(sys.stdout) else _coloured(text)


def _usage_piece(piece: str) -> str:
    """`{AGENT...}...` becomes `AGENT...`: braces would mean a choice."""
    return re.sub(r"^\{(.+?)(?:\.\.\.)?\}(\.\.\.)?$", r"\1\2", piece)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n") if part.strip()]


def first_sentence(text: str) -> str:
    first, *_ = _paragraphs(text) or [""]
    return re.split(r"(?<=[.]) ", first, maxsplit=1)[0]


def _parameter_rows(ctx: Any, command: TyperCommand | TyperGroup) -> dict[str, list[Row]]:
    sections: dict[str, list[Row]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None:  # hidden
            continue
        names, text = record[0], re.sub(r"  \[x[<>]=.+\]$", "", record[1])
        if param.param_type_name == "argument":
            sections["Arguments"].append((names.partition(" <")[0], text))
            continue
        indent = "" if re.match(r"-\w,", names) else "    "  # so that all long names are aligned
        title = getattr(param, "rich_help_panel", None) or "Options"
        sections.setdefault(title, []).append((indent + _plain_type(names), text))
    return {title: rows for title, rows in sections.items() if rows}


def _plain_type(names: str) -> str:
    """`<path>` becomes `PATH`, and `<pypi|npm>` becomes `pypi|npm`."""
    return re.sub(r"<(.+)>$", lambda match: match[1] if "|" in match[1] else match[1].upper(), names)


def _names_width(sections: Iterable[Sequence[Row]], width: int) -> int:
    """Return the width of the left column, the same in all sections: the longest name that leaves room."""
    most = min(_WIDEST_NAMES, width - _LEAST_TEXT - 4)
    return max((len(name) for rows in sections for name, _ in rows if len(name) <= most), default=0)


def _columns(rows: Iterable[Row], names: int, width: int) -> str:
    indent = " " * (names + 4 if names else 8)
    lines = []
    for name, text in rows:
        filled = _filled(text, width, indent)
        same_line = len(name) <= names and filled
        lines.append(f"  {name:<{names}}  {filled.lstrip()}" if same_line else f"  {name}\n{filled}".rstrip())
    return "\n".join(lines)


def _filled(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _coloured(text: str) -> str:
    """Colour the text after the layout, so that escape sequences do not count for the columns."""
    for pattern, style in _LOOKS:
        text = re.sub(pattern, rf"{style}\1{_PLAIN}", text, flags=re.MULTILINE)
    return text


def usage_message(error: typer.TyperException) -> str:
    """Return the message on one line, without pydantic's "Value error"."""
    return " ".join(error.format_message().replace(": Value error, ", ": ").split())


def usage_hint(error: typer.TyperException) -> str:
    """Return a hint: what to use instead of a name of Ralph's; the example, if something is missing or too much."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command", None)
    unknown = re.match(r"No such (?:command|option):? '?([\w-]+)", error.format_message())
    if unknown and context is not None and context.command_path.startswith(("ralph", "yb loop")):
        from youbencha.cli.loop_run import INSTEAD

        if instead := INSTEAD.get(unknown[1]):
            return instead
    example = re.search(r"Example: `([^`]+)`", getattr(command, "help", None) or "")
    incomplete = error.format_message().startswith(("Missing", "Got unexpected extra"))
    start = f"for example `{example[1]}`; " if example and incomplete else ""
    return f"{start}run with --help for usage"
