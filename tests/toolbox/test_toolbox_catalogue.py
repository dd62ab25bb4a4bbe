from __future__ import annotations

import pytest

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.catalogue import GATEWAYS, installable_agents, lookup, parse_request, recipes_for

CLAUDE = lookup("claude-code")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("claude-cod", "claude-code"),
        ("claude", "claude-code"),
        ("copilot", "copilot-cli"),
        ("gemini", "gemini-cli"),
        ("Codex", "codex"),
        ("open-code", "opencode"),
        ("lite-llm", "litellm"),
    ],
)
def test_an_unknown_agent_comes_with_the_nearest_name(typo: str, meant: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        lookup(typo)
    assert caught.value.code == "AGENT_UNKNOWN"
    assert f"Did you mean '{meant}'?" in str(caught.value)


def test_without_a_similar_name_all_names_are_listed() -> None:
    with pytest.raises(YouBenchaError) as caught:
        lookup("zzzzzz")
    assert "Did you mean" not in str(caught.value)
    assert all(agent.name in str(caught.value) for agent in (*installable_agents(), *GATEWAYS))


def test_a_request_names_an_agent_and_perhaps_a_version() -> None:
    assert parse_request("claude-code").version is None
    assert parse_request("claude-code@latest").version is None
    assert parse_request("claude-code@2.0.62").version == "2.0.62"


@pytest.mark.parametrize(
    "text", ["claude-code@../../x", "claude-code@", "claude-code@a", "claude-code@2.0@3", "claude-code@/etc"]
)
def test_a_request_for_no_version_is_an_error(text: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        parse_request(text)
    assert caught.value.code == "AGENT_VERSION_INVALID"


@pytest.mark.parametrize(
    ("version", "source", "kinds"),
    [
        (None, None, ["pypi", "npm"]),
        ("2.0.62", None, ["pypi", "npm"]),
        ("1.0.128", None, ["npm"]),
        ("2.0.62", "npm", ["npm"]),
        (None, "pypi", ["pypi"]),
    ],
)
def test_which_sources_are_tried(version: str | None, source: str | None, kinds: list[str]) -> None:
    assert [recipe.kind for recipe in recipes_for(CLAUDE, version, source)] == kinds


def test_a_version_without_a_wheel_lists_the_available_ones() -> None:
    with pytest.raises(YouBenchaError) as caught:
        recipes_for(CLAUDE, "1.0.128", "pypi")
    assert caught.value.code == "AGENT_VERSION_NOT_FOUND"
    assert "2.1.325, 2.1.19, 2.1.1, 2.0.62, 2.0.53" in str(caught.value)
    assert "--from npm" in str(caught.value)


def test_a_source_that_an_agent_does_not_have() -> None:
    with pytest.raises(YouBenchaError) as caught:
        recipes_for(lookup("codex"), None, "pypi")
    assert caught.value.code == "AGENT_SOURCE_INVALID"
    assert "npm" in str(caught.value)
