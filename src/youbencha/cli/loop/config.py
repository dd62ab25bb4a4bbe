"""The options that say which loop is meant: `-c` and `-H`, as Ralph has them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from youbencha.errors import YouBenchaError

CONFIG_VARIABLE = "RALPH_CONFIG"
_SETTING = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*=")

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE|KEY=VALUE",
        help=f"The loop, or a key of it, such as core.specs_dir=specs. Default: ${CONFIG_VARIABLE}, or ralph.yml if"
        " there is one.",
    ),
]
Hats = Annotated[
    str | None,
    typer.Option(
        "--hats",
        "-H",
        metavar="builtin:NAME|FILE",
        help="Use these hats instead of the loop's; `ralph init --list-presets` lists the names.",
    ),
]


class LoopSources(NamedTuple):
    """What makes a loop's configuration."""

    file: Path | None
    """None: ralph.yml in the directory of the loop, if there is one."""
    hats: str | None
    settings: tuple[str, ...]


def loop_sources(config: Sequence[str] | None, hats: str | None, *, use_variable: bool = True) -> LoopSources:
    """Tell files from settings. As in Ralph, only the first file counts."""
    files: list[str] = []
    settings: list[str] = []
    for text in config or ():
        is_setting = _SETTING.match(text) and not Path(text).exists()
        (settings if is_setting else files).append(text)
    if use_variable and not files and (named := os.environ.get(CONFIG_VARIABLE, "").strip()):
        files = [named]
    for ignored in files[1:]:
        typer.echo(f"warning  -c {ignored} is ignored: the loop is {files[0]}, and a loop has one file", err=True)
    for source in (*files[:1], *([hats] if hats else [])):
        _check(source, is_hats=source == hats)
    if hats is not None and ":" not in hats:
        hats = str(Path(hats).absolute()) if Path(hats).exists() else hats
    return LoopSources(Path(files[0]) if files else None, hats, tuple(settings))


def _check(source: str, *, is_hats: bool) -> None:
    if source.startswith(("http://", "https://")):
        hint = "Download the file, look at what it tells the agent, and name it."
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is an address, not a file.", hint=hint)
    if source.startswith("builtin:") and not is_hats:
        hint = f"Built-in presets are hats: `-H {source}`. `ralph init --preset` writes a whole file."
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is not a file.", hint=hint)
