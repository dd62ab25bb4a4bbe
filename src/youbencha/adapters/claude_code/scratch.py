"""Files for the agent to read, outside the workspace so that no diff shows them. For us alone: one may hold a key."""

from __future__ import annotations

from pathlib import Path

from youbencha.adapters.claude_code.config import ClaudeCodeConfig
from youbencha.sandbox.base import Sandbox


class Scratch:
    def __init__(self, directory: Path, sandbox: Sandbox) -> None:
        self._directory = directory
        self._sandbox = sandbox
        sandbox.share(directory)

    def put(self, name: str, text: str | None) -> Path | None:
        """Where the agent finds it; each in a directory of its own, since the CLI is let into the prompt's."""
        if text is None:
            return None
        place = self._directory / Path(name).stem
        place.mkdir()
        (place / name).write_bytes(text.encode())
        return Path(self._sandbox.inside(place / name))

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
