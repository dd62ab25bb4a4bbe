"""Invalid input: a clear message, exit code 2, and nothing left that looks like a result."""

from __future__ import annotations

import json
import os

import pytest
from run_bench import Done, RunBench

from small_disk import run_with_small_disk
from yb import SCRIPT

GOOD = {"name": "x", "agent": {"type": "command", "config": {"command": "true", "prompt_by": "none"}}}


def assert_refused(done: Done, runs: RunBench, *said: str) -> None:
    assert done.code == 2, done.out + done.err
    assert done.out == ""
    for text in said:
        assert text in done.err
    assert "Traceback" not in done.err
    assert not list(runs.root.rglob("results.json"))
    assert not runs.runs()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("# nothing but a comment\n", "is empty"),
        ("[1, 2]", "must be a mapping"),
        ("name: x\nrepo: [1\n", "is not valid YAML"),
        ("a: &a {b: *a}\n", "a: unknown key"),
        ("name: !!python/object/apply:os.system ['true']\n", "tags cannot be used"),
        (b"name: \xff\xfe\n", "not UTF-8"),
    ],
)
async def test_files_that_cannot_be_read(runs: RunBench, content: str | bytes | None, said: str) -> None:
    file = runs.root / "case.yaml"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    assert_refused(await runs.yb("run", "-c", str(file)), runs, said, "case.yaml")


async def test_a_configuration_of_fifty_megabytes(runs: RunBench) -> None:
    file = runs.root / "case.yaml"
    file.write_text("name: x\n" + "# filler filler filler\n" * 2_300_000)
    assert_refused(await runs.yb("run", "-c", str(file)), runs, "larger than 1 MiB")


async def test_a_directory_without_test_cases(runs: RunBench) -> None:
    assert_refused(await runs.yb("run", "-c", str(runs.root)), runs, "There is no test case in")


@pytest.mark.parametrize(("timeout_ms", "limit_s"), [(1500, 30.0), (600_000, 1.5)])
async def test_an_agent_that_does_not_report_its_version(
    runs: RunBench, timeout_ms: int, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is the timeout of the test case, and at most `READY_TIMEOUT_S`."""
    monkeypatch.setattr("youbencha.adapters.base.READY_TIMEOUT_S", limit_s)
    cli = runs.root / "claude"
    cli.write_text("#!/bin/sh\nsleep 600 & wait\n")
    cli.chmod(0o755)
    agent = {
        "type": "claude-code",
        "config": {"prompt": "x", "executable": str(cli)},
        "env": {"ANTHROPIC_API_KEY": "k"},
    }
    file = runs.write_case(agent, timeout=timeout_ms)
    done = await runs.yb("run", "-c", str(file))
    assert_refused(done, runs, "AGENT_NOT_READY", "within 1.5 s")


async def test_all_problems_are_reported_with_their_positions(runs: RunBench) -> None:
    file = runs.root / "case.yaml"
    file.write_text(
        "name: 5\n"
        f"repo: {runs.repository}\n"
        "agent:\n"
        "  type: command\n"
        "  config:\n"
        "    comand: 'true'\n"
        "    prompt: Work.\n"
        "evaluators:\n"
        "  - name: git-dif\n"
        "  - name: git-diff\n"
        "    config: {assertions: {max_file_changed: 1}}\n"
        "  - file: nowhere.yaml\n"
        "timeot: 5\n"
    )
    done = await runs.yb("run", "-c", str(file))
    assert_refused(done, runs, "case.yaml:1:7", "case.yaml:6:5", "command", "case.yaml:9:11", "case.yaml:11:27")
    assert_refused(
        done, runs, "case.yaml:12:11", "case.yaml:13:1", "did you mean 'timeout'?", "Did you mean 'git-diff'?"
    )


async def test_an_unknown_agent(runs: RunBench) -> None:
    runs.write_case({"type": "claud-code"})
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "claud-code", "claude-code")


async def test_an_undefined_variable(runs: RunBench) -> None:
    runs.write_case(GOOD["agent"], branch="${WHICH}")  # type: ignore[arg-type]
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "${WHICH}", "--var WHICH=")


async def test_a_missing_environment_variable(runs: RunBench) -> None:
    runs.write_case(runs.program("true", env={"KEY": "${NO_SUCH_KEY}"}))
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "NO_SUCH_KEY", "agent.env.KEY")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"repo": "http://127.0.0.1:9/nothing.git"}, "REPO_UNREACHABLE"),
        ({"repo": "no/such/directory"}, "REPO_NOT_FOUND"),
        ({"repo": "ext::sh -c 'touch pwned'"}, "REPO_"),
        ({"repo": "--upload-pack=touch pwned"}, "REPO_"),
        ({"branch": "mian"}, "REPO_BRANCH_UNKNOWN"),
        ({"commit": "0123456789abcdef0123456789abcdef01234567"}, "REPO_COMMIT_UNKNOWN"),
        ({"expected": "no-such-branch"}, "REPO_BRANCH_UNKNOWN"),
    ],
)
async def test_missing_repositories(runs: RunBench, more: dict[str, str], code: str) -> None:
    runs.write_case(runs.program("true"), **more)
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, code)
    assert not list(runs.root.rglob("pwned"))


async def test_an_empty_repository(runs: RunBench) -> None:
    empty = runs.root / "empty"
    empty.mkdir()
    runs.git("init", "-q", cwd=empty)
    runs.write_case(runs.program("true"), repo=str(empty))
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "REPO_EMPTY")


async def test_a_missing_program(runs: RunBench) -> None:
    runs.write_case({"type": "command", "config": {"command": "no-such-agent-here", "prompt": "Work."}})
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "no-such-agent-here")


async def test_a_workspace_that_is_a_file(runs: RunBench) -> None:
    (runs.root / "taken").write_text("mine")
    runs.write_case(runs.program("true"), workspace_dir="taken")
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "WORKSPACE_NOT_WRITABLE", "taken")
    assert (runs.root / "taken").read_text() == "mine"


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
async def test_an_unwritable_workspace(runs: RunBench) -> None:
    locked = runs.root / "locked"
    locked.mkdir(mode=0o500)
    runs.write_case(runs.program("true"), workspace_dir="locked")
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "WORKSPACE_NOT_WRITABLE")


@pytest.mark.parametrize(("size", "code"), [("16k", 2), ("6m", 1)])
def test_a_full_disk(runs: RunBench, size: str, code: int) -> None:
    """16k: not even the checkout fits. 6m: it does, the agent fills the rest, and there is room for the results."""
    disk = runs.root / "disk"
    disk.mkdir()
    runs.commit({"big.txt": "some words that do not repeat so much\n" * 1000})
    runs.write_case(runs.program("head -c 10000000 /dev/urandom > filler; true"), workspace_dir=str(disk))
    look = f"find '{disk}' -name results.json -exec cat {{}} +"
    command = f"'{SCRIPT}' run -c '{runs.case_file}'; code=$?; {look}; exit $code"
    env = {**runs.env, "XDG_CACHE_HOME": str(disk / "cache")}
    done = run_with_small_disk(disk, size, command, env=env, cwd=runs.root)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("space" in done.stderr, '"name": "infra_error"' in done.stdout) == (code == 2, code == 1)
    assert "Traceback" not in done.stderr


async def test_a_key_that_is_missing(runs: RunBench) -> None:
    runs.case_file.write_text(json.dumps({**GOOD, "repo": str(runs.repository)}))
    assert_refused(await runs.yb("run", "-c", str(runs.case_file)), runs, "evaluators: is required")


async def test_only_the_first_of_two_problems_is_reported(runs: RunBench) -> None:
    """What is checked meanwhile says nothing of its own accord."""
    missing = {"type": "command", "config": {"command": "no-such-agent-here", "prompt": "Work."}}
    runs.write_case(missing, branch="mian")
    done = await runs.yb("run", "-c", str(runs.case_file))
    assert_refused(done, runs, "REPO_BRANCH_UNKNOWN")
    assert "never retrieved" not in done.err
