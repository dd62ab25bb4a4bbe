"""What a person may write under `agent.config` for Gemini CLI, beside what all agents take."""

from __future__ import annotations

from typing import ClassVar, Literal

from youbencha.adapters.cli_agent import AgentConfig


class GeminiCliConfig(AgentConfig):
    own_flags: ClassVar[frozenset[str]] = frozenset(
        {
            "-m", "--model", "-p", "--prompt", "-i", "--prompt-interactive", "-o", "--output-format", "-y", "--yolo",
            "--approval-mode",
        }
    )  # fmt: skip

    approval_mode: Literal["default", "auto_edit", "yolo", "plan"] = "yolo"
    """What the agent may do without asking. Nobody is there to be asked: other than `yolo`, it does not even offer the
    model the tools that would ask."""
