"""`yb agents`: install, list, check and remove pinned versions of agent CLIs."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from youbencha.cli.help import Commands
from youbencha.cli.interrupts import run_async
from youbencha.cli.terminal import steps_on_stderr, terminal_width
from youbencha.errors import YouBenchaError
from youbencha.sandbox.images.build import RECIPES, build_image, list_images
from youbencha.sandbox.toolbox.catalogue import parse_request
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.sandbox.toolbox.toolbox import AgentOnPath, Toolbox, find_program, on_path
from youbencha.text import UNKNOWN, table

app = Commands(help="Install, list, verify and remove pinned versions of agent CLIs.")


class From(StrEnum):
    PYPI = "pypi"
    NPM = "npm"


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One line of `yb agents list`."""

    agent: str
    version: str | None
    source: str
    size_bytes: int
    sha256: str
    executable: str


@app.command()
def install(
    agents: Annotated[
        list[str],
        typer.Argument(metavar="AGENT[@VERSION]...", help="An agent with a version, such as claude-code@2.0.62."),
    ],
    source: Annotated[
        From | None, typer.Option("--from", help="Where to download it from. Default: the best source for the agent.")
    ] = None,
) -> None:
    """Install agents, each in the given version or else the newest.

    Example: `yb agents install claude-code@2.0.62 codex`
    """
    requests = [parse_request(text) for text in agents]
    toolbox = Toolbox()
    for request in requests:
        with steps_on_stderr() as progress:
            wanted = source and source.value
            installing = toolbox.install(request.agent.name, request.version, source=wanted, progress=progress)
            have = run_async(installing)
        typer.echo(have.executable)


@app.command("list")
def list_agents(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show what is in the toolbox, and which agents are on PATH.

    Example: `yb agents list --json`
    """
    toolbox = Toolbox()
    rows = [
        *(_row(have, have.source) for have in toolbox.installed()),
        *(_row(agent, "PATH") for agent in run_async(on_path())),
    ]
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    elif rows:
        names = ("AGENT", "VERSION", "SOURCE", "SIZE", "DIGEST", "PATH")
        cells = (_cells(row, toolbox.root) for row in rows)
        typer.echo(table(names, cells, width=terminal_width(sys.stdout), right=["SIZE"], drop=["PATH", "DIGEST"]))
        typer.echo(f"toolbox: {toolbox.root}")
    else:
        typer.echo(f"No agents in {toolbox.root}, and none on PATH. Try: yb agents install claude-code")


@app.command()
def path(
    agent: Annotated[str, typer.Argument(metavar="AGENT[@VERSION]", help="An agent, such as claude-code.")],
) -> None:
    """Print the path of the program that a run would use: the one on PATH, otherwise the newest in the toolbox.

    Example: `yb agents path claude-code`
    """
    program = run_async(find_program(parse_request(agent)))
    if program is None:
        hint = f"Install it: `yb agents install {agent}`."
        raise YouBenchaError("AGENT_NOT_INSTALLED", f"{agent} is neither on PATH nor in the toolbox", hint=hint)
    typer.echo(program)


@app.command()
def remove(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT@VERSION", help="An agent with a version, as shown by `yb agents list`.")
    ],
) -> None:
    """Remove one version of an agent from the toolbox.

    Example: `yb agents remove claude-code@2.0.62`
    """
    request = parse_request(agent)
    if request.version is None:
        raise YouBenchaError(
            "AGENT_VERSION_INVALID",
            "No version to remove was given.",
            hint=f"For example `yb agents remove {request.agent.name}@2.0.62`; `yb agents list` shows them.",
        )
    Toolbox().remove(request.agent.name, request.version)
    typer.echo(f"removed {request.agent.name} {request.version}")


@app.command()
def verify() -> None:
    """Check that every installed agent is still, byte for byte, what was installed.

    Example: `yb agents verify`
    """
    toolbox = Toolbox()
    problems = [f"{path} is damaged" for path in toolbox.damaged()]
    for have in toolbox.installed():
        try:
            toolbox.verify(have)
            typer.echo(f"ok  {have.agent} {have.version}  {have.sha256}")
        except YouBenchaError as error:
            problems.append(error.message)
    if problems:
        raise YouBenchaError(
            "AGENT_CHANGED",
            "\n".join(problems),
            hint="Install each again: `yb agents remove AGENT@VERSION`, then `yb agents install AGENT@VERSION`.",
        )


def _row(have: InstalledAgent | AgentOnPath, source: str) -> AgentRow:
    return AgentRow(have.agent, have.version, source, have.size_bytes, have.sha256, str(have.executable))


def _cells(row: AgentRow, root: Path) -> tuple[str, ...]:
    size = f"{row.size_bytes / 1_000_000:,.0f} MB"
    # The toolbox's path would take half of each line.
    shown = row.executable.removeprefix(f"{root}{os.sep}")
    return row.agent, row.version or UNKNOWN, row.source, size, row.sha256[:12], shown


images_app = Commands(help="Build and list container images that contain an agent's CLI.")


@images_app.command()
def build(
    agents: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="claude-code or aider. Default: both.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="The base image. Default: node:20-bookworm.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="NAME:TAG", help="The image's tag. Default: thunderdome/AGENT:latest.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Version of the agent's CLI. Default: the pinned one.")] = None,
) -> None:
    """Build images, each with an agent's CLI from the toolbox, its adapter, and youBencha's control server.

    Nothing is downloaded during the build. A CLI that is not in the toolbox yet is installed there first.

    Example: `yb images build claude-code --base youbencha/base:bookworm`
    """
    names = agents or list(RECIPES)
    if len(names) > 1 and (tag or version):
        raise YouBenchaError(
            "IMAGE_AMBIGUOUS", "--tag and --version apply to a single agent.", hint=f"Name one of {', '.join(names)}."
        )
    for name in names:
        with steps_on_stderr() as progress:
            built = run_async(build_image(name, base=base, tag=tag, version=version, progress=progress))
        typer.echo(built.tag)


@images_app.command("list")
def list_built(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the images that were built here.

    Example: `yb images list --json`
    """
    images = run_async(list_images())
    if as_json:
        typer.echo(json.dumps([image._asdict() for image in images], indent=2))
        return
    if not images:
        typer.echo("No images yet. Try: yb images build claude-code")
        return
    rows = []
    for image in images:
        size = f"{image.size_bytes / 1_000_000:,.0f} MB"
        name = image.tag or image.id.removeprefix("sha256:")[:12]
        rows.append((name, image.agent, image.version, image.youbencha, size, image.created_at[:10]))
    names = ("IMAGE", "AGENT", "VERSION", "YOUBENCHA", "SIZE", "CREATED")
    less_needed = ("YOUBENCHA", "CREATED", "SIZE", "VERSION", "AGENT")
    typer.echo(table(names, rows, width=terminal_width(sys.stdout), right=["SIZE"], drop=less_needed))
