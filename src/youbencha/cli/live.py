"""What an agent does, line by line, as it does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from youbencha.events import AssistantText, Event, RequestRetried, SessionStarted, ToolCalled, ToolReturned, Warned

_MOST_CHARACTERS = 100
_TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""The argument that says most about a tool call, most telling first."""


class LineDisplay:
    """An event sink that prints one line for each event a person wants to see."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def __call__(self, event: Event) -> None:
        line = _line(event)
        if line is not None:
            self._console.print(line)


def _line(event: Event) -> Text | None:
    match event:
        case SessionStarted(model=model, agent_version=version):
            return Text(f"session started: Claude Code {version or '?'}, model {model or '?'}", style="dim")
        case AssistantText(text=text):
            return Text.assemble(("● ", "bold"), _short(text))
        case ToolCalled(name=name, arguments=arguments):
            return Text.assemble(("⚙ ", "cyan"), (name, "bold cyan"), " ", summary(arguments))
        case ToolReturned(content=content, is_error=True):
            return Text.assemble(("  ↳ ✗ ", "red"), _short(content))
        case ToolReturned(content=content):
            return Text.assemble(("  ↳ ✓ ", "green"), (_short(content), "dim"))
        case RequestRetried(status=status, attempt=attempt):
            return Text(f"model request failed ({status or 'no answer'}), attempt {attempt}", style="yellow")
        case Warned(message=message):
            return Text(f"warning: {_short(message)}", style="yellow")
    return None


def summary(arguments: Mapping[str, Any]) -> str:
    """A tool call's arguments in a few words."""
    for name in _TELLING:
        if isinstance(arguments.get(name), str):
            return _short(arguments[name])
    return _short(json.dumps(dict(arguments), ensure_ascii=False)) if arguments else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"
