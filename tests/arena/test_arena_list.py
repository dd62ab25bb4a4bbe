"""`thunderdome list`, and the other commands that know arenas."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from arena_bench import ArenaBench, changed

from yb import Done, yb
from youbencha.store.arena import CellInfo, RunInfo
from youbencha.store.arena_run import create_run
from youbencha.text import iso_time

ARENA: dict[str, Any] = {
    "orchestrators": [
        {"name": "null"},
        {"name": "mine", "adapter": "nowhere.sh", "env": {"KEY": "${NO_SUCH_VARIABLE}"}},
        {"name": "claude-code", "model": "opus"},
    ],
    "tasks": [
        {
            "id": "a",
            "repo": "https://user:hunter2@example.org/a",
            "tag": "v1",
            "test_cmd": "x",
            "category": "green/easy",
        },
        {"id": "b", "repo": "b", "tag": "v1", "test_cmd": "x", "category": "green/hard"},
        {"id": "c", "repo": "c", "tag": "v1", "test_cmd": "x"},
    ],
}


def listed(arenas: ArenaBench, *more: str) -> Done:
    return yb("bench", "list", *more, cwd=arenas.root)


def finish(run: Path, orchestrator: str, task: str, number: int) -> None:
    trial = run / "trials" / orchestrator / task / f"trial-{number}"
    trial.mkdir(parents=True)
    (trial / "meta.json").write_text("{}")


def test_everything_is_listed_without_keys_scripts_or_repositories(arenas: ArenaBench) -> None:
    arenas.write(ARENA)
    done = listed(arenas)
    assert done.returncode == 0, done.stderr
    for word in ("null", "does nothing", "nowhere.sh", "claude-code", "opus", "green/easy", "--category 'green/*'"):
        assert word in done.stdout
    assert "no runs in" in done.stdout
    assert "hunter2" not in done.stdout
    data = json.loads(listed(arenas, "--json").stdout)
    assert [each["agent"] for each in data["orchestrators"]] == [None, None, "claude-code"]
    assert data["suites"] == [{"suite": "green", "tasks": ["a", "b"]}]
    assert data["tasks"][0]["repo"] == "https://example.org/a"
    assert data["runs"] == []


def test_variants_are_listed_below_their_orchestrator(arenas: ArenaBench) -> None:
    variants = [{"name": "new", "version": "2.1.100"}, {"name": "haiku", "model": "haiku", "config": {"effort": "low"}}]
    orchestrators = [{"name": "aider"}, {**ARENA["orchestrators"][2], "variants": variants}]
    arenas.write({**ARENA, "orchestrators": orchestrators})
    rows = json.loads(listed(arenas, "--json").stdout)["orchestrators"]
    keys = ("name", "variant_of", "agent", "version", "model", "baseline")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("aider", None, "aider", None, None, None),
        ("claude-code", None, "claude-code", None, "opus", None),
        ("claude-code+new", "claude-code", "claude-code", "2.1.100", "opus", "claude-code"),
        ("claude-code+haiku", "claude-code", "claude-code", None, "haiku", "claude-code"),
    ]
    text = listed(arenas).stdout
    assert [row["changes"] for row in rows] == [[], [], ["version"], ["model", "config.effort"]]
    assert "model, config.effort" in text
    assert "COMPARED WITH" in text
    assert text.index("claude-code+new") < text.index("claude-code+haiku")
    done = yb("validate", "-c", "thunderdome.yaml", cwd=arenas.root)
    assert "valid: 2 orchestrators, 2 variants, 3 tasks" in done.stdout, done.stderr


def test_runs_are_listed_the_newest_first(arenas: ArenaBench) -> None:
    arenas.write({**ARENA, "results": {"dir": "out"}})
    cells = tuple(CellInfo(orchestrator="null", task=name, agent_hash="", validation_hash="") for name in "abc")
    info = RunInfo(youbencha_version="1", created_at=iso_time(time.time()), trials=4, cells=cells)
    run = create_run(arenas.root / "out", info).path
    for number in (1, 2, 3):
        finish(run, "null", "a", number)
    finish(arenas.root / "out" / "runs" / "2020-01-01T00-00-00", "null", "a", 1)  # as the original writes it
    runs = json.loads(listed(arenas, "--json").stdout)["runs"]
    assert [run["run"] for run in runs] == [run.name, "2020-01-01T00-00-00"]
    assert [(run["trials_finished"], run["trials_planned"]) for run in runs] == [(3, 12), (1, None)]
    assert [run["began"] for run in runs] == [info.created_at, None]
    assert len(json.loads(listed(arenas, "--json", "-n", "1").stdout)["runs"]) == 1
    assert json.loads(listed(arenas, "--json", "--results", "elsewhere").stdout)["runs"] == []
    text = listed(arenas).stdout
    assert text.index(run.name) < text.index("2020-01-01T00-00-00")


def test_a_damaged_run_does_not_hide_the_others(arenas: ArenaBench) -> None:
    arenas.write(ARENA)
    broken = arenas.root / "results" / "runs" / "2026-01-01T00-00-00Z-0a"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{")
    finish(arenas.root / "results" / "runs" / "2025-01-01T00-00-00", "null", "a", 1)
    runs = json.loads(listed(arenas, "--json").stdout)["runs"]
    assert [run["trials_finished"] for run in runs] == [0, 1]


def test_a_missing_file_is_a_clear_error(arenas: ArenaBench) -> None:
    done = listed(arenas)
    assert done.returncode == 2
    assert "thunderdome.yaml" in done.stderr
    assert "docs/thunderdome-yaml.md" in done.stderr
    assert (Path(__file__).parents[2] / "docs" / "thunderdome-yaml.md").is_file()


def test_3000_trials_are_counted_quickly(arenas: ArenaBench) -> None:
    arenas.write(ARENA)
    run = arenas.root / "results" / "runs" / "2026-01-01T00-00-00Z-0a"
    for number in range(1000):
        for name in "abc":
            finish(run, "null", name, number)
    began = time.process_time()
    runs = json.loads(listed(arenas, "--json").stdout)["runs"]
    assert time.process_time() - began < 2
    assert runs[0]["trials_finished"] == 3000


def test_an_arena_is_validated(arenas: ArenaBench) -> None:
    home = {"HOME": str(arenas.home)}
    arenas.write(changed("orchestrators", 0, "env", {"X": "${NO_SUCH_VARIABLE}"}))
    done = yb("validate", "-c", str(arenas.file), cwd=arenas.root, **home)
    assert (done.returncode, done.stdout) == (0, "valid: 1 orchestrator, 1 task\n"), done.stderr
    arenas.write(changed("orchestrators", 0, "config", {"max_turn": 3}))
    done = yb("validate", "-c", str(arenas.file), "--json", cwd=arenas.root, **home)
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["path"] == "orchestrators.0.config.max_turn"
    assert problem["line"] == 1


@pytest.mark.parametrize("name", ["arena", "meta"])
def test_there_is_a_schema(name: str) -> None:
    schema = json.loads(yb("schema", name).stdout)
    key = "orchestrators" if name == "arena" else "composite_score"
    assert key in schema["properties"]


def test_a_dry_run_needs_no_keys_and_writes_nothing(arenas: ArenaBench) -> None:
    arenas.repository("repos/fix")
    arenas.write({**changed("orchestrators", 0, "env", {"X": "${NO_SUCH_VARIABLE}"}), "secrets": {"env_file": "no"}})
    before = sorted(arenas.root.rglob("*"))
    done = yb(
        "bench", "run", "--dry-run", "--trials", "4", cwd=arenas.root, HOME=str(arenas.home), ANTHROPIC_API_KEY=""
    )
    assert done.returncode == 0, done.stderr
    assert "4 (1 orchestrator x 1 task x 4), 1 at a time" in done.stdout
    assert "unlimited: nothing limits one" in done.stdout
    assert sorted(arenas.root.rglob("*")) == before
    done = yb("bench", "run", "--dry-run", "--budget", "7", "--json", cwd=arenas.root, HOME=str(arenas.home))
    assert json.loads(done.stdout)["worst_case_usd"] == 7
