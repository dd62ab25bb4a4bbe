"""Aider's options and command line, and the paths of its files, none of which is in the workspace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from youbencha.adapters.cli_agent import Invocation
from youbencha.adapters.cli_agent.config import AgentConfig, NonEmptyArgument
from youbencha.process import Command

_COMMANDS = ("/", "!")
"""A message that begins with one of these is a command to Aider, such as `/run`."""

_UNATTENDED = (
    "--yes-always", "--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-suggest-shell-commands",
    "--no-detect-urls", "--disable-playwright", "--no-check-update", "--no-show-release-notes",
    "--no-show-model-warnings", "--no-analytics",
)  # fmt: skip

_PRICES = Path("home", ".aider", "caches", "model_prices_and_context_window.json")
"""Aider's cached price list. If it exists, Aider downloads none, and uses the prices in LiteLLM."""


class Files(NamedTuple):
    """The files in the run's scratch directory."""

    scratch: Path

    @property
    def prompt(self) -> Path:
        return self.scratch / "prompt.md"

    @property
    def empty(self) -> Path:
        """Used in place of settings files."""
        return self.scratch / "empty"

    @property
    def guarded(self) -> Path:
        """Exists after `guard.py` has run."""
        return self.scratch / "guarded"

    @property
    def calls(self) -> Path:
        """Written by `guard.py`, one line for each call to a model."""
        return self.scratch / "calls.jsonl"

    @property
    def analytics(self) -> Path:
        """What Aider would send to its developers. It is only written to this file."""
        return self.scratch / "analytics.jsonl"

    @property
    def chat(self) -> Path:
        return self.scratch / "chat-history.md"

    @property
    def conversation(self) -> Path:
        """The complete conversation with the models."""
        return self.scratch / "llm-history.txt"


Words = Annotated[tuple[NonEmptyArgument, ...], Field(strict=False)]


class AiderConfig(AgentConfig):
    """Options of the Aider adapter. An option that is not set has Aider's own default."""

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
        # Every user can read a key on a command line: keys belong in `agent.env`.
        "--api-key", "--openai-api-key", "--anthropic-api-key",
    })  # fmt: skip

    edit_format: NonEmptyArgument | None = None
    """`whole`, `diff`, `diff-fenced`, `udiff`, `architect`, `ask`, …; by default what suits the model."""
    architect: bool = False
    """One model plans, and `editor_model` edits."""
    weak_model: NonEmptyArgument | None = None
    """For commit messages and summaries."""
    editor_model: NonEmptyArgument | None = None
    files: Words = ()
    """In the chat from the start, to be edited; relative to the repository. Aider adds files that are mentioned."""
    read_only: Words = ()
    """In the chat from the start, only to be read, such as conventions."""
    map_tokens: Annotated[int, Field(ge=0)] | None = None
    """For the map of the repository; 0 for none."""
    auto_lint: bool = True
    """Aider lints the files that it edited, and fixes what is wrong."""
    lint_cmd: Words = ()
    """A linter instead of its own, as `language: command`."""
    test_cmd: NonEmptyArgument | None = None
    """Run in a shell after each edit; Aider fixes what fails."""
    auto_commits: bool = False
    reasoning_effort: NonEmptyArgument | None = None
    thinking_tokens: NonEmptyArgument | None = None
    """Such as 8k."""
    cache_prompts: bool = False
    stream: bool = False
    """Stream the answers. Aider then does not get their token counts."""


def aider_command(invocation: Invocation[AiderConfig]) -> Command:
    files = Files(invocation.scratch)
    _prepare(files, invocation.prompt)
    python_path = os.pathsep.join(
        filter(None, (invocation.inside(invocation.scratch), invocation.env.get("PYTHONPATH")))
    )
    return Command(
        argv=(*invocation.cli.argv, *_flags(invocation, files), *invocation.config.extra_args),
        cwd=invocation.workspace,
        env={**invocation.env, "PYTHONPATH": python_path},
    )


def _prepare(files: Files, prompt: str) -> None:
    text = f"\n{prompt}" if prompt.startswith(_COMMANDS) else prompt
    files.prompt.write_text(text, encoding="utf-8", newline="")
    files.empty.touch()
    prices = files.scratch / _PRICES
    prices.parent.mkdir(parents=True)
    prices.write_text('{"none": {}}', encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("guard.py"), files.scratch / "sitecustomize.py")


def _flags(invocation: Invocation[AiderConfig], files: Files) -> list[str]:
    config = invocation.config
    values: dict[str, object] = {
        "--message-file": invocation.inside(files.prompt),
        "--analytics-log": invocation.inside(files.analytics),
        "--chat-history-file": invocation.inside(files.chat),
        "--input-history-file": invocation.inside(files.scratch / "input-history"),
        "--llm-history-file": invocation.inside(files.conversation),
        # Each has a default in the repository.
        "--env-file": invocation.inside(files.empty),
        "--model-settings-file": invocation.inside(files.empty),
        "--model-metadata-file": invocation.inside(files.empty),
        "--model": config.model,
        "--weak-model": config.weak_model,
        "--editor-model": config.editor_model,
        "--edit-format": config.edit_format,
        "--map-tokens": config.map_tokens,
        "--reasoning-effort": config.reasoning_effort,
        "--thinking-tokens": config.thinking_tokens,
        "--test-cmd": config.test_cmd,
    }
    lists = {
        "--file": config.files,
        "--read": [*config.read_only, *_instructions(invocation)],
        "--lint-cmd": config.lint_cmd,
    }
    return [
        *_UNATTENDED,
        *(["--architect"] if config.architect else []),
        # If the workspace is not a repository, Aider would create one, or use one that contains the workspace.
        _switch("git", (invocation.workspace / ".git").exists()),
        _switch("auto-commits", config.auto_commits),
        _switch("dirty-commits", config.auto_commits),
        _switch("auto-lint", config.auto_lint),
        _switch("auto-test", config.test_cmd is not None),
        _switch("cache-prompts", config.cache_prompts),
        _switch("stream", config.stream),
        # Joined, so that a value that begins with a dash is not read as a flag.
        *(f"{flag}={value}" for flag, value in values.items() if value is not None),
        *(f"{flag}={value}" for flag, given in lists.items() for value in given),
    ]


def _instructions(invocation: Invocation[AiderConfig]) -> list[str]:
    files = invocation.context.files
    return [invocation.inside(files.instructions)] if files and files.instructions else []


def _switch(name: str, on: bool) -> str:
    return f"--{name}" if on else f"--no-{name}"
