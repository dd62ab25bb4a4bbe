"""The real `claude` behind a script that records its command line, and the requests to the model."""

from __future__ import annotations

import shlex

import pytest

from claude_bench import ClaudeBench
from systems import ON_WINDOWS
from youbencha.scripted_model import RecordedRequest


def recorded(claude: ClaudeBench) -> str:
    """An executable for the configuration. It answers `--version` itself: the older CLIs take a second for that."""
    if ON_WINDOWS:
        pytest.skip("not on Windows: a shell script stands before the CLI")
    path = claude.home / "recorded-claude"
    version = f'[ "$1" = --version ] && exec echo "{claude.cli.version} (Claude Code)"'
    keep = f"printf '%s\\0' \"$@\" > {shlex.quote(str(claude.home / 'argv'))}"
    path.write_text(f'#!/bin/sh\n{version}\n{keep}\nexec {shlex.quote(str(claude.cli.executable))} "$@"\n')
    path.chmod(0o755)
    return str(path)


def argv_of(claude: ClaudeBench) -> list[str]:
    return (claude.home / "argv").read_bytes().decode().split("\0")[:-1]


def system_of(request: RecordedRequest) -> str:
    """The system prompt of a request, as one text."""
    system = request.body.get("system") or ""
    return system if isinstance(system, str) else "\n".join(block["text"] for block in system)


def offered_tools(request: RecordedRequest) -> set[str]:
    return {tool["name"] for tool in request.body["tools"]}
