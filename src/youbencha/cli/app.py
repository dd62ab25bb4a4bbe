"""The commands of `yb`, and the handling of errors and signals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.main import get_command, get_group

from youbencha import __version__
from youbencha.cli import CANNOT_RUN, INTERRUPTED
from youbencha.cli.help import Commands, HelpfulGroup, Row, usage_hint, usage_message
from youbencha.errors import YouBenchaError

_RUN = "Run and judge"
_WRITE = "Write test cases"
_SET_UP = "Set up and clean up"
_MODELS = "Models"
_AGENTS = "For agents"
_COMPARE = "Tell whether A is better than B, by how much, and how sure that is."


class CommandEntry(NamedTuple):
    section: str
    """The section in the help of `yb`."""
    where: str
    """`module:function` in this package."""
    summary: str
    """The first sentence of the command's own help, repeated here so that the help of `yb` imports no command."""
    forwards: bool = False
    """It gets its arguments unchanged, and parses them itself."""


COMMANDS = {
    "run": CommandEntry(
        _RUN, "run:run", "Run an agent on a repository as a test case describes, and judge the result."
    ),
    "eval": CommandEntry(_RUN, "run:evaluate", "Judge a directory: no agent runs, and the directory does not change."),
    "bench": CommandEntry(
        _RUN, "app:arena_app", "Compare agents: run a matrix of agents, tasks and trials, and rank them."
    ),
    "compare": CommandEntry(_RUN, "arena_results:compare", _COMPARE),
    "loop": CommandEntry(_RUN, "app:loop_app", "Keep going: run an agent again and again until its work is done."),
    "runs": CommandEntry(
        _RUN, "results:runs", "List the runs in the workspace, the newest first: verdict, agent, model, tokens, cost."
    ),
    "report": CommandEntry(_RUN, "results:report", "Write a report about a run."),
    "demo": CommandEntry(_RUN, "setup:demo", "Watch the real Claude Code CLI fix a bug, with a scripted model."),
    "init": CommandEntry(
        _WRITE, "setup:init", "Write a commented testcase.yaml, and the judge's definition for Claude Code and Copilot."
    ),
    "validate": CommandEntry(
        _WRITE,
        "setup:validate",
        "Check a test case (or an eval configuration, an arena, a loop), and everything it refers to.",
    ),
    "list": CommandEntry(
        _WRITE,
        "setup:list_all",
        "List the evaluators and agents that a test case can use, including those of installed plugins.",
    ),
    "schema": CommandEntry(_WRITE, "setup:schema", "Print a JSON Schema."),
    "suggest-testcase": CommandEntry(
        _WRITE, "setup:suggest_testcase", "Write a test case from work that an agent has already done."
    ),
    "install-agents": CommandEntry(
        _WRITE, "setup:install_agents", "Write agentic-judge.md into .github/agents and .claude/agents."
    ),
    "doctor": CommandEntry(
        _SET_UP,
        "config:doctor",
        "Check git, Docker, disk, settings and each agent with its version and login; suggest fixes.",
    ),
    "agents": CommandEntry(_SET_UP, "agents:app", "Install, list, verify and remove pinned versions of agent CLIs."),
    "images": CommandEntry(
        _SET_UP, "agents:images_app", "Build and list container images that contain an agent's CLI."
    ),
    "config": CommandEntry(
        _SET_UP,
        "config:app",
        "Show and change the settings: the project's `.youbencharc`, and your own in the home directory.",
    ),
    "prune": CommandEntry(_SET_UP, "config:prune", "Remove old runs, and what crashed runs left elsewhere."),
    "completion": CommandEntry(_SET_UP, "setup:completion", "Print the completion script for a shell."),
    "gateway": CommandEntry(
        _MODELS,
        "serving:gateway",
        "Serve a gateway that meters, caps, records and replays the requests of agents to their models.",
    ),
    "script": CommandEntry(
        _MODELS,
        "serving:serve_script",
        "Serve a scripted model with answers from a file, in the APIs of Anthropic, OpenAI and Gemini.",
    ),
}
"""The commands, in the order in which the help shows them."""

ARENA_COMMANDS = {
    "run": CommandEntry(_RUN, "arena_run:run", "Run a matrix of orchestrators, tasks and trials."),
    "list": CommandEntry(_RUN, "arena_results:list_all", "List the orchestrators, the tasks and the runs."),
    "report": CommandEntry(_RUN, "arena_results:report", "Report the results of a run."),
    "leaderboard": CommandEntry(_RUN, "arena_results:leaderboard", "Rank the orchestrators over several runs."),
    "compare": CommandEntry(_RUN, "arena_results:compare", _COMPARE),
    "rescore": CommandEntry(_RUN, "arena_results:rescore", "Validate and score the results of a run again."),
    "calibrate": CommandEntry(
        _RUN, "arena_results:calibrate", "Score doing nothing, the reference solution and cheating, for each task."
    ),
}
"""The commands of `thunderdome` and `yb bench`."""

LOOP_COMMANDS = {
    "run": CommandEntry(_RUN, "loop_run:run", "Run an agent again and again until its work is done and verified."),
    "guide": CommandEntry(_RUN, "loop_commands:guide", "Give guidance to the loop that is running in this directory."),
    "plan": CommandEntry(_RUN, "loop_run:plan", "Plan with the agent, in its own interactive session."),
    "diff": CommandEntry(_RUN, "loop_commands:diff", "Show what the loop has changed since an iteration."),
    "restore": CommandEntry(_RUN, "loop_commands:restore", "Make the files as they were after an iteration."),
    "events": CommandEntry(_RUN, "loop_commands:events", "Show the events of a loop."),
    "replay": CommandEntry(_RUN, "loop_commands:replay", "Play a recorded session on the screen."),
    "emit": CommandEntry(_AGENTS, "loop_commands:emit", "Publish an event. Agents call this.", forwards=True),
    "tools": CommandEntry(
        _AGENTS, "loop_commands:tools", "Manage tasks and memories. Agents call this.", forwards=True
    ),
    "init": CommandEntry(_SET_UP, "loop_commands:init", "Write a ralph.yml and a PROMPT.md."),
    "doctor": CommandEntry(_SET_UP, "loop_commands:doctor", "Check what a loop needs, and suggest fixes."),
    "clean": CommandEntry(_SET_UP, "loop_commands:clean", "Remove what earlier loops left."),
}
"""The commands of `ralph` and `yb loop`."""


_FORWARD = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


class _LazyCommands(Mapping[str, Any]):
    """Imports a command when it is looked up."""

    def __init__(self, table: Mapping[str, CommandEntry]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        entry = self._table[name]
        module, _, attribute = entry.where.partition(":")
        command = getattr(import_module(f"youbencha.cli.{module}"), attribute)
        holder = Commands()
        if isinstance(command, typer.Typer):
            holder.add_typer(command, name=name)
        else:
            holder.command(name, **({"context_settings": _FORWARD} if entry.forwards else {}))(command)
        return get_group(holder).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class _LazyGroup(HelpfulGroup):
    table: ClassVar[Mapping[str, CommandEntry]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _LazyCommands(self.table)})

    def command_rows(self) -> dict[str, list[Row]]:
        sections: dict[str, list[Row]] = {}
        for name, entry in self.table.items():
            sections.setdefault(entry.section, []).append((name, entry.summary))
        return sections


class _YbGroup(_LazyGroup):
    table = COMMANDS


class _ArenaGroup(_LazyGroup):
    table = ARENA_COMMANDS


class _LoopGroup(_LazyGroup):
    table = LOOP_COMMANDS


_APP_OPTIONS: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = Commands(
    cls=_YbGroup,
    name="yb",
    help="Run coding agents on real repositories; capture, meter and judge what they do.",
    **_APP_OPTIONS,
)
arena_app = Commands(
    cls=_ArenaGroup,
    name="thunderdome",
    help="Compare agents: run a matrix of agents, tasks and trials, and rank them.",
    **_APP_OPTIONS,
)
loop_app = Commands(
    cls=_LoopGroup,
    name="ralph",
    help="Keep going: run an agent again and again until its work is done.",
    **_APP_OPTIONS,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"youbencha {__version__}")
        raise typer.Exit


_Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")]
_Version = Annotated[
    bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version.")
]


@app.callback()
@loop_app.callback()
def _options(context: typer.Context, debug: _Debug = False, version: _Version = False) -> None:
    context.obj.debug |= debug  # `yb --debug bench run` and `yb bench --debug run` are the same


@arena_app.callback()
def _arena_options(
    context: typer.Context,
    debug: _Debug = False,
    version: _Version = False,
    config: Annotated[str | None, typer.Option("--config", hidden=True)] = None,
) -> None:
    """The original Thunderdome takes `--config` before the command, too."""
    context.obj.debug |= debug
    if config is not None:
        context.default_map = {name: {"config": config} for name in ARENA_COMMANDS}


@dataclass
class _Call:
    """The options before the command."""

    debug: bool = False


def run_app(arguments: Sequence[str], commands: typer.Typer = app) -> int:
    """Run one command, and return its exit code."""
    call = _Call()
    try:
        outcome = get_command(commands)(args=list(arguments), standalone_mode=False, obj=call)
        return outcome if isinstance(outcome, int) else 0
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except typer.TyperException as error:  # a wrong option or argument
        typer.echo(f"error {usage_message(error)}\nhint  {usage_hint(error)}", err=True)
        return CANNOT_RUN
    except Exception as error:  # noqa: BLE001 (show a message, not a traceback)
        if call.debug:
            import traceback

            traceback.print_exc()
        while isinstance(error, ExceptionGroup):  # of tasks that ran at the same time: the first one ended the others
            error = error.exceptions[0]
        print_error(error if isinstance(error, YouBenchaError) else unexpected_error(error))
        return CANNOT_RUN


def unexpected_error(error: Exception) -> YouBenchaError:
    if isinstance(error, FileNotFoundError) and _current_directory_is_gone():
        hint = "Change to another one."
        return YouBenchaError("CURRENT_DIRECTORY_GONE", "The current directory no longer exists.", hint=hint)
    message = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, OSError):
        hint = "Check the file, its permissions and free disk space. `yb --debug …` shows where it happened."
        return YouBenchaError("SYSTEM", message, hint=hint)
    hint = "This is a bug in youBencha. Please report it with the output of `yb --debug …`."
    return YouBenchaError("INTERNAL", message, hint=hint)


def _current_directory_is_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 (Path.cwd is the same)
    except FileNotFoundError:
        return True
    return False


def print_error(error: YouBenchaError) -> None:
    from rich.text import Text

    from youbencha.cli.terminal import console_on, terminal_width, wrap

    console, width = console_on(sys.stderr), terminal_width(sys.stderr)
    message = wrap(error.message, width, indent=6, taken=len(f"error [{error.code}] "))
    console.print(Text.assemble(("error ", "bold red"), (f"[{error.code}] ", "dim"), message))
    if error.hint:
        console.print(Text.assemble(("hint  ", "bold cyan"), wrap(error.hint, width, indent=6)))
