"""The agent CLIs that the tests drive, and how to get them: `python tests/agent_clis.py [--all]`.

The one place where their versions are written: `make agents`, the workflows and the tests all come here. Without
`--all` only what `make test` needs is fetched: two native binaries of Claude Code.
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
SPREAD = ("1.0.60", "2.0.24", "2.0.55", "2.1.61", "2.1.150", "2.1.250", "2.1.326")
"""Others, each with habits of its own."""
COUNTED = ("1.0.24", "1.0.44", "1.0.60", "1.0.90", "2.0.0", "2.0.30", "2.1.0", "2.1.30", "2.1.104")
"""Those, too, whose tokens are compared with what the model sent."""
SILENT_ABOUT_CUTS = ("1.0.60", "2.0.24", "2.0.55")
"""They take a stream that ends early for a whole answer, or fail without saying why."""
AGENT = "claude-code"

OTHERS = {"codex": "0.166.0", "copilot-cli": "1.0.102", "gemini-cli": "0.61.0", "opencode": "1.18.33"}
"""All from npm, and all as they were measured: their events are no promise of theirs, and change."""
OLD_OTHERS = {"copilot-cli": "1.0.32", "opencode": "1.17.0"}
"""The oldest that work: they lack flags of later ones."""
FROM_PYPI = {"aider": "0.86.2", "litellm": "1.106.2"}
"""Each in an environment of its own. LiteLLM is not an agent, but a possible upstream of the gateway."""


def request(version: str) -> str:
    """As `yb agents install` takes it."""
    return AGENT if version == NEWEST else f"{AGENT}@{version}"


def wanted(*, everything: bool) -> list[str]:
    """The agents to install, in the form that `yb agents install` takes."""
    binaries = [request(NEWEST), request(OLD)]
    if not everything:
        return binaries
    from_pypi = [f"{name}@{version}" for name, version in FROM_PYPI.items()]
    old = dict.fromkeys((OLDEST, *COUNTED, *SILENT_ABOUT_CUTS))
    from_npm = [
        *map(request, old),
        *(f"{name}@{version}" for which in (OTHERS, OLD_OTHERS) for name, version in which.items()),
    ]
    if shutil.which("npm") is None:
        print(f"npm is not installed: the tests of {', '.join(from_npm)} will be skipped")
        from_npm = []
    return [*binaries, *from_pypi, *from_npm]


def main(arguments: list[str]) -> int:
    if unknown := set(arguments) - {"--all"}:
        print(f"unknown argument: {', '.join(sorted(unknown))}; the only option is --all", file=sys.stderr)
        return 2
    install = "from youbencha.cli import main; main()"
    for each in wanted(everything="--all" in arguments):
        done = subprocess.run([sys.executable, "-c", install, "agents", "install", each], check=False)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
