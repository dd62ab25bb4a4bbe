"""`yb images`: build and list images that contain an agent's CLI."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from youbencha.cli.console import steps_on_stderr
from youbencha.cli.help import Commands
from youbencha.cli.screen import width_of
from youbencha.errors import YouBenchaError
from youbencha.text import table

app = Commands(help="Build and list container images that contain an agent's CLI.")


@app.command()
def build(
    agents: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="claude-code or aider; by default both.")
    ] = None,
    base: Annotated[str | None, typer.Option(metavar="IMAGE", help="The base image; else node:20-bookworm.")] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="NAME:TAG", help="The image's tag; else thunderdome/AGENT:latest.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Version of the agent's CLI; else the pinned one.")] = None,
) -> None:
    """Build images, each with an agent's CLI from the toolbox, its adapter, and youBencha's control server.

    Nothing is downloaded during the build. A CLI that is not in the toolbox yet is installed there first.

    Example: `yb images build claude-code --base youbencha/base:bookworm`
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.sandbox.images.build import RECIPES, build_image

    names = agents or list(RECIPES)
    if len(names) > 1 and (tag or version):
        raise YouBenchaError(
            "IMAGE_AMBIGUOUS", "--tag and --version are for one agent", hint=f"Name one of {', '.join(names)}."
        )
    for name in names:
        with steps_on_stderr() as progress:
            built = run_async(build_image(name, base=base, tag=tag, version=version, progress=progress))
        typer.echo(built.tag)


@app.command("list")
def list_built(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show the images that were built here.

    Example: `yb images list --json`
    """
    from youbencha.cli.interrupts import run_async
    from youbencha.sandbox.images.build import list_images

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
    typer.echo(table(names, rows, width=width_of(sys.stdout), right=["SIZE"], drop=less_needed))
