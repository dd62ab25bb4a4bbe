"""Options that several commands share, and their parsing."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from youbencha.adapters import get_adapter
from youbencha.cli.startup import users_environment
from youbencha.engine.arena import load_arena
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.spec.arena_loader import Arena
from youbencha.spec.gateway import CassetteMode, CassetteSpec, GatewayType
from youbencha.spec.sandbox import Network as NetworkType
from youbencha.spec.sandbox import SandboxSpec, SandboxType
from youbencha.spec.settings import LoadedSettings, load_settings
from youbencha.spec.testcase import AgentOverride
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayOptions

_AGENT, _SANDBOX, _MODEL = "The agent", "Where it runs", "The model"
"""Headings in the help."""

Configs = Annotated[
    list[Path],
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        help="The test case (YAML or JSON), or a directory of test cases. Can be repeated.",
    ),
]

ArenaFile = Annotated[Path, typer.Option("--config", "-c", help="The arena (YAML or JSON).")]
ARENA_FILE = Path("thunderdome.yaml")
"""Its default."""

RunNames = Annotated[
    list[str] | None, typer.Argument(help="A run: its directory, its name or a prefix of it. Default: the latest.")
]
OnlyTasks = Annotated[list[str] | None, typer.Option("--task", metavar="TASK", help="Only this task. Can be repeated.")]
Validations = Annotated[
    int | None, typer.Option("--parallel", metavar="N", min=1, help="Number of validations to run at the same time.")
]

ResultsDir = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", help="The results directory. Default: the one in the configuration."),
]

DeleteWorkspace = Annotated[
    bool | None,
    typer.Option("--delete-workspace/--keep-workspace", help="Remove the agent's files afterwards; the results stay."),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print results.json to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")]

Tui = Annotated[bool, typer.Option("--tui", help="Show the full screen: transcripts, tool calls, diffs, search.")]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and show what would run, without running it.")
]

Var = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Set the variable ${NAME} (NAME:=5 for a number). Can be repeated."),
]

Agents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="TYPE[@VERSION]",
        help="Use this agent instead of the test case's. Can be repeated.",
        rich_help_panel=_AGENT,
    ),
]

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Use this model instead of the test case's. Can be repeated.",
        rich_help_panel=_AGENT,
    ),
]

Sandbox = Annotated[
    str | None,
    typer.Option(
        metavar="local|docker", help="Where the agent runs; overrides the test case.", rich_help_panel=_SANDBOX
    ),
]

Image = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="Run it in a container of this image.", rich_help_panel=_SANDBOX)
]

Network = Annotated[
    str | None,
    typer.Option(
        metavar="gateway|none|open",
        help="What a container can reach; overrides the test case.",
        rich_help_panel=_SANDBOX,
    ),
]

Gateway = Annotated[
    str | None,
    typer.Option(
        metavar="auto|builtin|litellm|none",
        help="How the agent reaches its model; overrides the test case.",
        rich_help_panel=_MODEL,
    ),
]

Budget = Annotated[
    float | None, typer.Option(metavar="USD", help="Spending cap for the agent.", rich_help_panel=_MODEL)
]

Record = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Record the model's answers to this cassette.", rich_help_panel=_MODEL),
]

Replay = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Replay answers from this cassette; call no model.", rich_help_panel=_MODEL),
]

Cassette = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Replay answers from this cassette, and record missing ones.", rich_help_panel=_MODEL
    ),
]

WorkspaceDir = Annotated[
    Path | None,
    typer.Option(
        help="Store runs in this directory; overrides the test case and the settings.", rich_help_panel=_SANDBOX
    ),
]


def agent_choice(agent: str | None, model: str | None) -> AgentOverride:
    """Read --agent, which is TYPE or TYPE@VERSION as for `yb agents install`, and --model."""

    kind, at, version = (agent or "").partition("@")
    if agent is not None:
        if at and not version:
            hint = f"For example --agent {kind or 'claude-code'}@1.2.3; `yb agents list` shows what is installed."
            raise YouBenchaError("OPTION_INVALID", f"--agent {agent} names no version.", hint=hint)
        get_adapter(kind)  # raises an error with the known names
    if model is not None and (not model or model.startswith("-") or any(letter.isspace() for letter in model)):
        raise YouBenchaError(
            "OPTION_INVALID", f"--model {model!r} is not a model name.", hint="For example --model opus."
        )
    return AgentOverride(kind or None, version or None, model)


def gateway_options(
    kind: str | None, budget: float | None, *, record: Path | None, replay: Path | None, auto: Path | None
) -> GatewayOptions:
    """Read --gateway, --budget and the options for cassettes."""

    _check("--gateway", kind, get_args(GatewayType))
    if budget is not None and (budget < 0 or not math.isfinite(budget)):
        raise YouBenchaError(
            "OPTION_INVALID", f"--budget {budget} is not an amount.", hint="Give dollars: --budget 2.50"
        )
    return GatewayOptions(cast("GatewayType | None", kind), budget, cassette_given(record, replay, auto))


def cassette_given(record: Path | None, replay: Path | None, auto: Path | None) -> CassetteSpec | None:
    modes: dict[CassetteMode, Path | None] = {"record": record, "replay": replay, "auto": auto}
    given = [CassetteSpec(dir=str(path), mode=mode) for mode, path in modes.items() if path is not None]
    if len(given) > 1:
        exclude = "--record, --replay and --cassette exclude each other"
        raise YouBenchaError("OPTION_INVALID", exclude, hint="Choose one of them.")
    return given[0] if given else None


def sandbox_option(kind: str | None, image: str | None, network: str | None) -> SandboxSpec | None:
    """Read --sandbox, --image and --network, of which the latter two imply a container; None if none is given."""
    if kind is None and image is None and network is None:
        return None

    if image is not None and not image.strip():
        raise YouBenchaError(
            "OPTION_INVALID", "--image needs the name of an image.", hint="For example --image node:20-bookworm."
        )
    _check("--sandbox", kind, get_args(SandboxType))
    _check("--network", network, get_args(NetworkType))
    if kind == "local" and (image or network):
        option = "--image" if image else "--network"
        raise YouBenchaError("OPTION_INVALID", f"{option} is for containers", hint="Use --sandbox docker.")
    given: dict[str, Any] = {"type": kind or "docker", "image": image, "network": network}
    return SandboxSpec(**{name: value for name, value in given.items() if value is not None})


def _check(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise YouBenchaError("OPTION_INVALID", f"{option} cannot be {value}", hint=f"It is one of {', '.join(known)}.")


def settings_here() -> LoadedSettings:
    """Load the settings for the current directory, and print their warnings."""

    loaded = load_settings(Path.cwd(), Path.home())
    for warning in loaded.warnings:
        print(f"warning  {warning}", file=sys.stderr)
    return loaded


def workspaces_here() -> list[Path]:
    """The directories with the runs of `yb run` and `yb eval`."""
    settings = settings_here()
    return [settings.workspace_dir, settings.output_dir]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is removed or overwritten, unless the user has given `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise YouBenchaError(
            "NOBODY_TO_ASK",
            "Cannot ask for confirmation: stdin is not a terminal.",
            hint="Add --yes to continue without confirmation.",
        )
    if not typer.confirm(question, err=True):
        raise typer.Abort


def host_here() -> Host:
    """The host of this process: its environment, and the settings for the current directory."""

    return Host(users_environment(), settings_here())  # a copy is read ten times as fast


def arena_here(config: Path, host: Host, *, resolve_env: bool = False) -> Arena:
    """Load an arena, and print notices if its file is one of the original Thunderdome."""

    with add_hint(config):
        arena = load_arena(config, host, resolve_env=resolve_env)
    for notice in arena.notices:
        print(f"notice  {notice}", file=sys.stderr)
    return arena


def variables_given(written: Sequence[str] | None) -> dict[str, Any]:
    """Read `--var NAME=TEXT` and `--var NAME:=NUMBER`."""
    return dict(_variable(text) for text in written or ())


def _variable(written: str) -> tuple[str, Any]:
    name, equals, value = written.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name.isidentifier():
        hint = "Write NAME=TEXT, or NAME:=VALUE for a number, true or false."
        raise YouBenchaError("VARIABLE_INVALID", f"--var {written} is not a variable.", hint=hint)
    return name, _json_value(name, value) if is_json else value


def _json_value(name: str, value: str) -> Any:
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, int | float | str):
        hint = f"For text write {name}=TEXT."
        raise YouBenchaError("VARIABLE_INVALID", f"--var {name}:={value} is not a number, true or false.", hint=hint)
    return parsed


@contextmanager
def add_hint(config: Path) -> Iterator[None]:
    """Add a hint to the error about a file that does not exist, or is for another command."""
    try:
        yield
    except ConfigError as error:
        error.hint = error.hint or _advice(config, error)
        raise


_FIRST_FILES = {
    "TEST_CASE_INVALID": "`yb init` writes a first test case.",
    "ARENA_INVALID": "Name another file with --config; docs/thunderdome-yaml.md describes the format.",
}
"""Hints about files that do not exist, by the error's code."""


def _advice(config: Path, error: ConfigError) -> str | None:
    if not config.exists():
        return _FIRST_FILES.get(error.code)
    unknown = {problem.path for problem in error.problems if problem.kind == "unknown_key"}
    if error.code == "EVAL_CONFIG_INVALID" and unknown & {"repo", "agent"}:
        return f"This is a test case, with an agent to run: `yb run -c {config}`."
    if error.code == "TEST_CASE_INVALID" and "directory" in unknown:
        return f"To judge a directory without an agent: `yb eval -c {config}`."
    return None
