"""A judge's configuration, read as a whole: every problem at once, or all that a judge needs to sit down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from youbencha.errors import Problem
from youbencha.evaluators.judge.config import OWN_KEYS, JudgeConfig, read_config
from youbencha.evaluators.judge.guidance import BadGuidance, read_guidance
from youbencha.evaluators.judge.seat import Adapters, check_seat


@dataclass(frozen=True, kw_only=True)
class Checked:
    judge: JudgeConfig | None
    """None where there are problems."""
    options: Mapping[str, Any]
    """Keys beside ours: the agent's own."""
    guidance: str
    problems: Sequence[Problem]


def check(raw: Mapping[str, Any], config_dir: Path, agent_type: str | None, adapters: Adapters) -> Checked:
    """`agent_type` is the test case's agent, if there is one."""
    reading = read_config(raw)
    problems = [*reading.problems]
    guidance = ""
    try:
        guidance = read_guidance(raw, config_dir)
    except BadGuidance as bad:
        problems.append(bad.problem)
    problems += check_seat(raw, agent_type, config_dir, adapters)
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    judge = None if problems else reading.judge
    return Checked(judge=judge, options=options, guidance=guidance, problems=problems)
