"""The installed `yb`, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

SCRIPT = Path(sysconfig.get_path("scripts")) / ("yb.exe" if sys.platform == "win32" else "yb")
PATIENCE_S = 180


def yb(
    *arguments: str, cwd: Path | None = None, prelude: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end. With a `prelude`, some Python goes before: that is how faults are put in."""
    command = [str(SCRIPT)]
    if prelude is not None:
        command = [sys.executable, "-c", f"{prelude}\nfrom youbencha.cli import main\nmain()"]
    plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    return subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        env={**os.environ, **plain, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
