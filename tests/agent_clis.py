"""The agent CLIs that the tests drive, and how to get them: `python tests/agent_clis.py`.

The one place where their versions are written: `make agents`, the workflow and the tests all come here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

NEWEST = "newest"
OLD = "2.0.62"
OLDEST = "1.0.128"
"""A JavaScript program, which comes from npm: the others are binaries."""
ALL_VERSIONS = (NEWEST, OLD, OLDEST)
AGENT = "claude-code"


def request(version: str) -> str:
    """As `yb agents install` takes it."""
    return AGENT if version == NEWEST else f"{AGENT}@{version}"


def main() -> int:
    for version in ALL_VERSIONS:
        if version == OLDEST and shutil.which("npm") is None:
            print(f"no npm here: the tests for Claude Code {version} will be skipped")
            continue
        install = "from youbencha.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", install, "agents", "install", request(version)], check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
