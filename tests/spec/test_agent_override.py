"""Another agent or model than the file's, with everything else unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from youbencha.spec.testcase import AgentOverride

WRITTEN = {"type": "codex", "version": "1.2.3", "config": {"model": "old", "prompt": "p"}, "env": {"A": "1"}}
WITHOUT_VERSION = {key: value for key, value in WRITTEN.items() if key != "version"}


@pytest.mark.parametrize(
    ("choice", "agent"),
    [
        (AgentOverride(), WRITTEN),
        (AgentOverride(model="new"), {**WRITTEN, "model": "new", "config": {"prompt": "p"}}),
        (AgentOverride(type="codex"), WRITTEN),
        (AgentOverride(type="codex", version="2.0.0"), {**WRITTEN, "version": "2.0.0"}),
        (AgentOverride(type="opencode"), {**WITHOUT_VERSION, "type": "opencode"}),
        (AgentOverride(type="opencode", version="9.9.9"), {**WRITTEN, "type": "opencode", "version": "9.9.9"}),
    ],
)
def test_overridden_and_kept_values(choice: AgentOverride, agent: dict[str, Any]) -> None:
    data = {"repo": ".", "agent": WRITTEN}
    before = repr(data)
    assert choice.merged_over(data) == {"repo": ".", "agent": agent}
    assert repr(data) == before


@pytest.mark.parametrize("data", [None, [], "text", {}, {"agent": "codex"}, {"agent": None}])
def test_invalid_test_cases_are_unchanged(data: Any) -> None:
    assert AgentOverride(type="codex", model="m").merged_over(data) == data
