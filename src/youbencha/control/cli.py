"""What `python -m youbencha.control` is told. Plain argparse: it starts beside every agent, and has to be quick."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from youbencha.control.patience import Patience
from youbencha.control.policy import ToolPolicy, problem_in
from youbencha.errors import YouBenchaError

DONE, FAILED, BAD_USAGE = 0, 1, 2
_PORT = 9876
_ANY_PORT = 65_535
_DESCRIPTION = """\
Gives an agent CLI its task, answers its questions about tools, and writes what it spent. The exit code is 0 if the
agent completed its task, 1 if it failed or did not answer in time, 2 if this command was not understood."""


class Options(NamedTuple):
    task: str
    metrics_file: Path | None
    port: int
    policy: ToolPolicy
    patience: Patience
    debug: bool
    command: tuple[str, ...]
    """What to drive over standard input and output; empty: who connects is driven."""


def main(arguments: Sequence[str]) -> int:
    own, command = _divided(arguments)
    parser = _parser()
    try:
        options = _options(parser, parser.parse_args(own), command)
    except SystemExit as end:  # --help, or what argparse has complained about already
        return end.code if isinstance(end.code, int) else BAD_USAGE
    from youbencha.control.session import drive, serve

    try:
        return asyncio.run(drive(options) if options.command else serve(options))
    except YouBenchaError as error:
        print(f"youbencha.control: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return FAILED


def _divided(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Ours, and behind `--` the agent's."""
    if "--" not in arguments:
        return list(arguments), ()
    at = list(arguments).index("--")
    return list(arguments[:at]), tuple(arguments[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m youbencha.control",
        usage="%(prog)s --task-file FILE [options]\n       %(prog)s --stdio --task-file FILE [options] -- CLI [flags]",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--task-file", required=True, type=Path, metavar="FILE", help="the task, as text")
    add("--stdio", action="store_true", help="start the CLI behind `--` and drive it by its standard input and output")
    add("--port", type=int, default=_PORT, help="of 127.0.0.1, for a CLI that is given --sdk-url (%(default)s; 0: any)")
    add("--metrics-file", type=Path, metavar="FILE", help="where to write what was spent, whatever the end")
    add(
        "--idle-timeout",
        type=float,
        default=5.0,
        metavar="MINUTES",
        help="of silence, while no tool runs (%(default)g)",
    )
    add("--connect-timeout", type=float, default=60.0, metavar="SECONDS", help="until somebody connects (%(default)g)")
    add("--allow", action="append", metavar="RULE", help="allow only these tools: Read, 'Bash(git *)'; repeatable")
    add("--deny", action="append", metavar="RULE", default=[], help="deny these tools; repeatable")
    add("--debug", action="store_true", help="tell on standard error what is said")
    return parser


def _options(parser: argparse.ArgumentParser, given: argparse.Namespace, command: tuple[str, ...]) -> Options:
    if given.stdio != bool(command):
        parser.error("--stdio needs the CLI to drive behind `--`" if given.stdio else "a CLI behind `--` needs --stdio")
    if not 0 <= given.port <= _ANY_PORT:
        parser.error(f"there is no port {given.port}")
    if given.idle_timeout <= 0 or given.connect_timeout <= 0:
        parser.error("a timeout must be more than 0")
    for rule in [*(given.allow or []), *given.deny]:
        if problem := problem_in(rule):
            parser.error(problem)
    return Options(
        task=_task(parser, given.task_file),
        metrics_file=given.metrics_file,
        port=given.port,
        policy=ToolPolicy(tuple(given.allow) if given.allow else None, tuple(given.deny), root=str(Path.cwd())),
        patience=Patience(connect_s=given.connect_timeout, silence_s=given.idle_timeout * 60),
        debug=given.debug,
        command=command,
    )


def _task(parser: argparse.ArgumentParser, path: Path) -> str:
    try:
        task = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"cannot read the task file {path}: {getattr(error, 'strerror', None) or error}")
    if not task.strip():
        parser.error(f"the task file {path} is empty")
    return task
