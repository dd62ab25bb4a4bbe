"""`yb completion`: print the completion script for a shell."""

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
    """Print the completion script for a shell.

    Bash and zsh: `source <(yb completion bash)`. Fish: `yb completion fish | source`.

    `yb --install-completion` installs it for the current shell.
    """
    from typer.completion import shell_complete

    root = context.find_root()
    name = root.info_name or "yb"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    shell_complete(root.command, {}, name, variable, f"source_{shell}")
