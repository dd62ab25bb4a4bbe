"""`yb completion`: the script that lets a shell complete our commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print the script that lets a shell complete these commands.

    Bash and zsh: `source <(yb completion bash)`. Fish: `yb completion fish | source`.

    `yb --install-completion` installs it for the shell that you are in.
    """
    from typer.completion import shell_complete

    root = context.find_root()
    name = root.info_name or "yb"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    shell_complete(root.command, {}, name, variable, f"source_{shell}")
