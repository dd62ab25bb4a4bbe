"""Files for the agent to read, outside the workspace so that no diff shows them. For us alone: one may hold a key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.sandbox.base import Sandbox


@contextmanager
def open_scratch(sandbox: Sandbox, parent: Path | None = None) -> Iterator[Scratch]:
    """In `parent`, so that whoever made that finds it even after a kill; else where temporary files go.

    Shared with the sandbox from the start: what is shared has to be, before anything runs.
    """
    with (
        tempfile.TemporaryDirectory(prefix="youbencha-", dir=parent, ignore_cleanup_errors=True) as prompts,
        tempfile.TemporaryDirectory(prefix="youbencha-settings-", dir=parent, ignore_cleanup_errors=True) as settings,
    ):
        yield Scratch(sandbox, Path(prompts).absolute(), Path(settings).absolute())


class Scratch:
    """Each file in a directory of its own, since the CLI is let into the prompt's."""

    def __init__(self, sandbox: Sandbox, prompts: Path, settings: Path) -> None:
        self._sandbox = sandbox
        self._prompts = prompts
        self._settings = settings
        sandbox.share(prompts)
        sandbox.share(settings)

    def put_prompt(self, text: str | None) -> Path | None:
        """Where the agent finds it."""
        return self._put(self._prompts / "prompt.md", text)

    def put_settings(self, text: str | None) -> Path | None:
        return self._put(self._settings / "settings.json", text)

    def _put(self, path: Path, text: str | None) -> Path | None:
        if text is None:
            return None
        path.write_bytes(text.encode())
        return Path(self._sandbox.inside(path))

    def with_files_of(self, config: ClaudeCodeConfig) -> ClaudeCodeConfig:
        """A file that the configuration names has to be seen by the agent, too."""
        named = config.mcp_config
        if self._sandbox.kind == "local" or named is None or named.lstrip().startswith("{"):
            return config
        path = Path(named)
        if not path.is_absolute() or not path.is_file():  # in the workspace, or for the CLI to complain about
            return config
        self._sandbox.share(path)
        return config.model_copy(update={"mcp_config": self._sandbox.inside(path)})
