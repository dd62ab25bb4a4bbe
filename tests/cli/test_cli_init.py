"""`yb init`: a first test case that our own loader accepts."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from agent_clis import NEWEST
from claude_bench import ClaudeBench, bash, says, script, versions
from systems import ON_WINDOWS
from yb import yb
from youbencha.evaluators.judge import judge_definition
from youbencha.spec import load_yaml_model
from youbencha.spec.loader import load_test_case
from youbencha.spec.testcase import TestCase
from youbencha.trial.checks import check_parts

AGENT_FILES = [Path(".github/agents/agentic-judge.md"), Path(".claude/agents/agentic-judge.md")]
FILES = [Path("testcase.yaml"), *AGENT_FILES]


def git(directory: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, *arguments], cwd=directory, check=True, capture_output=True)


def repository(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "--quiet")
    (directory / "README.md").write_text("# A project\n")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "-m", "first")
    return directory


def written(directory: Path) -> TestCase:
    return load_yaml_model(directory / "testcase.yaml", TestCase, code="X", what="The test case")


def everything(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_it_writes_a_test_case_and_both_agent_files(tmp_path: Path) -> None:
    done = yb("init", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(everything(tmp_path)) == {str(path) for path in FILES}
    for path in FILES:
        assert f"created      {path.as_posix()}\n" in done.stdout
    assert "yb run -c testcase.yaml" in done.stdout


def test_the_test_case_passes_our_own_loader_with_every_check(tmp_path: Path) -> None:
    assert yb("init", cwd=tmp_path).returncode == 0
    loaded = load_test_case(tmp_path / "testcase.yaml", check=check_parts)
    assert loaded.case.agent.type == "claude-code"
    assert [evaluator.name for evaluator in loaded.evaluators] == ["git-diff", "agentic-judge"]
    assert loaded.unknown_variables == ()


def test_commented_out_options_are_valid(tmp_path: Path) -> None:
    """Removing the `#` must not lead to an error."""
    assert yb("init", cwd=tmp_path).returncode == 0
    path = tmp_path / "testcase.yaml"
    lines = path.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("name:"))
    options = ("# branch:", "# commit:", "# expected", "# pre_execution:", "# post_evaluation:", "#   ")
    inner = ("  # model:", "  # version:", "  # env:", "  #   IS_SANDBOX", "  # - name:", "  #   config:", "  #     ")
    taken = [line.replace("# ", "", 1) if line.startswith((*options, *inner)) else line for line in lines[start:]]
    path.write_text("\n".join(taken) + "\n")
    loaded = load_test_case(path, check=check_parts)
    names = [evaluator.name for evaluator in loaded.evaluators]
    assert names == ["git-diff", "agentic-judge", "command", "expected-diff"]
    case = loaded.case
    assert (case.branch, case.expected, len(case.pre_execution), len(case.post_evaluation)) == (
        "main", "readme-done", 1, 1,
    )  # fmt: skip
    assert case.agent.env == {"IS_SANDBOX": "1"}
    assert case.agent.version == "2.1.325"


def test_in_a_repository_it_is_used(tmp_path: Path) -> None:
    top = repository(tmp_path)
    assert yb("init", cwd=top).returncode == 0
    assert written(top).repo == "."


def test_in_a_subdirectory_the_path_leads_to_the_top(tmp_path: Path) -> None:
    below = repository(tmp_path) / "bench" / "cases"
    below.mkdir(parents=True)
    assert yb("init", cwd=below).returncode == 0
    assert written(below).repo == "../.."


@pytest.mark.parametrize("kind", ["no repository", "no commit"])
def test_without_a_commit_there_is_a_placeholder(tmp_path: Path, kind: str) -> None:
    if kind == "no commit":
        git(tmp_path, "init", "--quiet")
    assert yb("init", cwd=tmp_path).returncode == 0
    assert written(tmp_path).repo == "https://github.com/octocat/Hello-World.git"


def test_an_existing_test_case_is_not_touched_and_nothing_else_is_written(tmp_path: Path) -> None:
    (tmp_path / "testcase.yaml").write_text("mine\n")
    done = yb("init", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error [TESTCASE_EXISTS]" in done.stderr
    assert "--force" in done.stderr
    assert everything(tmp_path) == {"testcase.yaml": b"mine\n"}


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "testcase.yaml").symlink_to(tmp_path / "nowhere")
    assert yb("init", cwd=tmp_path).returncode == 1


def test_with_force_everything_is_overwritten(tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine\n")
    done = yb("init", "--force", cwd=tmp_path)
    assert done.returncode == 0
    for path in FILES:
        assert f"overwritten  {path.as_posix()}\n" in done.stdout
        assert (tmp_path / path).read_text() != "mine\n"
    assert set(everything(tmp_path)) == {str(path) for path in FILES}  # nothing temporary is left


def test_without_force_existing_agent_files_are_kept(tmp_path: Path) -> None:
    mine = tmp_path / AGENT_FILES[1]
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    done = yb("init", cwd=tmp_path)
    assert done.returncode == 0
    assert "skipped      .claude/agents/agentic-judge.md  (already exists; use --force to overwrite)" in done.stdout
    assert mine.read_text() == "mine\n"
    assert (tmp_path / AGENT_FILES[0]).read_text() == judge_definition()


def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    done = yb("init", "--dir", "new/place", cwd=tmp_path)
    assert done.returncode == 0
    assert written(tmp_path / "new" / "place").name == "readme-getting-started"


def test_unwritable_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".claude").write_text("a file where a directory should be\n")
    done = yb("init", cwd=tmp_path)
    assert done.returncode == 1
    assert "error        .claude/agents/agentic-judge.md" in done.stderr
    assert (tmp_path / "testcase.yaml").exists()


SCORES = {"tells_how_to_install": {"score": 1, "reason": "It does."}, "is_true": {"score": 0.9, "reason": "It is."}}


@versions(NEWEST)
@pytest.mark.skipif(ON_WINDOWS, reason="the CLI is found by its name on PATH")
async def test_the_test_case_runs_unchanged(claude: ClaudeBench, tmp_path: Path) -> None:
    """With the real Claude Code as agent and as judge; what the model says is ours."""
    top = repository(tmp_path / "project")
    assert (await asyncio.to_thread(yb, "init", cwd=top)).returncode == 0
    judge = {"when": {"prompt_contains": "You judge work"}, "turns": [says(json.dumps({"assertions": SCORES}))]}
    work = bash("printf '\\n## Getting started\\n\\nRun make.\\n' >> README.md")
    claude.put_on_path()
    async with claude.model(script(work, says("Done."), conversations=[judge])) as model:
        env = {**claude.harness_env, **claude.env(model), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = await asyncio.to_thread(lambda: yb("run", "-c", "testcase.yaml", "--json", cwd=top, **env))
    assert done.returncode == 0, done.stderr
    bundle = json.loads(done.stdout)
    assert bundle["outcome"]["name"] == "solved"
    assert [each["status"] for each in bundle["evaluators"]] == ["passed", "passed"]
    assert bundle["evaluators"][1]["metrics"]["is_true"] == 0.9
    assert (top / "README.md").read_text() == "# A project\n"  # the agent worked in a copy
