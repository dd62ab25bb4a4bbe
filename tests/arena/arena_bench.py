"""Arenas on the disk: a `thunderdome.yaml`, its adapter scripts, and repositories with tags."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
from repositories import copied

from git_repositories import git
from youbencha.engine.arena import PlanChoices, load_arena, plan_arena
from youbencha.engine.matrix import Cell, Matrix
from youbencha.engine.selection import Selection
from youbencha.spec.settings import load_settings
from youbencha.trial.context import Host

KEY = "sk-ant-real-key-0123456789"

SMALL: dict[str, Any] = {
    "orchestrators": [{"name": "one", "agent": "claude-code", "env": {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}}],
    "tasks": [{"id": "fix", "repo": "repos/fix", "tag": "v1", "test_cmd": "pytest"}],
}
"""The least that makes a plan."""


class ArenaBench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.file = root / "thunderdome.yaml"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_API_KEY": KEY}

    def host(self) -> Host:
        return Host(self.env, load_settings(self.root, self.home))

    def repository(self, name: str, *, text: str = "Fix it.\n", files: Mapping[str, str] | None = None) -> Path:
        """A repository with the tags v1, v1-validation and v1-solution, each a commit of its own."""

        def make(path: Path) -> None:
            self.git(path, "init", "-q", "--template=", "-b", "main")
            for tag in ("v1", "v1-validation", "v1-solution"):
                for file, content in {"TASK.md": text, f"{tag}.txt": tag, **(files or {})}.items():
                    (path / file).write_text(content)
                self.git(path, "add", "-A")
                self.git(path, "commit", "-q", "-m", tag)
                self.git(path, "tag", tag)

        return copied(self.root / name, self.root, ("arena", text, files), make)

    def git(self, path: Path, *arguments: str) -> str:
        return git(path, *arguments)

    def script(self, name: str, text: str = "exit 0\n") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write(self, arena: Mapping[str, Any] | str) -> Path:
        """Write the arena. JSON is YAML, too."""
        self.file.write_bytes(arena.encode() if isinstance(arena, str) else orjson.dumps(arena))
        return self.file

    def matrix(
        self,
        arena: Mapping[str, Any] | str,
        selection: Selection = Selection(),  # noqa: B008 - immutable
        choices: PlanChoices = PlanChoices(),  # noqa: B008 - immutable
    ) -> Matrix:
        host = self.host()
        loaded = load_arena(self.write(arena), host, resolve_env=choices.resolve_env)
        return asyncio.run(plan_arena(loaded, host, selection, choices))

    def cell(self, arena: Mapping[str, Any], choices: PlanChoices = PlanChoices()) -> Cell:  # noqa: B008 - immutable
        """The only cell of an arena."""
        (cell,) = self.matrix(arena, choices=choices).cells
        return cell


def changed(*path: Any, arena: Mapping[str, Any] = SMALL) -> dict[str, Any]:
    """The arena with another value: `changed("tasks", 0, "tag", "v2")`."""
    *steps, last, value = path
    copy = deepcopy(dict(arena))
    here: Any = copy
    for step in steps:
        here = here[step] if isinstance(step, int) else here.setdefault(step, {})
    here[last] = value
    return copy
