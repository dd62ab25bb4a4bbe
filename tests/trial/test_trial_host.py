"""What a host does once for all its trials."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from trial_bench import TrialBench

import youbencha
from git_repositories import git
from youbencha.errors import YouBenchaError
from youbencha.trial import context as trial_context
from youbencha.trial.run import run_trial
from youbencha.workspace import mirror

WRITE = "open('new.txt', 'w').write('x')"


def count_calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[tuple[Any, ...]]:
    """The arguments of every call of a function, which works as before."""
    calls: list[tuple[Any, ...]] = []
    original = getattr(module, name)

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return original(*args, **more)

    monkeypatch.setattr(module, name, counted)
    return calls


async def test_a_trial_uses_the_environment_of_its_host(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of this process: variables, and secrets to mask."""
    monkeypatch.setenv("LANG", "of-the-process")
    (trials.home / ".youbencharc").unlink()
    host = trials.host({"LANG": "of-the-host", "SOME_PASSWORD": "hunter2hunter2"})
    case = trials.case("import os; print(os.environ['LANG'], 'hunter2hunter2')")
    result = await run_trial(trials.plan(host, case), host, directory=trials.runs / "0")
    output = "".join(file.read_text() for file in (result.directory.artifacts / "command-logs").iterdir())
    assert "of-the-host" in output
    assert "hunter2" not in output


async def test_a_remote_is_asked_for_its_references_once(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its branch moves, and the second trial still starts from the same commit. Another host sees the new one."""
    repository = trials.repository()
    as_remote(monkeypatch, repository)
    asked = count_calls(monkeypatch, mirror, "ask_remote")
    host = trials.host()
    case = trials.case(WRITE, repo="https://host.invalid/repository", expected="main")
    both = await asyncio.gather(
        *(run_trial(trials.plan(host, case), host, directory=trials.runs / f"{number}") for number in range(2))
    )
    (repository / "README.md").write_text("moved\n")
    git(repository, "commit", "-qam", "moved")
    third = await run_trial(trials.plan(host, case), host, directory=trials.runs / "2")
    assert len({result.bundle.test_case.commit for result in (*both, third)}) == 1
    assert len([call for call in asked if "ls-remote" in call]) == 1
    other = await run_trial(trials.plan(trials.host(), case), trials.host(), directory=trials.runs / "3")
    assert other.bundle.test_case.commit != third.bundle.test_case.commit


def as_remote(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    """Let git find an https address on this machine."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{repository}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://host.invalid/repository")


async def test_a_repository_that_could_not_be_opened_is_tried_again(trials: TrialBench) -> None:
    host = trials.host()
    plan = trials.plan(host, trials.case(WRITE, repo=trials.root / "later"))
    with pytest.raises(YouBenchaError) as caught:
        await run_trial(plan, host, directory=trials.runs / "1")
    assert caught.value.code == "REPO_NOT_FOUND"
    trials.repository("later")
    result = await run_trial(plan, host, directory=trials.runs / "2")
    assert result.bundle.summary.overall_status == "passed"


async def test_leftovers_of_dead_runs_are_searched_once_in_each_workspace(
    trials: TrialBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, trial_context, "remove_all_orphaned")
    host = trials.host()
    plan = trials.plan(host, trials.case(WRITE), workspace_dir=trials.runs)
    for _ in range(2):
        await run_trial(plan, host)
    assert [root for root, _ in calls] == [trials.runs]
    await run_trial(plan, host, directory=trials.root / "elsewhere" / "run")
    assert [root for root, _ in calls] == [trials.runs, trials.root / "elsewhere"]
    without = trials.host(cleanup=False)
    await run_trial(plan, without)
    assert len(calls) == 2


async def test_dead_containers_are_removed_once(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.Event] = []

    async def remove() -> None:
        started.append(asyncio.Event())
        await started[-1].wait()

    monkeypatch.setattr("youbencha.trial.context.reap_containers", remove)
    host = trials.host()
    async with host.removing_orphaned_containers(), host.removing_orphaned_containers():
        await asyncio.sleep(0)
        assert len(started) == 1
    async with host.removing_orphaned_containers():  # the first time it was cut off
        await asyncio.sleep(0)
        assert len(started) == 2
        started[-1].set()
        await asyncio.sleep(0)
    async with host.removing_orphaned_containers():
        await asyncio.sleep(0)
        assert len(started) == 2


async def test_a_run_directory_that_exists_is_not_used(trials: TrialBench) -> None:
    host = trials.host()
    taken = trials.runs / "taken"
    taken.mkdir(parents=True)
    (taken / "precious").write_text("x")
    with pytest.raises(YouBenchaError) as caught:
        await run_trial(trials.plan(host, trials.case(WRITE)), host, directory=taken)
    assert caught.value.code == "WORKSPACE_NOT_WRITABLE"
    assert os.listdir(taken) == ["precious"]
    trials.assert_nothing_is_left()


async def test_hooks_and_evaluators_get_the_hosts_environment(
    trials: TrialBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of the process's own; its secrets are in nothing that is written."""
    monkeypatch.setenv("OF_THE_PROCESS", "process")
    secret = "a-secret-of-the-host"
    show = "import os; print(os.environ.get('OF_THE_HOST'), os.environ.get('OF_THE_PROCESS'), os.environ['A_TOKEN'])"
    hook = {"name": "script", "config": {"command": sys.executable, "args": ["-c", show]}}
    command = {"name": "command", "config": {"command": [sys.executable, "-c", show]}}
    command["config"]["env"] = {"OF_THE_HOST": "${OF_THE_HOST}", "A_TOKEN": "${A_TOKEN}"}  # type: ignore[index]
    case = trials.case(WRITE, pre_execution=[hook], post_evaluation=[hook], evaluators=[command])
    host = trials.host({"OF_THE_HOST": "host", "A_TOKEN": secret})
    result = await run_trial(trials.plan(host, case), host, directory=trials.runs / "one")
    assert result.bundle.summary.overall_status == "passed", result.bundle
    artifacts = result.directory.artifacts
    logs = [*artifacts.glob("hooks/*.log"), *artifacts.glob("evaluators/command/*.log")]
    assert [log.read_text().strip() for log in logs] == ["host None [REDACTED]"] * 3
    written = [path.read_bytes() for path in artifacts.rglob("*") if path.is_file()]
    assert not any(secret.encode() in content for content in written)


def test_only_the_host_reads_the_environment() -> None:
    root = Path(youbencha.__file__).parent
    files = [path for package in ("trial", "evaluators", "hooks") for path in (root / package).rglob("*.py")]
    reading = {path.relative_to(root).as_posix() for path in files if reads_environment(path)}
    assert reading == {"evaluators/validation/runner_hooks/sitecustomize.py"}, "which runs in a task's own Python"


def reads_environment(path: Path) -> bool:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return any(isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") for node in nodes)
