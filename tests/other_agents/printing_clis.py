"""Programs that print the recorded output of a real CLI, for faults that cannot be provoked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from youbencha.adapters import AgentAdapter, AgentExecutionContext, AgentExecutionResult
from youbencha.events import EventSink
from youbencha.log.model import YouBenchaLog


def printing_cli(
    directory: Path, version: str, records: Sequence[dict[str, Any] | str], *, exit_code: int = 0, stderr: str = ""
) -> Path:
    """Answers `--version`; else reads its stdin, prints the records, and ends."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (directory / "out").write_text("".join(f"{line}\n" for line in lines))
    (directory / "err").write_text(stderr)
    path = directory / "cli"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{version}"; exit 0; }}\n'
        f'cat > "{directory}/in"\ncat "{directory}/out"\ncat "{directory}/err" >&2\nexit {exit_code}\n'
    )
    path.chmod(0o755)
    return path


async def run_printing(
    adapter: AgentAdapter, directory: Path, cli: Path, *, on_event: EventSink | None = None, **config: Any
) -> tuple[AgentExecutionResult, YouBenchaLog]:
    workspace = directory / "workspace"
    workspace.mkdir(exist_ok=True)
    context = AgentExecutionContext(
        workspace_dir=workspace,
        repo_dir=workspace,
        artifacts_dir=directory / "artifacts",
        config={"prompt": "Do it.", "executable": str(cli), **config},
        timeout=30_000,
        on_event=on_event,
    )
    result = await adapter.execute(context)
    return result, adapter.normalize_log(result, context)
