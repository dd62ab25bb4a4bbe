"""AiderConfig: what a person may write under `agent.config` for Aider."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from youbencha.adapters.cli_agent.config import AgentConfig, Word

Words = Annotated[tuple[Word, ...], Field(strict=False)]


class AiderConfig(AgentConfig):
    """Options of the Aider adapter. What is left out is as Aider itself has it."""

    own_flags = frozenset({
        "--", "-h", "--help", "--version", "--model", "--message", "--msg", "-m", "--message-file", "-f",
        "--edit-format", "--chat-mode", "--architect", "--weak-model", "--editor-model", "--file", "--read",
        "--map-tokens", "--lint-cmd", "--auto-lint", "--no-auto-lint", "--test-cmd", "--auto-test", "--no-auto-test",
        "--auto-commits", "--no-auto-commits", "--dirty-commits", "--no-dirty-commits", "--reasoning-effort",
        "--thinking-tokens",
        "--cache-prompts", "--no-cache-prompts", "--stream", "--no-stream", "--git", "--no-git", "--gitignore",
        "--no-gitignore", "--pretty", "--no-pretty", "--fancy-input", "--no-fancy-input", "--yes-always", "--env-file",
        "--analytics", "--no-analytics", "--analytics-log", "--chat-history-file", "--input-history-file",
        "--llm-history-file", "--check-update", "--no-check-update", "--upgrade", "--update", "--install-main-branch",
        "--gui", "--browser", "--exit", "--apply", "--list-models", "--models", "--commit", "--lint", "--test",
        "--show-repo-map", "--show-prompts", "--just-check-update", "--watch-files", "--copy-paste",
        # A key on a command line is there for all to read: `agent.env` is the place for it.
        "--api-key", "--openai-api-key", "--anthropic-api-key",
    })  # fmt: skip

    edit_format: Word | None = None
    """`whole`, `diff`, `diff-fenced`, `udiff`, `architect`, `ask`, …; by default what suits the model."""
    architect: bool = False
    """One model plans, and `editor_model` edits."""
    weak_model: Word | None = None
    """For commit messages and summaries."""
    editor_model: Word | None = None
    files: Words = ()
    """In the chat from the start, to be edited; relative to the repository. Aider adds those that are spoken of."""
    read_only: Words = ()
    """In the chat from the start, to be read: conventions, say."""
    map_tokens: Annotated[int, Field(ge=0)] | None = None
    """For the map of the repository; 0 for none."""
    auto_lint: bool = True
    """Aider looks at what it edited, and mends what is wrong."""
    lint_cmd: Words = ()
    """A linter instead of its own, as `language: command`."""
    test_cmd: Word | None = None
    """Run in a shell after each edit; Aider mends what fails."""
    auto_commits: bool = False
    reasoning_effort: Word | None = None
    thinking_tokens: Word | None = None
    """Such as 8k."""
    cache_prompts: bool = False
    stream: bool = False
    """Have answers in pieces. Aider then does not learn how many tokens they took."""
