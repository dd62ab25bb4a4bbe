"""A `claude` that does something of its own first, and then becomes the real one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from claude_lab import ClaudeLab
from systems import ON_WINDOWS
from youbencha.gateway.script import RecordedRequest


def wrapped(lab: ClaudeLab, before: str) -> Path:
    """`before` is shell. Asked for its version it says that itself: the older ones take a second to."""
    if ON_WINDOWS:
        pytest.skip("not on Windows: a shell script stands before the CLI")
    path = lab.home / "wrapped-claude"
    real = shlex.quote(str(lab.cli.executable))
    version = f'if [ "$1" = --version ]; then\necho "{lab.cli.version} (Claude Code)"\nexit\nfi'
    path.write_text(f'#!/bin/sh\n{version}\n{before}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path


class Recorder:
    """Keeps the command line that the CLI was started with."""

    def __init__(self, lab: ClaudeLab) -> None:
        self._file = lab.home / "argv"
        self.config: dict[str, Any] = {
            "executable": str(wrapped(lab, f"printf '%s\\0' \"$@\" > {shlex.quote(str(self._file))}"))
        }

    def argv(self) -> list[str]:
        return self._file.read_bytes().decode().split("\0")[:-1]


def system_of(request: RecordedRequest) -> str:
    """The system prompt of a request, as one text."""
    system = request.body.get("system") or ""
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system)


def offered_tools(request: RecordedRequest) -> set[str]:
    return {tool["name"] for tool in request.body["tools"]}
