"""Commands and options of Ralph 2.10 that do not exist here, and what to use instead."""

from __future__ import annotations

_NOT_YET = "Ralph has it; it is not supported yet."

INSTEAD = {
    "preflight": "`ralph doctor` checks what a loop needs.",
    "resume": "`ralph run --continue` goes on.",
    "hats": "`ralph run --dry-run` lists them.",
    "loops": "`ralph run --worktree` starts another loop, `ralph replay` shows one, `ralph clean` removes old ones.",
    "tui": "`ralph run` shows the screen, `ralph replay` a recorded loop.",
    "completions": "`ralph --install-completion` installs them.",
    "task": "Agents' tasks are in `ralph tools task`; code tasks are not supported yet.",
    **dict.fromkeys(("code-task", "hooks", "wave", "web", "mcp", "bot", "tutorial"), _NOT_YET),
    "--rpc": "`--json` prints every event.",
    "--loop-id": "`--continue` goes on with the newest loop.",
    "--exclusive": "Leave it out: a second loop is refused, unless you give --worktree.",
    "--skip-preflight": "Leave it out: only `ralph doctor` makes these checks.",
    "--no-auto-merge": "Leave it out: nothing is merged for you.",
    **dict.fromkeys(("-c", "-H", "-p", "-b"), "Options follow the command: `ralph run -c FILE`."),
}
