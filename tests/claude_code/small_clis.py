"""Very small programs that answer like the CLI, for tests that only look at how it is found and asked."""

from __future__ import annotations

import json
from pathlib import Path


def small_cli(path: Path, version: str, *, rest: str = "exit 9") -> Path:
    """Answers `--version`, keeps count of how often it was started, and does `rest` for anything else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = f'echo "{version} (Claude Code)"; exit 0'
    path.write_text(f'#!/bin/sh\necho "$*" >> "{path}.asked"\n[ "$1" = --version ] && {{ {answer}; }}\n{rest}\n')
    path.chmod(0o755)
    return path


def asked(path: Path) -> list[str]:
    """The arguments of each start."""
    log = path.with_name(path.name + ".asked")
    return log.read_text().splitlines() if log.exists() else []


def in_toolbox(root: Path, version: str) -> Path:
    home = root / "claude-code" / version
    cli = small_cli(home / "claude", version)
    manifest = {
        "agent": "claude-code",
        "version": version,
        "executable": "claude",
        "sha256": "0" * 64,
        "source": "pypi",
        "package": f"claude=={version}",
        "size_bytes": 1,
        "installed_at": "2026-01-01T00:00:00Z",
    }
    (home / "manifest.json").write_text(json.dumps(manifest))
    return cli
