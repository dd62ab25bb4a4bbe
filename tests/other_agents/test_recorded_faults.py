"""Refusals of the API, as each CLI reports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_cli import AIDER_FILES, RecordedCli, files_of, transcript

from systems import posix_only
from youbencha.adapters.aider import AiderAdapter
from youbencha.adapters.codex import CodexAdapter
from youbencha.adapters.copilot_cli import CopilotCliAdapter
from youbencha.adapters.gemini_cli import GeminiCliAdapter
from youbencha.adapters.opencode import OpenCodeAdapter

pytestmark = posix_only("the recorded CLI is a shell script")


@pytest.mark.parametrize(
    ("adapter", "recording", "exit_code", "code", "retried"),
    [
        (AiderAdapter, "aider_err_401-0.86.2.txt", 0, "AIDER_AUTH_FAILED", False),
        (AiderAdapter, "aider_err_429-0.86.2.txt", 0, "AIDER_RATE_LIMIT", True),
        (CodexAdapter, "codex_err_401-0.166.0.ndjson", 1, "CODEX_AUTH_FAILED", True),
        (CodexAdapter, "codex_err_429-0.166.0.ndjson", 1, "CODEX_RATE_LIMIT", False),
        (CopilotCliAdapter, "copilot_err_401-1.0.102.ndjson", 1, "COPILOT_AUTH_FAILED", True),
        (CopilotCliAdapter, "copilot_err_429-1.0.102.ndjson", 1, "COPILOT_RATE_LIMIT", True),
        (GeminiCliAdapter, "gemini_err_401-0.61.0.ndjson", 145, "GEMINI_AUTH_FAILED", False),
        (OpenCodeAdapter, "opencode_err_401-1.18.33.ndjson", 1, "OPENCODE_AUTH_FAILED", False),
        (OpenCodeAdapter, "opencode_err_429-1.18.33.ndjson", 1, "OPENCODE_RATE_LIMIT", False),
    ],
)
async def test_a_refusal(
    adapter: type[Any], recording: str, exit_code: int, code: str, retried: bool, tmp_path: Path
) -> None:
    left = {"before": AIDER_FILES, "files": files_of("aider_err-0.86.2")} if adapter is AiderAdapter else {}
    played = await RecordedCli(tmp_path, adapter).play(transcript(recording), ending=f"exit {exit_code}", **left)
    assert (played.result.status, played.result.exit_code, played.codes()) == ("failed", exit_code, [code])
    assert [warning for warning in played.warnings() if warning.endswith("_REQUESTS_RETRIED")] == (
        [f"{code.partition('_')[0]}_REQUESTS_RETRIED"] if retried else []
    )
    assert played.log.execution.status == "failed"
    assert [error.code for error in played.log.errors if error.code == code] == [code]
