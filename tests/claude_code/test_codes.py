from __future__ import annotations

import re
from pathlib import Path

import pytest

from youbencha.adapters import codes
from youbencha.adapters.claude_code.options import ClaudeCode

OF_OTHERS = {"AGENT_IGNORED", "GAVE_UP", "METRICS_UNREADABLE", "NO_GATEWAY", "NOTICE"}
CODES = [ClaudeCode.code(value) for name, value in vars(codes).items() if name.isupper() and value not in OF_OTHERS]
PAGE = Path(__file__).parents[2] / "docs" / "claude-code.md"


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_documented(code: str) -> None:
    assert f"`{code}`" in PAGE.read_text(encoding="utf-8")


def test_the_page_lists_only_existing_codes() -> None:
    named = set(re.findall(r"`(CLAUDE_[A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert {code for code in named if not code.startswith("CLAUDE_CODE_")} == set(CODES)
