"""Who an agent is to git: in a fresh home nobody has said so, and git refuses to commit."""

from __future__ import annotations

import contextlib
from pathlib import Path

_GITCONFIG = """\
[user]
\tname = youBencha agent
\temail = agent@youbencha.invalid
[init]
\tdefaultBranch = main
[safe]
\tdirectory = *
"""


def write_git_identity(home: Path) -> None:
    """What is there already stays, also a link: an agent may have made it."""
    with contextlib.suppress(FileExistsError), (home / ".gitconfig").open("x", encoding="utf-8", newline="\n") as file:
        file.write(_GITCONFIG)
