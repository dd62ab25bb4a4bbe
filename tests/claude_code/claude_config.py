"""The options of Claude Code as tests write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.adapters.claude_code import ClaudeCodeConfig
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent import config


def parse_config(raw: Mapping[str, Any]) -> ClaudeCodeConfig:
    return config.parse_config(ClaudeCode, ClaudeCodeConfig, raw)
