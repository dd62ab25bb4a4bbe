"""The options that configure a loop: `-c` and `-H`, as in Ralph."""

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
        help="The loop's configuration, or one of its keys, such as core.specs_dir=specs. "
        f"Default: ${CONFIG_VARIABLE}, or ralph.yml if there is one.",
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
    """Where a loop's configuration comes from."""

    file: Path | None
    """None: ralph.yml in the directory of the loop, if there is one."""
    hats: str | None
    settings: tuple[str, ...]


def loop_sources(config: Sequence[str] | None, hats: str | None, *, use_variable: bool = True) -> LoopSources:
    """Separate files from settings. As in Ralph, only the first file counts."""
    files: list[str] = []
    settings: list[str] = []
    for text in config or ():
        is_setting = _SETTING.match(text) and not Path(text).exists()
        (settings if is_setting else files).append(text)
    if use_variable and not files and (named := os.environ.get(CONFIG_VARIABLE, "").strip()):
        files = [named]
    for ignored in files[1:]:
        typer.echo(f"warning  -c {ignored} is ignored: only the first file, {files[0]}, is used", err=True)
    for source in (*files[:1], *([hats] if hats else [])):
        _check(source, is_hats=source == hats)
    if hats is not None and ":" not in hats:
        hats = str(Path(hats).absolute()) if Path(hats).exists() else hats
    return LoopSources(Path(files[0]) if files else None, hats, tuple(settings))


def _check(source: str, *, is_hats: bool) -> None:
    if source.startswith(("http://", "https://")):
        hint = "Download the file, check what it tells the agent, and give its path."
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is a URL, not a file.", hint=hint)
    if source.startswith("builtin:") and not is_hats:
        hint = (
            f"Use the hats of a built-in preset with `-H {source}`, or write it as a file with `ralph init --preset`."
        )
        raise YouBenchaError("CONFIG_NOT_A_FILE", f"{source} is not a file.", hint=hint)
