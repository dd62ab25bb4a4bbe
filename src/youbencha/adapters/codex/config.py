"""What a person may write under `agent.config` for Codex, beside what all agents take."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from youbencha.adapters.cli_agent import AgentConfig, Word
from youbencha.adapters.cli_agent.config import Matches

Effort = Annotated[str, Matches(r"[a-z]+", "must be a single word in small letters, such as low, medium or high")]


class CodexConfig(AgentConfig):
    own_flags: ClassVar[frozenset[str]] = frozenset(
        {
            "--json", "-m", "--model", "-C", "--cd", "--skip-git-repo-check", "-s", "--sandbox", "-p", "--profile",
            "--dangerously-bypass-approvals-and-sandbox", "--yolo",
        }
    )  # fmt: skip

    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    """What the agent's commands may do. Left out, Codex neither asks nor restricts: our own sandbox is the only one."""
    reasoning_effort: Effort | None = None
    """How much the model thinks. Which words there are depends on the model; Codex passes on any."""
    profile: Word | None = None
    """A profile of Codex's own configuration."""
