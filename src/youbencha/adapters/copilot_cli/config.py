"""CopilotCliConfig: what a person may write under `agent.config` for the Copilot CLI."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from youbencha.adapters.cli_agent.config import AgentConfig


class CopilotCliConfig(AgentConfig):
    """Options of the Copilot CLI adapter."""

    own_flags = frozenset({
        "--", "-p", "--prompt", "-i", "--interactive", "-h", "--help", "-v", "--version", "-s", "--silent", "--acp",
        "-C", "--model", "--agent", "--output-format", "--stream", "--log-dir", "--log-level", "--reasoning-effort",
        "--max-ai-credits", "--allow-all-tools", "--allow-all-paths", "--no-color", "--no-ask-user",
    })  # fmt: skip

    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    log_level: Literal["none", "error", "warning", "info", "debug", "all", "default"] = "all"
    """Of the CLI's own log, which is kept beside its output."""
    allow_all_tools: bool = True
    """Without it the CLI denies every tool that could change something: nobody is there to ask."""
    allow_all_paths: bool = True
    max_ai_credits: Annotated[int, Field(ge=30)] | None = None
    """A soft cap of the CLI's own; it takes no less than 30."""
