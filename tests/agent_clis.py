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
BOTH_ENDS = (NEWEST, OLDEST)
"""What a test takes that does not say. All go through the conformance kit, and where it is known that they differ."""
AGENT = "claude-code"

OTHERS = {"codex": "0.166.0", "copilot-cli": "1.0.102", "gemini-cli": "0.61.0", "opencode": "1.18.33"}
"""All from npm, and all as they were measured: their events are no promise of theirs, and change."""
FROM_PYPI = {"aider": "0.86.2", "litellm": "1.106.2"}
"""Each in an environment of its own. LiteLLM is no agent, but what a gateway can have behind it."""


def request(version: str) -> str:
    """As `yb agents install` takes it."""
    return AGENT if version == NEWEST else f"{AGENT}@{version}"


def wanted() -> list[str]:
    """What can be had here."""
    of_claude = {version: request(version) for version in ALL_VERSIONS}
    from_pypi = [f"{name}@{version}" for name, version in FROM_PYPI.items()]
    if shutil.which("npm") is None:
        del of_claude[OLDEST]
        print(f"no npm here: the tests for Claude Code {OLDEST}, {', '.join(OTHERS)} will be skipped")
        return [*of_claude.values(), *from_pypi]
    return [*of_claude.values(), *from_pypi, *(f"{name}@{version}" for name, version in OTHERS.items())]


def main() -> int:
    install = "from youbencha.cli import main; main()"
    for each in wanted():
        done = subprocess.run([sys.executable, "-c", install, "agents", "install", each], check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
