"""thunderdome.yaml is read with every problem and its position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from arena_bench import SMALL, ArenaBench, changed

from youbencha.engine.arena import load_arena
from youbencha.errors import ConfigError
from youbencha.spec.arena_loader import is_arena, load_arena_file

SEED = """\
orchestrators:
  - name: "null"
    adapter: ./adapters/null.sh
    image: alpine:latest

  - name: claude-code
    adapter: ./adapters/claude-code/adapter.sh
    image: thunderdome/claude-code:latest
    env:
      ANTHROPIC_API_KEY: "${ANTHROPIC_API_KEY}"

  - name: aider
    adapter: ./adapters/aider/adapter.sh
    image: thunderdome/aider:latest
    env:
      ANTHROPIC_API_KEY: "${ANTHROPIC_API_KEY}"
"""
"""As in the original's documentation."""
TASKS = """
tasks:
  - repo: git@example.org:bench/bench-time-tracker.git
    tag: v1
    category: greenfield/simple
    greenfield: true
    validation_tag: v1-validation
    reference_tag: v1-solution
    validation_image: node:20
    install_cmd: npm install
    test_cmd: npm test
    build_cmd: npm run build
    lint_cmd: npm run lint
    time_limit_minutes: 10
    green_weights: {hidden_tests: 0.385, agent_tests: 0.308, build_lint: 0.154, code_metrics: 0.154}
  - id: T2
    name: Collaborative editor
    repo: https://example.org/bench/bench-collab-server
    tag: v1
    category: features/medium
    test_cmd: npm test
    weights: {tests: 0.7, static_analysis: 0.3}
trials: 3
proxy: {gateway: litellm, budget_per_trial_usd: 5.0}
network: {allowlist: [registry.npmjs.org]}
secrets: {env_file: .env.secrets}
results: {dir: ./results}
"""
"""Typical tasks of the original, with everything that it accepts besides them."""


def problems_in(arenas: ArenaBench, text: str | dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_arena_file(arenas.write(text))
    assert caught.value.code == "ARENA_INVALID"
    return [str(problem).removeprefix(f"{arenas.file}:") for problem in caught.value.problems]


def test_the_originals_file_loads_unchanged(arenas: ArenaBench) -> None:
    spec = load_arena_file(arenas.write(SEED + TASKS)).spec
    assert [orchestrator.name for orchestrator in spec.orchestrators] == ["null", "claude-code", "aider"]
    assert [task.key for task in spec.tasks] == ["bench-time-tracker", "bench-collab-server"]
    assert [task.suite for task in spec.tasks] == ["greenfield", "features"]
    assert spec.gateway is not None
    assert (spec.gateway.type, spec.gateway.budget_per_trial_usd) == ("litellm", 5.0)


def test_every_problem_is_reported_at_once_with_its_position(arenas: ArenaBench) -> None:
    found = problems_in(
        arenas,
        """\
orchestrators:
  - name: one
    adaptor: ./x.sh
  - name: one
  - name: ""
tasks:
  - id: a
    repo: x
    tag: v1
    test_cmd: pytest
    time_limit: 5
  - id: A
    repo: x
    tag: v1
    test_cmd: pytest
trails: 3
""",
    )
    assert found == [
        "3:5: orchestrators.0.adaptor: unknown key (did you mean 'adapter'?)",
        "4:11: orchestrators.1.name: 'one' is also in line 2 (give each its own name)",
        "5:11: orchestrators.2.name: must be letters, digits, `.`, `_`, `@`, `+` and `-`, the first a letter or digit",
        "11:5: tasks.0.time_limit: unknown key (did you mean 'time_limit_minutes'?)",
        "12:9: tasks.1.id: 'A' is also in line 7 (give each task an `id` of its own)",
        "16:1: trails: unknown key (did you mean 'trials'?)",
    ]


TWO = {**SMALL["tasks"][0], "repo": "repos/fix.git"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown gateway": (changed("proxy", {"gateway": "litelm"}), "did you mean 'litellm'?"),
    "both gateways": ({**SMALL, "proxy": {}, "gateway": "none"}, "proxy: cannot be combined with `gateway`"),
    "script and agent": (changed("orchestrators", 0, "adapter", "x.sh"), "cannot be combined with `adapter`"),
    "prompt in config": (changed("orchestrators", 0, "config", {"prompt": "x"}), "the task has the prompt"),
    "total for one": (changed("orchestrators", 0, "budget", {"total_usd": 3}), "cannot limit the whole run"),
    "negative budget": (changed("orchestrators", 0, "budget", -1), "budget: must be at least 0"),
    "budget as text": (changed("orchestrators", 0, "budget", "5"), "budget: must be a"),
    "model for null": (changed("orchestrators", [{"name": "null", "model": "x"}]), "model: has no effect on `null`"),
    "same repository": (
        changed("tasks", [{k: v for k, v in each.items() if k != "id"} for each in (TWO, TWO)]),
        "tasks.1.repo: 'fix' is also in line 1",
    ),
    "no id": (changed("tasks", [{"repo": ".", "tag": "v1", "test_cmd": "x"}]), "no id can be made of its last part"),
    "two prompts": (
        changed("tasks", 0, {**SMALL["tasks"][0], "prompt": "x", "prompt_file": "y"}),
        "prompt_file: cannot be combined with `prompt`",
    ),
    "weights of greenfield": (
        changed("tasks", 0, "green_weights", {"hidden_tests": 1}),
        "green_weights: is only valid with `greenfield: true`",
    ),
    "rubric's weight": (changed("tasks", 0, "weights", {"rubric": 1}), "gives a weight to `rubric`"),
    "image without effect": (
        {**changed("tasks", 0, "validation_image", "node:20"), "validation": {"mode": "shared"}},
        "tasks.0.validation_image: has no effect with the validation mode `shared`",
    ),
    "image on the host": (
        {**changed("orchestrators", 0, "image", "node:20"), "sandbox": "local"},
        "orchestrators.0.image: is only valid with `sandbox: docker`",
    ),
    "allowlist and open network": (
        {**SMALL, "network": {"allowlist": ["a"]}, "sandbox": {"type": "docker", "network": "open"}},
        "network: cannot be combined with the sandbox's `network`",
    ),
    "no orchestrators": ({**SMALL, "orchestrators": []}, "orchestrators: must have at least 1"),
    "a list": ([], "must be a mapping"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_problem(name: str, arenas: ArenaBench) -> None:
    arena, message = BAD[name]
    found = problems_in(arenas, arena)
    assert any(message in each for each in found), found
    assert all(each.startswith("1:") for each in found), "without a position"


def test_a_list_of_invalid_tasks_is_not_an_empty_one(arenas: ArenaBench) -> None:
    (problem,) = problems_in(arenas, changed("tasks", 0, "time_limit_minutes", "soon"))
    assert "tasks.0.time_limit_minutes: must be a number" in problem


def test_a_missing_file_and_an_empty_one(arenas: ArenaBench, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_arena_file(tmp_path / "nowhere.yaml")
    assert problems_in(arenas, "") == [" is empty"]


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown agent": (changed("orchestrators", 0, "agent", "claud-code"), "orchestrators.0.agent: There is no adapter"),
    "neither script nor agent": (changed("orchestrators", [{"name": "mine"}]), "add an `adapter` or an `agent`"),
    "agent's option": (
        changed("orchestrators", 0, "config", {"max_turn": 3}),
        "orchestrators.0.config.max_turn: unknown key",
    ),
    "judge's agent": (
        {
            "orchestrators": [{"name": "x", "agent": "command", "config": {"command": "true"}}],
            "tasks": changed("tasks", 0, "rubric", {"criteria": ["It works."]})["tasks"],
        },
        "tasks.0.rubric.agent: is required",
    ),
    "judge's criteria": (
        changed("tasks", 0, "rubric", {"criteria": {"a": {"weight": 1}}}),
        "tasks.0.rubric.criteria.a.description: is required",
    ),
    "secrets": (changed("secrets", {"env_file": "none.env"}), "secrets.env_file: The secrets file cannot be read"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_agents_and_judges_are_checked_with_their_positions(name: str, arenas: ArenaBench) -> None:
    arena, message = OPTIONS[name]
    with pytest.raises(ConfigError) as caught:
        load_arena(arenas.write(arena), arenas.host())
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert problem.line == 1
    assert (problem.column or 0) > 1


def test_an_adapter_script_outside_of_the_arena_is_refused(arenas: ArenaBench) -> None:
    arenas.script("scripts/agent.sh")
    inner = arenas.root / "inner"
    inner.mkdir()
    file = inner / "thunderdome.yaml"
    arena = changed("orchestrators", [{"name": "x", "adapter": "../scripts/agent.sh"}])
    file.write_bytes(arenas.write(arena).read_bytes())
    with pytest.raises(ConfigError, match="below the arena's directory"):
        load_arena(file, arenas.host())


def test_an_arena_is_recognised_by_its_keys(arenas: ArenaBench, tmp_path: Path) -> None:
    assert is_arena(arenas.write(SMALL))
    assert is_arena(arenas.write("orchestrators: 3"))
    assert not is_arena(arenas.write("repo: x\nagent: {type: x}\n"))
    assert not is_arena(arenas.write("a: [b"))
    assert not is_arena(tmp_path / "nowhere.yaml")
