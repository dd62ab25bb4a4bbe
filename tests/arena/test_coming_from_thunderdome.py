"""Files, commands and results that users of the original Thunderdome bring along."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from arena_bench import SMALL, ArenaBench
from ruamel.yaml import YAML
from test_original_results import PUBLISHED, write_results
from validation_bench import HIDDEN, SOLUTION, START, task_repository

from arena_trees import original, write_run
from docker_engine import Engine, engine, image
from git_repositories import git
from originals import original as original_clone
from stack_tools import runners_directory
from yb import Done, run_here, yb
from youbencha.spec.arena_loader import load_arena_file
from youbencha.spec.compat.thunderdome import is_original, translate

__all__ = ["engine", "image"]

FILE = """\
orchestrators:
  - name: "null"
    adapter: ./adapters/null.sh
    image: alpine:latest
  - name: mine
    adapter: ./adapters/mine.sh
    image: example/mine:latest
    env: {ANTHROPIC_API_KEY: "${ANTHROPIC_API_KEY}"}
  - name: gone
    adapter: ./adapters/gone.sh
    image: example/gone:latest
tasks:
  - id: T1
    name: Time Tracker
    repo: ./benchmarks/bench-tracker
    tag: v1
    category: greenfield/simple
    greenfield: true
    test_cmd: npm test
    green_weights: {hidden_tests: 1}
  - id: T2
    repo: ./benchmarks/bench-editor.git
    tag: v1
    category: algorithmic/hard
    validation_image: python:3.12
    install_cmd: pip install .
    test_cmd: pytest
    time_limit_minutes: 45
trials: 2
proxy: {gateway: none, log_dir: ./results/proxy-logs, budget_per_trial_usd: 5.00}
results: {dir: ./results}
"""
"""In the original's spelling, and with most keys left out."""
TASK = {"repo": "./a", "tag": "v1", "test_cmd": "npm test"}
AGENT = {"name": "a", "adapter": "a.sh", "image": "a"}
MINIMAL = {"orchestrators": [AGENT], "tasks": [TASK], "trials": 1}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (MINIMAL, True),
        ({**MINIMAL, "proxy": {}, "parallel": 4}, True),  # with a key that only we have
        ({**SMALL, "proxy": {"gateway": "none"}}, True),
        (SMALL, False),
        ({**MINIMAL, "parallel": 4}, False),
        ({**MINIMAL, "orchestrators": [{**AGENT, "model": "opus"}]}, False),
        ({"orchestrators": [AGENT], "tasks": [TASK]}, False),  # it requires `trials`
        ({"orchestrators": 3, "tasks": 3, "trials": 1}, False),
        ("text", False),
    ],
)
def test_a_file_of_the_original_is_recognised(data: object, expected: bool) -> None:
    assert is_original(data) is expected


TASKS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "defaults": ({}, {"install_cmd": "npm install", "validation_image": "node:20", "time_limit_minutes": 10}),
    "empty": (
        {"install_cmd": "", "validation_image": "", "time_limit_minutes": 0},
        {"install_cmd": "npm install", "validation_image": "node:20", "time_limit_minutes": 10},
    ),
    "given": ({"install_cmd": "make", "time_limit_minutes": 7}, {"install_cmd": "make", "time_limit_minutes": 7}),
    "no install": ({"install_cmd": None}, {"install_cmd": None}),
    "marathon": ({"category": "marathon"}, {"time_limit_minutes": 60}),
    "complex": ({"category": "features/complex"}, {"time_limit_minutes": 30}),
    "hidden tests": ({"greenfield": True}, {"validation_tag": "v1-validation"}),
    "weights": ({"weights": {"tests": 1}}, {"weights": {"tests": 1, "static_analysis": 0}}),
    "no weights": ({"weights": {"tests": 0, "static_analysis": 0}}, {"weights": None}),
    "other weights": ({"green_weights": {"hidden_tests": 1}}, {"green_weights": None}),
    "an early rubric": ({"rubric": [{"criterion": "Clear.", "weight": 2}]}, {"rubric": None}),
    "its name in results": ({"id": "T1"}, {"id": "a", "aliases": ["T1"]}),
    "shared": ({"validation": {"mode": "shared"}}, {"validation_image": None}),
}


@pytest.mark.parametrize("name", TASKS)
def test_defaults_of_the_original_are_made_explicit(name: str) -> None:
    given, expected = TASKS[name]
    translated = translate({**MINIMAL, "proxy": {}, "tasks": [{**TASK, **given}]}).data
    (task,) = translated["tasks"]
    assert {key: task.get(key) for key in expected} == expected
    assert translated["validation"] == {"network": "open"}  # for `npm install`


def test_malformed_parts_are_left_to_the_validation(arenas: ArenaBench) -> None:
    data = {"orchestrators": [3], "tasks": [3, {"repo": 3, "greenfield": "x"}], "proxy": {"gateway": "none"}}
    arenas.write(data)
    done = yb("validate", "-c", str(arenas.file), "--json", cwd=arenas.root)
    assert done.returncode == 2
    paths = {problem["path"] for problem in json.loads(done.stdout)["problems"]}
    assert {"orchestrators.0", "tasks.0", "tasks.1.repo", "tasks.1.greenfield"} <= paths


@pytest.fixture
def arena(arenas: ArenaBench) -> ArenaBench:
    arenas.write(FILE)
    for name in ("null", "mine"):
        arenas.script(f"adapters/{name}.sh")
    for name in ("bench-tracker", "bench-editor.git"):
        arenas.repository(f"benchmarks/{name}")
    return arenas


def run_in(arena: ArenaBench, *arguments: str) -> Done:
    return run_here(arguments, cwd=arena.root, env={**arena.env, "NO_COLOR": "1", "COLUMNS": "200"})


def test_every_command_reads_a_file_of_the_original(arena: ArenaBench) -> None:
    validated = run_in(arena, "validate", "-c", "thunderdome.yaml", "--json")
    assert validated.returncode == 0, validated.stdout
    warned = {each["path"] for each in json.loads(validated.stdout)["warnings"]}
    assert warned == {"proxy", "proxy.log_dir", "proxy.budget_per_trial_usd", "tasks", "orchestrators"}
    tasks = json.loads(run_in(arena, "bench", "--config", "thunderdome.yaml", "list", "--json").stdout)["tasks"]
    assert [(task["id"], task["aliases"]) for task in tasks] == [("bench-tracker", ["T1"]), ("bench-editor", ["T2"])]
    for option in ("T1", "bench-tracker", "./benchmarks/bench-tracker", "Time Tracker"):
        plan = run_in(arena, "bench", "run", "--dry-run", "--json", "--orchestrator", "mine", "--task", option)
        assert plan.returncode == 0, plan.stderr
        data = json.loads(plan.stdout)
        assert [(each["id"], each["time_limit_s"]) for each in data["tasks"]] == [("bench-tracker", 600)]
        assert data["worst_case_usd"] is None  # nothing enforces the budget
    everything = run_in(arena, "bench", "run", "--dry-run", "--cleanup-aggressive")
    assert everything.returncode == 2
    assert "orchestrators.2.adapter: there is no file" in everything.stderr
    assert "orchestrators.1.adapter" not in everything.stderr
    shutil.rmtree(arena.root / "benchmarks" / "bench-editor.git")
    incomplete = run_in(arena, "validate", "-c", "thunderdome.yaml")
    assert (incomplete.returncode, "bench-editor.git" in incomplete.stderr) == (0, True)


MINE = """\
set -e
[ "$TASK_DIR" = /workspace ] && [ -f "$TASK_DESCRIPTION" ]
[ -z "$PROXY_URL" ] && [ "$ANTHROPIC_API_KEY" = sk-ant-real ]
[ "$(ls /sys/class/net)" != lo ]
cat > calc.py <<'END'
{solution}END
cat > /workspace/.thunderdome-metrics.json <<'END'
{"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 2, "cache_creation_tokens": 1, "total_cost_usd": 0.5}
END
"""


def test_a_file_of_the_original_runs_unchanged_in_containers(arenas: ArenaBench, engine: Engine, image: str) -> None:
    """With full network access and the real key, as in the original. It uses the test image, and no npm."""
    start = {**START, "TASK.md": "Fix it.\n"}
    task_repository(arenas.root / "benchmarks" / "bench-editor.git", start, HIDDEN, SOLUTION)
    arenas.script("adapters/mine.sh", MINE.replace("{solution}", SOLUTION["calc.py"]))
    text = FILE.replace("example/mine:latest", image).replace("python:3.12", image)
    text = text.replace("pip install .", "ls").replace("pytest", "python3 -m unittest discover -s tests")
    arenas.write(text.replace("category: algorithmic", "validation_tag: v1-validation\n    category: algorithmic"))
    arenas.env |= {"ANTHROPIC_API_KEY": "sk-ant-real", "DOCKER_HOST": engine.host}
    done = run_in(arenas, "bench", "run", "--orchestrator", "mine", "--task", "T2", "--trials", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    trial = arenas.root / "results" / "latest" / "trials" / "mine" / "bench-editor" / "trial-1"
    meta = json.loads((trial / "meta.json").read_text())
    assert (meta["outcome"], meta["scores"]["tests"], meta["category"]) == ("solved", 1, "algorithmic/hard")
    assert (meta["total_tokens"], meta["total_cost_usd"]) == (16, 0.5)


VITEST = """\
import {{ expect, test }} from 'vitest';
import {{ add }} from '../src/add.js';
test('{name}', () => expect(add(1, 2)).toBe({sum}));
"""
INCLUDES = "export default {{ test: {{ include: ['{directory}/*.test.js'] }} }};\n"


@pytest.mark.full
def test_hidden_tests_use_their_own_configuration(arenas: ArenaBench) -> None:
    """On the host, with the real vitest: `npm test` has only the agent's tests, and the hidden ones count."""
    package = {"type": "module", "scripts": {"test": "vitest run"}}
    start = {
        "TASK.md": "Write it.\n",
        "package.json": json.dumps(package),
        "vitest.config.js": INCLUDES.format(directory="tests"),
        ".gitignore": "node_modules\n",
    }
    hidden = {
        "validation-vitest.config.ts": INCLUDES.format(directory="validation-tests"),
        "validation-tests/add.test.js": VITEST.format(name="adds", sum=3),
        "validation-tests/more.test.js": VITEST.format(name="adds more", sum=4),
    }
    task_repository(arenas.root / "benchmarks" / "bench-tracker", start, hidden, {})
    arenas.script(
        "adapters/mine.sh",
        "mkdir src tests\necho 'export const add = (a, b) => a + b;' > src/add.js\n"
        f"cat > tests/own.test.js <<'END'\n{VITEST.format(name='own', sum=3)}END\n",
    )
    link = f"ln -s {runners_directory()}/node_modules node_modules"
    data = YAML(typ="safe").load(FILE)
    del data["orchestrators"][1]["image"], data["tasks"][1]
    task = {**data["tasks"][0], "install_cmd": link}
    arenas.write({**data, "orchestrators": [data["orchestrators"][1]], "tasks": [task], "sandbox": "local"})
    done = run_in(arenas, "bench", "run", "--trials", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    trial = arenas.root / "results" / "latest" / "trials" / "mine" / "bench-tracker" / "trial-1"
    scores = json.loads((trial / "meta.json").read_text())["scores"]
    assert (scores["hidden_tests"], scores["agent_tests"]) == (0.5, 1)


def test_a_missing_test_runner_is_named(arenas: ArenaBench) -> None:
    """The command that is actually run is a long script, which must not hide the name."""
    start = {**START, "TASK.md": "Write it.\n"}
    task_repository(arenas.root / "benchmarks" / "bench-tracker", start, HIDDEN, SOLUTION)
    arenas.script("adapters/mine.sh", "true\n")
    data = YAML(typ="safe").load(FILE)
    del data["orchestrators"][1]["image"], data["tasks"][1]
    task = {**data["tasks"][0], "reference_tag": "v1-solution", "install_cmd": None, "test_cmd": "no-such-runner"}
    arenas.write({**data, "orchestrators": [data["orchestrators"][1]], "tasks": [task], "sandbox": "local"})
    done = run_in(arenas, "bench", "run", "--trials", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    broken = [line for line in done.stderr.splitlines() if "does not work" in line]
    assert broken, done.stderr
    assert all("no-such-runner: " in line for line in broken), done.stderr


def test_categories_of_original_results_come_from_the_arena_file(arena: ArenaBench) -> None:
    """The original's meta.json has no category."""
    records = [
        original("mine", "bench-tracker", composite_score=0.8),
        original("mine", "bench-editor.git", composite_score=0.4),
        original("null", "bench-tracker", composite_score=0.5),
    ]
    write_run(arena.root / "results" / "runs" / "2026-01-02T03-00-00", records)
    for command in ("report", "leaderboard"):
        board = json.loads(run_in(arena, "bench", command, "--format", "json").stdout)
        assert {row["suite"] for row in board["suites"]} == {"greenfield", "algorithmic"}
        for category in ("*/hard", "algorithmic", "algorithmic/hard"):
            done = run_in(arena, "bench", command, "--category", category, "--format", "json")
            board = json.loads(done.stdout)
            assert [trial["task"] for trial in board["trials"]] == ["bench-editor.git"]
            assert [each["dropped"] for each in board["exclusions"]] == [2]
    wrong = run_in(arena, "bench", "report", "--category", "greenfeld/*")
    assert wrong.returncode == 2
    assert "[NOTHING_SELECTED]" in wrong.stderr


def test_suites_are_columns_and_decide_the_order(arena: ArenaBench) -> None:
    records = [
        original("mine", "bench-tracker", composite_score=0.8),
        original("mine", "bench-editor", composite_score=0.4),
        original("null", "bench-tracker", composite_score=0.9),
    ]
    write_run(arena.root / "results" / "runs" / "2026-01-02T03-00-00", records)
    suites = ("--suite", "easy=greenfield,features", "--suite", "hard=*/hard")
    board = json.loads(run_in(arena, "bench", "leaderboard", *suites, "--format", "json").stdout)
    assert [(row["agent"], row["by_suite"]) for row in board["agents"]] == [
        ("mine", {"easy": 0.8, "hard": 0.4}),
        ("null", {"easy": 0.9, "hard": None}),
    ]
    header, first, second, *_ = run_in(arena, "bench", "leaderboard", *suites).stdout.splitlines()
    assert header.split()[:4] == ["AGENT", "EASY", "HARD", "OVERALL"]
    assert first.split()[:4] == ["mine", "0.800", "0.400", "0.600"]
    assert second.split()[:4] == ["null", "0.900", "-", "-"]
    wrong = run_in(arena, "bench", "leaderboard", "--suite", "easy")
    assert wrong.returncode == 2
    assert "[OPTION_INVALID]" in wrong.stderr


PUBLISHED_TABLE = (
    *("leaderboard", "--exclude", "cost=0", "--suite", "standard=greenfield,features,bugfix,marathon,recovery"),
    *("--suite", "hard=algorithmic,correctness,ambiguity,reasoning", "--format", "json"),
)


def published_rows(board: dict[str, Any]) -> list[str]:
    """The rows in the form of `PUBLISHED`, the best first, without those that it does not have."""
    names = {line.split()[0] for line in PUBLISHED}
    return [
        f"{row['agent']} {100 * row['by_suite']['standard']:.1f} {100 * row['by_suite']['hard']:.1f} "
        f"{row['trials']['finished']} {row['cost_per_trial_usd']:.2f}"
        for row in board["agents"]
        if row["agent"] in names and None not in row["by_suite"].values()
    ]


@pytest.mark.full
def test_one_command_gives_the_published_table(tmp_path: Path) -> None:
    """With the original's thunderdome.yaml, and its published figures, which are part of this repository."""
    clone = original_clone("thunderdome")
    write_results(tmp_path / "results")
    shutil.copy(clone / "thunderdome.yaml", tmp_path)
    rows = published_rows(json.loads(yb("bench", *PUBLISHED_TABLE, cwd=tmp_path).stdout))
    assert len(rows) == 41
    assert set(rows) <= set(PUBLISHED)


@pytest.mark.full
def test_the_clone_of_the_original_works(tmp_path: Path) -> None:
    """Its thunderdome.yaml, examples and results; its tasks' repositories are replaced by small ones."""
    clone = original_clone("thunderdome")
    assert published_rows(json.loads(yb("bench", *PUBLISHED_TABLE, cwd=clone).stdout))[0] == PUBLISHED[0]
    here = tmp_path / "thunderdome"
    shutil.copytree(clone, here, ignore=shutil.ignore_patterns("results", "docs", ".git", "docker"))
    for name in ("thunderdome.yaml", "testdata/minimal.yaml", "testdata/full.yaml"):
        done = yb("validate", "-c", name, cwd=here)
        assert done.returncode == 0, done.stderr
    assert yb("bench", "list", cwd=here).returncode == 0
    spec = load_arena_file(here / "thunderdome.yaml").spec
    assert {task.install_cmd for task in spec.tasks} == {"npm install"}
    for task in spec.tasks:
        repository = here / task.repo
        repository.mkdir(parents=True)
        (repository / "TASK.md").write_text("Do it.\n")
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "v1")):
            git(repository, *arguments)
        for tag in ("v1", "v1-solution", "v1-validation"):
            git(repository, "tag", tag)
    for orchestrator in ("null", "claude-code", "aider", "gemini-cli"):
        plan = yb("bench", "run", "--dry-run", "--json", "--orchestrator", orchestrator, cwd=here)
        assert plan.returncode == 0, plan.stderr
        assert len(json.loads(plan.stdout)["tasks"]) == 19
    gone = yb("bench", "run", "--dry-run", "--orchestrator", "claude-squad", cwd=here)
    assert gone.returncode == 2
