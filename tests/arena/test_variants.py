"""Variants: the same agent with something changed, as orchestrators of their own, with baselines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from arena_bench import SMALL, ArenaBench, changed
from test_arena_plan import NO_ENV, repositories, small
from test_arena_spec import problems_in

from youbencha.engine.arena import load_arena
from youbencha.engine.dry_run import describe_plan
from youbencha.engine.matrix import Cell
from youbencha.engine.selection import Selection
from youbencha.errors import ConfigError
from youbencha.spec.arena import OrchestratorSpec, VariantSpec
from youbencha.spec.arena_loader import load_arena_file

__all__ = ["repositories", "small"]

ONE = {
    **SMALL["orchestrators"][0],
    "version": "2.1.100",
    "model": "opus",
    "image": "node:22",
    "config": {"max_turns": 3, "effort": "high"},
    "budget": 2,
    "instructions": "CLAUDE.md",
    "skills": ["skills/a", "skills/b"],
}


def with_variants(*variants: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**SMALL, "orchestrators": [{**SMALL["orchestrators"][0], "variants": list(variants)}], **more}


def merged(**variant: Any) -> OrchestratorSpec:
    return OrchestratorSpec.model_validate(ONE).with_variant(VariantSpec.model_validate({"name": "v", **variant}))


MERGED: dict[str, tuple[Any, Any]] = {
    "version": ("2.1.101", "2.1.101"),
    "model": ("haiku", "haiku"),
    "image": ("node:24", "node:24"),
    "env": (
        {"A": "1", "ANTHROPIC_API_KEY": "k"},
        {"A": "1", "ANTHROPIC_API_KEY": "k"},
    ),
    "config": ({"effort": None, "max_turns": 4, "x": {"y": 1}}, {"max_turns": 4, "x": {"y": 1}}),
    "instructions": ("other.md", "other.md"),
    "skills": (["skills/c"], ("skills/c",)),
    "plugins": (["p"], ("p",)),
    "files": ("f", "f"),
    "home": ("h", "h"),
    "without": ([".claude/"], (".claude",)),
}


def test_every_key_of_a_variant_is_tested_here() -> None:
    assert set(VariantSpec.model_fields) == {*MERGED, "name"}


@pytest.mark.parametrize("key", MERGED)
def test_a_variant_changes_one_thing(key: str) -> None:
    value, expected = MERGED[key]
    orchestrator, variant = OrchestratorSpec.model_validate(ONE), merged(**{key: value})
    assert getattr(variant, key) == expected
    differing = {
        name for name in OrchestratorSpec.model_fields if getattr(variant, name) != getattr(orchestrator, name)
    }
    assert differing == {"name", key}
    assert variant.name == "one+v"


REMOVED = {"version": None, "model": None, "image": None, "instructions": None, "skills": []}


@pytest.mark.parametrize("key", REMOVED)
def test_a_variant_removes_what_its_orchestrator_has(key: str) -> None:
    assert not getattr(merged(**{key: REMOVED[key]}), key)
    assert getattr(merged(env={"A": "1"}), key), "it was not given"


def test_a_variant_removes_a_variable() -> None:
    assert merged(env={"ANTHROPIC_API_KEY": None, "B": "2"}).env == {"B": "2"}


def test_a_variant_has_no_variants() -> None:
    variant = VariantSpec(name="v", model="x")
    assert OrchestratorSpec(name="one", variants=(variant,)).with_variant(variant).variants == ()


def test_the_agent_is_that_of_the_orchestrator() -> None:
    variant = VariantSpec(name="v", model="x")
    assert OrchestratorSpec(name="claude-code").with_variant(variant).agent == "claude-code"
    assert OrchestratorSpec(name="one", agent="codex").with_variant(variant).agent == "codex"
    assert OrchestratorSpec(name="mine", adapter="x.sh").with_variant(variant).agent is None


A_MODEL = {"name": "a", "model": "x"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name twice": (
        with_variants({"name": "a", "model": "x"}, {"name": "A", "model": "y"}),
        "variants.1.name: 'one+A' is also in line 1 (give each its own name)",
    ),
    "name of an orchestrator": (
        changed(
            "orchestrators",
            [{"name": "one+a", "agent": "codex"}, {"name": "one", "agent": "codex", "variants": [A_MODEL]}],
        ),
        "orchestrators.1.variants.0.name: 'one+a' is also in line 1",
    ),
    "long name": (
        changed("orchestrators", [{"name": "o" * 99, "agent": "codex", "variants": [A_MODEL]}]),
        "variants.0.name: 'ooo",
    ),
    "nothing changed": (with_variants({"name": "a"}), "variants.0: changes nothing of one"),
    "the same value": (
        with_variants({"name": "a", "env": {"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}, "skills": []}),
        "variants.0: changes nothing of one",
    ),
    "prompt": (with_variants({"name": "a", "config": {"prompt": "x"}}), "variants.0.config: must not contain `prompt`"),
    "key of a task": (with_variants({"name": "a", "prompt": "x"}), "variants.0.prompt: unknown key"),
    "budget": (with_variants({"name": "a", "budget": 3}), "variants.0.budget: unknown key"),
    "version of a script": (
        changed("orchestrators", [{"name": "x", "adapter": "x.sh", "variants": [{"name": "a", "version": "1"}]}]),
        "variants.0.version: cannot be combined with the orchestrator's `adapter`",
    ),
    "null": (
        changed("orchestrators", [{"name": "null", "variants": [{"name": "a", "env": {"A": "1"}}]}]),
        "orchestrators.0.variants: have no effect on `null`",
    ),
    "a script called null": (
        changed("orchestrators", [{"name": "null", "adapter": "x.sh", "variants": [{"name": "a", "env": {"A": "1"}}]}]),
        "orchestrators.0.variants: have no effect on `null`",
    ),
    "image on the host": (
        with_variants({"name": "a", "image": "node:20"}, sandbox="local"),
        "variants.0.image: is only valid with `sandbox: docker`",
    ),
    "baseline": (
        with_variants({"name": "skill", "model": "x"}, baseline="one+skil"),
        "baseline: there is no such orchestrator or variant (did you mean 'one+skill'?)",
    ),
    "far baseline": ({**SMALL, "baseline": "zzz"}, "baseline: there is no such orchestrator or variant (the arena has"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_variants_are_one_clear_problem(name: str, arenas: ArenaBench) -> None:
    arena, message = BAD[name]
    (problem,) = problems_in(arenas, arena)
    assert message in problem
    assert problem.startswith("1:"), "without a position"


def two(**more: Any) -> dict[str, Any]:
    return {**SMALL, "orchestrators": [{"name": "a", "agent": "claude-code"}, {"name": "b", "agent": "codex"}], **more}


BASELINES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "one": (SMALL, {}),
    "two": (two(), {"b": "a"}),
    "two, said": (two(baseline="b"), {"a": "b"}),
    "three": (changed("orchestrators", [*two()["orchestrators"], {"name": "null"}]), {}),
    "variants": (
        with_variants({"name": "v", "model": "x"}, {"name": "w", "model": "y"}),
        {"one+v": "one", "one+w": "one"},
    ),
    "two, of which one is a variant": (with_variants({"name": "v", "model": "x"}), {"one+v": "one"}),
    "a variant": (
        with_variants({"name": "v", "model": "x"}, {"name": "w", "model": "y"}, baseline="one+v"),
        {"one": "one+v", "one+w": "one+v"},
    ),
}


@pytest.mark.parametrize("name", BASELINES)
def test_baselines(name: str, arenas: ArenaBench) -> None:
    arena, expected = BASELINES[name]
    assert load_arena_file(arenas.write(arena)).baselines() == expected


# Positions

WRITTEN = """\
orchestrators:
  - name: one
    agent: claude-code
    env: {ANTHROPIC_API_KEY: "${KEY_OF_ONE}"}
    config: {max_turns: 3}
    variants:
      - name: mine
        env: {A: "${NO_SUCH}"}
        model: opus
      - name: other
        config:
          max_turns: 0
          effort: high
tasks:
  - {id: fix, repo: repos/fix, tag: v1, test_cmd: pytest}
"""


def checked(arenas: ArenaBench, text: str, *, run: bool = False) -> list[str]:
    host = arenas.host()
    with pytest.raises(ConfigError) as caught:
        arenas.matrix(text) if run else load_arena(arenas.write(text), host, resolve_env=False)
    return [str(problem).removeprefix(f"{arenas.file}:") for problem in caught.value.problems]


def test_a_key_is_at_the_variants_line_if_the_variant_gives_it(arenas: ArenaBench) -> None:
    arena = load_arena_file(arenas.write(WRITTEN))
    _, mine, other = arena.orchestrators
    path = ("orchestrators", 0)
    assert arena.path_to(mine) == (*path, "variants", 0)
    assert arena.path_to(mine, "env", "A") == (*path, "variants", 0, "env", "A")
    assert arena.path_to(mine, "env", "ANTHROPIC_API_KEY") == (*path, "env", "ANTHROPIC_API_KEY")
    assert arena.path_to(other, "config", "effort") == (*path, "variants", 1, "config", "effort")
    assert arena.path_to(other, "model") == (*path, "model")


def test_a_problem_of_a_variant_is_at_its_own_line(arenas: ArenaBench) -> None:
    (problem,) = checked(arenas, WRITTEN)
    assert problem.startswith("12:22: orchestrators.0.variants.1.config.max_turns: must be")


def test_a_problem_of_the_orchestrator_is_shown_once(arenas: ArenaBench) -> None:
    text = WRITTEN.replace("config: {max_turns: 3}", "config: {max_turn: 3}").replace("max_turns: 0", "max_turns: 1")
    (problem,) = checked(arenas, text)
    assert problem.startswith("5:14: orchestrators.0.config.max_turn: unknown key")
    (problem,) = checked(arenas, text.replace("claude-code", "claud-code"))
    assert problem.startswith("3:12: orchestrators.0.agent: There is no adapter")
    (problem,) = checked(arenas, text.replace("    agent: claude-code\n", ""))
    assert problem.startswith("2:11: orchestrators.0.name: There is no adapter"), "the default is the name"


def test_a_problem_that_only_a_variant_has_names_it(arenas: ArenaBench) -> None:
    """The key is the orchestrator's, but what is wrong with it is the variant's."""
    text = WRITTEN.replace("max_turns: 3", "model: sonnet").replace("max_turns: 0", "max_turns: 1")
    (problem,) = checked(arenas, text)
    assert problem.startswith("5:21: orchestrators.0.config.model: for one+mine: conflicts with agent.model")


def test_unset_variables_are_each_at_their_own_line(small: ArenaBench) -> None:
    found = checked(small, WRITTEN.replace("max_turns: 0", "max_turns: 1"), run=True)
    assert [each.split(":")[0] for each in found] == ["4", "8"]


# Plans


def cells_of(arenas: ArenaBench, arena: dict[str, Any], *chosen: str) -> dict[str, Cell]:
    return {cell.orchestrator: cell for cell in arenas.matrix(arena, Selection(chosen)).cells}


SELECTED = {
    "one": {"one"},
    "one+*": {"one+v", "one+w"},
    "one*": {"one", "one+v", "one+w"},
    "one+w": {"one+w"},
    "*+w": {"one+w"},
}


@pytest.mark.parametrize("pattern", SELECTED)
def test_selection(pattern: str, small: ArenaBench) -> None:
    arena = with_variants({"name": "v", "model": "x"}, {"name": "w", "model": "y"})
    matrix = small.matrix(arena, Selection((pattern,)))
    names = {cell.orchestrator for cell in matrix.cells}
    assert names == SELECTED[pattern]
    assert set(matrix.baselines) == (names - {"one"} if "one" in names else set())


def test_two_versions_of_one_agent_are_in_one_plan(small: ArenaBench) -> None:
    cells = cells_of(small, with_variants({"name": "old", "version": "1.0.128"}, {"name": "new", "version": "2.1.100"}))
    versions = {name: cell.plan.agent_config.get("version") for name, cell in cells.items()}
    assert versions == {"one": None, "one+old": "1.0.128", "one+new": "2.1.100"}
    assert {cell.plan.case.agent.type for cell in cells.values()} == {"claude-code"}
    assert len({cell.agent_hash for cell in cells.values()}) == 3
    assert len({cell.validation_hash for cell in cells.values()}) == 1


def hashes_of(arenas: ArenaBench, *variants: dict[str, Any]) -> dict[str, str]:
    return {name: cell.agent_hash for name, cell in cells_of(arenas, with_variants(*variants)).items()}


@pytest.mark.parametrize(("key", "file"), [
    ("instructions", "CLAUDE.md"), ("skills", "skill/SKILL.md"), ("plugins", "plugin/.claude-plugin/plugin.json"),
    ("files", "files/notes.txt"), ("home", "home/.config/x"),
])  # fmt: skip
def test_the_contents_of_files_identify_a_trial(key: str, file: str, small: ArenaBench) -> None:
    """Not those of others, nor where they are."""
    top = "for-agents/" + file.partition("/")[0]
    variant = {"name": "v", key: [top] if key in ("skills", "plugins") else top}
    other = {"name": "w", "model": "x"}
    before = hashes_of(small, variant, other)
    (small.root / "elsewhere").mkdir()
    moved = json.loads(json.dumps(variant).replace("for-agents", "elsewhere"))
    (small.root / top).rename(small.root / top.replace("for-agents", "elsewhere"))
    assert hashes_of(small, moved, other) == before
    path = small.root / "elsewhere" / file
    path.write_text(path.read_text() + " ")
    after = hashes_of(small, moved, other)
    assert {name for name in before if before[name] != after[name]} == {"one+v"}


MISSING = """\
orchestrators:
  - name: one
    agent: claude-code
    skills: [for-agents/skill]
    variants:
      - name: mine
        skills: [for-agents/skill, nowhere/a]
        instructions: nowhere.md
        config: {mcp_config: for-agents/CLAUDE.md}
      - {name: other, model: x}
  - name: two
    agent: command
    config: {command: "true"}
    variants:
      - {name: with, instructions: for-agents/CLAUDE.md}
tasks:
  - {id: fix, repo: repos/fix, tag: v1, test_cmd: pytest}
"""


def test_missing_files_are_found_before_anything_runs(small: ArenaBench) -> None:
    found = [each.partition(": ")[::2] for each in checked(small, MISSING)]
    assert [(at, message.partition(":")[0]) for at, message in found] == [
        ("7:36", "orchestrators.0.variants.0.skills.1"),
        ("8:23", "orchestrators.0.variants.0.instructions"),
        ("9:30", "orchestrators.0.variants.0.config.mcp_config"),
        ("15:36", "orchestrators.1.variants.0.instructions"),
    ]


def test_the_file_of_mcp_servers_identifies_a_trial(small: ArenaBench) -> None:
    small.script("mcp/docs.json", '{"mcpServers": {}}')
    variant = {"name": "v", "config": {"mcp_config": "mcp/docs.json"}}
    before = hashes_of(small, variant)
    small.script("mcp/docs.json", '{"mcpServers": {"docs": {"command": "x"}}}')
    after = hashes_of(small, variant)
    assert {name for name in before if before[name] != after[name]} == {"one+v"}


def test_a_file_of_mcp_servers_may_be_in_the_repository_or_in_the_files_laid_over_it(small: ArenaBench) -> None:
    def variant(file: str, **more: str) -> dict[str, Any]:
        return with_variants({"name": "v", "config": {"mcp_config": file}, **more})

    small.matrix(variant("TASK.md"))
    small.matrix(variant("notes.txt", files="for-agents/files"))
    with pytest.raises(ConfigError, match=r"0\.config\.mcp_config: there is no file .*/notes.txt, and none for task"):
        small.matrix(variant("notes.txt"))


def test_a_missing_file_of_the_orchestrator_is_shown_once(small: ArenaBench) -> None:
    arena = with_variants({"name": "v", "model": "x"})
    arena["orchestrators"][0]["skills"] = ["nowhere"]
    (problem,) = checked(small, json.dumps(arena))
    assert "orchestrators.0.skills.0: there is no directory" in problem


def test_a_variant_has_the_budget_of_its_orchestrator_for_itself(small: ArenaBench) -> None:
    arena = with_variants({"name": "v", "model": "x"})
    arena["orchestrators"][0]["budget"] = {"per_trial_usd": 2, "per_agent_usd": 3}
    arena["trials"] = 4
    assert describe_plan(small.matrix(arena)).worst_case.usd == 6


def test_the_plan_says_what_is_compared(small: ArenaBench) -> None:
    about = describe_plan(small.matrix(with_variants({"name": "v", "model": "x"}), choices=NO_ENV))
    assert [each["baseline"] for each in about.as_data()["orchestrators"]] == [None, "one"]
    assert "COMPARED WITH" in about.as_text()
