"""The options of `yb run`: what each is called, and what its help says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_AGENT, _PLACE, _MODEL = "The agent", "Where it runs", "The model"
"""Headings in the help."""

Config = Annotated[Path, typer.Option("--config", "-c", help="The test case (YAML or JSON).", show_default=False)]
DeleteWorkspace = Annotated[
    bool | None,
    typer.Option(
        "--delete-workspace/--keep-workspace",
        help="Remove the agent's files afterwards; the results stay.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print results.json to standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict, and no progress.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check the files, options and names, and say what would be done; run nothing."),
]
Var = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="What ${NAME} stands for (NAME:=5 for a number); may be repeated."),
]
Agent = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE[@VERSION]",
        help="Another agent than the test case's.",
        show_default=False,
        rich_help_panel=_AGENT,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Another model than the test case's.", show_default=False, rich_help_panel=_AGENT
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        metavar="local|docker",
        help="Where the agent runs, over the test case.",
        show_default=False,
        rich_help_panel=_PLACE,
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE", help="Run it in a container of this image.", show_default=False, rich_help_panel=_PLACE
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="gateway|none|open",
        help="What a container reaches, over the test case.",
        show_default=False,
        rich_help_panel=_PLACE,
    ),
]
Gateway = Annotated[
    str | None,
    typer.Option(
        metavar="auto|builtin|litellm|none",
        help="How the agent reaches its model, over the test case.",
        show_default=False,
        rich_help_panel=_MODEL,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(metavar="USD", help="What the agent may spend at most.", show_default=False, rich_help_panel=_MODEL),
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep the model's answers there.", show_default=False, rich_help_panel=_MODEL),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Answer from what was recorded there; ask no model.",
        show_default=False,
        rich_help_panel=_MODEL,
    ),
]
Cassette = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Answer from what was recorded there; ask and record the rest.",
        show_default=False,
        rich_help_panel=_MODEL,
    ),
]
WorkspaceDir = Annotated[
    Path | None,
    typer.Option(
        help="Where runs are kept, over the test case and the settings.", show_default=False, rich_help_panel=_PLACE
    ),
]
