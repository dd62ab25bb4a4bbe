"""OpenCodeConfig: what a person may write under `agent.config` for opencode."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from youbencha.adapters.cli_agent.config import AgentConfig, Matches, Word

ProviderName = Annotated[str, Field(max_length=100), Matches(r"[\w.\-]+", "must be one word, such as anthropic")]


class OpenCodeConfig(AgentConfig):
    """Options of the opencode adapter. `model` is `provider/model`, or a model of `provider`."""

    own_flags = frozenset({
        "--", "-h", "--help", "-v", "--version", "--format", "--auto", "-m", "--model", "--agent", "--variant",
        "--title", "--print-logs", "--log-level", "--dir", "--attach", "-i", "--interactive", "--command",
    })  # fmt: skip

    provider: ProviderName = "anthropic"
    """Whose model is meant where `model` does not say."""
    base_url: Word | None = None
    """Where the provider's API is; else ANTHROPIC_BASE_URL or OPENAI_BASE_URL say so. The key comes from the
    environment, as always with opencode."""
    variant: Word | None = None
    """Of the model: its reasoning effort (high, max, minimal)."""
    auto_approve: bool = True
    """Without it opencode rejects what needs approval, and stops: nobody is there to ask."""

    @property
    def chosen_provider(self) -> str:
        provider, slash, _ = (self.model or "").partition("/")
        return provider if slash else self.provider

    @property
    def full_model(self) -> str | None:
        if self.model is None or "/" in self.model:
            return self.model
        return f"{self.provider}/{self.model}"
