"""What an agent does, line by line, as it does it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from youbencha.events import AssistantText, Event, RequestRetried, SessionStarted, ToolCalled, ToolReturned, Warned

_MOST_CHARACTERS = 100
_TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""The argument that says most about a tool call, most telling first."""


class LineDisplay:
    """An event sink that prints one line for each event a person wants to see.

    Paths `inside` the workspace are shown from there.
    """

    def __init__(self, console: Console, *, inside: Path | None = None) -> None:
        self._console = console
        self._prefix = f"{inside}{os.sep}" if inside else ""

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def __call__(self, event: Event) -> None:
        line = self._line(event)
        if line is not None:
            self._console.print(line)

    def _line(self, event: Event) -> Text | None:
        match event:
            case SessionStarted(model=model, agent_version=version):
                return Text(f"session started: version {version or '?'}, model {model or '?'}", style="dim")
            case AssistantText(text=text):
                return Text.assemble(("● ", "bold"), self._short(text))
            case ToolCalled(name=name, arguments=arguments):
                return Text.assemble(("⚙ ", "cyan"), (name, "bold cyan"), " ", self._short(telling(arguments)))
            case ToolReturned(content=content, is_error=True):
                return Text.assemble(("  ↳ ✗ ", "red"), self._short(content))
            case ToolReturned(content=content):
                return Text.assemble(("  ↳ ✓ ", "green"), (self._short(content), "dim"))
            case RequestRetried(status=status, attempt=attempt):
                return Text(f"model request failed ({status or 'no answer'}), attempt {attempt}", style="yellow")
            case Warned(message=message):
                return Text(f"warning: {self._short(message)}", style="yellow")
        return None

    def _short(self, text: str) -> str:
        line = " ".join(text.split())
        line = line.replace(self._prefix, "") if self._prefix else line
        return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def telling(arguments: Mapping[str, Any]) -> str:
    """What says most about a tool call."""
    for name in _TELLING:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    return json.dumps(dict(arguments), ensure_ascii=False) if arguments else ""
