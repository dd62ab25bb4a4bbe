"""`thunderdome run` as a process: Ctrl-C once and twice, resume and reuse, bad input, a full disk, exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from arena_process import ArenaProject
from engine_bench import PATIENCE_S, events, metas

from small_disk import MIB, small_disk
from youbencha.store.arena_run import find_arena_run


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def waiting(root: Path) -> str:
    """An agent that says that it has begun, and waits until it may go on."""
    return f"touch '{root}/begun'; until test -e '{root}/go'; do sleep 0.05; done"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> ArenaProject:
    return ArenaProject(tmp_path_factory.mktemp("arena"))


def test_the_first_interrupt_drains(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=2, script=waiting(tmp_path))
    process = project.start("--parallel", "1")
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = ""
    while "no further trials are started" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    assert "1 running trial will finish, Ctrl-C aborts" in said
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert list(metas(project.latest)) == ["agent-1/task-1/trial-1"]
    assert "1 of 2 trials finished" in out
    assert f"--resume {project.latest.name}" in err
    assert project.run_here("--resume").returncode == 0
    assert len(metas(project.latest)) == 2


def test_the_second_interrupt_aborts_and_saves_what_there_is(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1, script="echo part > part.txt;" + waiting(tmp_path))
    process = project.start()
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)  # two signals at once are one
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "--resume" in err
    project.wait_until_no_process_is_left()
    run = project.latest
    assert metas(run) == {}
    assert [line["attempt"]["outcome"] for line in events(run, "attempt_finished")] == ["interrupted"]
    patch = run.path / "trials/agent-1/task-1/trial-1/attempts/1/artifacts/git-diff.patch"
    assert "+part" in patch.read_text()


def test_sigterm_aborts_at_once(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1, script=waiting(tmp_path))
    process = project.start()
    wait_for(tmp_path / "begun", process)
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    project.wait_until_no_process_is_left()


def test_two_cannot_resume_the_same_run(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1, script=waiting(tmp_path))
    process = project.start()
    wait_for(tmp_path / "begun", process)
    other = project.run_here("--resume")
    assert other.returncode == 2
    assert f"(process {process.pid}, since " in other.stderr
    (tmp_path / "go").touch()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["calibrate", "rescore"])
def test_what_a_killed_validation_left_is_removed_by_the_next(tmp_path: Path, command: str) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1)
    assert project.run_here().returncode == 0
    project.write(agents=1, tasks=1, test_cmd=f"{waiting(tmp_path)}; sh test.sh")
    process = project.start(command=command)
    wait_for(tmp_path / "begun", process)
    assert "IN_USE" in project.run_here_as(command).stderr
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    project.wait_until_no_process_is_left()
    assert project.private_directories()
    (tmp_path / "go").touch()
    assert project.run_here_as(command).returncode == 0
    assert project.private_directories() == []


def test_a_run_without_a_budget_says_so(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1, gateway="builtin")
    project.more_env = {"ANTHROPIC_API_KEY": "a-key-that-is-not-used"}
    done = project.run_here("--budget", "0")
    assert done.returncode == 1, done
    assert "0 of 1 trial finished" in done.stdout
    assert "the budget of the run is spent" in done.stderr
    assert "error" not in done.stderr


def test_the_result_as_json_and_a_line_for_each_trial(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=2)
    done = project.run("--json")  # as a process: nothing else is on its standard output
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["trials"], document["finished"], document["complete"]) == (2, 2, True)
    assert document["directory"] == str(project.latest.path)
    first = document["results"][0]
    assert (first["orchestrator"], first["task"], first["number"]) == ("agent-1", "task-1", 1)
    assert (first["outcome"], first["composite_score"]) == ("solved", 1.0)
    assert sum("solved, score 1.000" in line for line in done.stderr.splitlines()) == 2


def test_a_dry_run_writes_nothing(untouched: ArenaProject) -> None:
    done = untouched.run_here("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "2 orchestrators x 2 tasks x 1" in done.stdout
    assert not untouched.results.exists()


def test_a_changed_arena_is_not_resumed_but_reused(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=2, tasks=1)
    assert project.run_here().returncode == 0
    before = project.latest
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    arena["orchestrators"][1]["config"]["command"] += " again"
    (tmp_path / "thunderdome.yaml").write_text(json.dumps(arena))
    resumed = project.run_here("--resume")
    assert resumed.returncode == 2
    assert "agent-2 on task-1: the agent" in resumed.stderr
    assert "agent-1" not in resumed.stderr
    assert "--reuse" in resumed.stderr
    reused = project.run_here("--reuse", before.name)
    assert reused.returncode == 0, reused.stderr
    now = project.latest
    assert now.name != before.name
    found = metas(now)
    assert found["agent-1/task-1/trial-1"].reused_from == before.name
    assert found["agent-2/task-1/trial-1"].reused_from is None
    assert [line["orchestrator"] for line in events(now, "attempt_started")] == ["agent-2"]
    trial = now.path / "trials/agent-1/task-1/trial-1"
    assert "+agent 1" in (trial / "diff.patch").read_text()
    assert (trial / "attempts/1/artifacts/results.json").is_file()


def test_with_another_validation_the_results_are_scored_again_without_an_agent(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=2, tasks=1)
    assert project.run_here().returncode == 0
    before = project.latest
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    arena["tasks"][0]["test_cmd"] = "sh test.sh | sed 's/^ok/not ok/'"
    (tmp_path / "thunderdome.yaml").write_text(json.dumps(arena))
    resumed = project.run_here("--resume")
    assert "agent-1 on task-1: its validation" in resumed.stderr
    assert f"--reuse {before.name}" in resumed.stderr
    reused = project.run_here("--reuse", before.name, "--parallel", "2")
    assert reused.returncode == 0, reused.stderr
    now = project.latest
    assert list(now.path.glob(".reuse-*")) == []
    assert [(meta.reused_from, meta.outcome, meta.composite_score) for meta in metas(now).values()] == [
        (before.name, "unsolved", 0.0)
    ] * 2
    assert {meta.reason for meta in metas(now).values()} == {"validation: 0 of 1 test passed (not passed: made)"}
    assert events(now, "attempt_started") == []
    assert {meta.outcome for meta in metas(before).values()} == {"solved"}


def test_an_unsolved_trial_says_which_tests_failed(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=1, tasks=1, script="exit 0")
    done = project.run_here()
    assert "unsolved, score 0.000" in done.stderr
    assert "validation: 0 of 1 test passed (not passed: made)" in done.stderr
    (meta,) = metas(project.latest).values()
    assert meta.reason == "validation: 0 of 1 test passed (not passed: made)"


def test_without_an_engine_nothing_begins(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, sandbox={"type": "docker", "image": "example/image"}, gateway="none")
    project.more_env["DOCKER_HOST"] = f"unix://{tmp_path}/nothing.sock"
    done = project.run_here()
    assert (done.returncode, "[SANDBOX_NO_ENGINE]" in done.stderr) == (2, True)
    assert not project.results.exists()


def test_the_command_that_continues_names_the_files(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=2, tasks=2)
    arena = json.loads((tmp_path / "thunderdome.yaml").read_text())
    arena["orchestrators"][0] = {"name": "codex"}
    (tmp_path / "my arena.yaml").write_text(json.dumps({**arena, "gateway": "none"}))
    done = project.run_here("-c", "my arena.yaml", "--results", "here")
    assert done.returncode == 1
    (run,) = (tmp_path / "here" / "runs").iterdir()
    assert f"continue with: thunderdome run --config 'my arena.yaml' --results here --resume {run.name}" in done.stderr
    [reason] = [line for line in done.stderr.splitlines() if line.startswith("  codex")]
    assert reason.startswith("  codex on task-1, codex on task-2: ")
    assert ". Install it with" in reason


BAD_INPUT = {
    "unknown orchestrator": (("--orchestrator", "agent-9"), "NOTHING_SELECTED", "agent-9"),
    "unknown task": (("--task", "task-9"), "NOTHING_SELECTED", "task-9"),
    "no run to resume": (("--resume",), "RUN_NOT_FOUND", "thunderdome run"),
    "no such run": (("--resume", "2001"), "RUN_NOT_FOUND", "2001"),
    "no run to reuse": (("--reuse", "2001"), "RUN_NOT_FOUND", "2001"),
    "a run without --resume": (("2001",), "OPTION_INVALID", "--resume 2001"),
    "dry run of a resumed run": (("--dry-run", "--resume"), "OPTION_INVALID", "--dry-run"),
    "resume and select": (("--resume", "--task", "task-1"), "OPTION_INVALID", "--reuse"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_error(untouched: ArenaProject, case: str) -> None:
    arguments, code, named = BAD_INPUT[case]
    done = untouched.run_here(*arguments)
    assert done.returncode == 2
    assert f"[{code}]" in done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not untouched.results.exists()


def test_results_that_are_not_ours_are_not_touched(untouched: ArenaProject, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    done = untouched.run_here("--results", str(tmp_path))
    assert (done.returncode, "[RESULTS_NOT_OURS]" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@contextmanager
def kept_full(ballast: Path) -> Iterator[None]:
    """Another program takes all space of a disk, also what is freed in the meantime."""
    stop = threading.Event()

    def take() -> None:
        while not stop.is_set():
            with ballast.open("ab", buffering=0) as file, suppress(OSError):
                while not stop.is_set():
                    file.write(bytes(4096))
            time.sleep(0.001)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        ballast.unlink()


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size=48 * MIB) as disk:
        results, count = disk / "results", tmp_path / "count"
        script = f"echo x >> '{count}'; test $(wc -l < '{count}') -ne 2 || {{ {waiting(tmp_path)}; }}"
        project = ArenaProject(tmp_path, agents=1, tasks=1, trials=4, script=script)
        process = project.start("--parallel", "1", "--results", str(results))
        wait_for(tmp_path / "begun", process)
        with kept_full(disk / "ballast"):
            (tmp_path / "go").touch()
            _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, err
        assert "No space left" in err
        run = find_arena_run(results)
        assert f"--resume {run.name}" in err
        assert len(count.read_text().splitlines()) < 4
        finished = {place: meta.completed_at for place, meta in metas(run).items()}
        assert "agent-1/task-1/trial-1" in finished
        resumed = project.run_here("--resume", "--results", str(results), "--parallel", "1")
        assert resumed.returncode == 0, resumed.stderr
        assert len(metas(run)) == 4
        assert {place: metas(run)[place].completed_at for place in finished} == finished


def test_a_full_disk_while_results_are_reused(tmp_path: Path) -> None:
    project = ArenaProject(tmp_path, agents=2, tasks=1, trials=1, script="head -c 3000000 /dev/urandom > random.bin")
    assert project.run_here().returncode == 0
    with small_disk(tmp_path / "disk", size=2 * MIB) as disk:
        pool = str(tmp_path / "results")
        done = project.run_here("--reuse", pool, "--results", str(disk / "results"), "--parallel", "2")
    assert done.returncode == 2
    assert "[RESULTS_NOT_WRITABLE]" in done.stderr, done.stderr


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\necho made > made.txt; exit\n#{'.' * 1_100_000}\n")  # its digest would be cached
    program.chmod(0o755)
    config = {"command": [str(program)], "prompt_by": "none"}
    project = ArenaProject(
        tmp_path, orchestrators=[{"name": name, "agent": "command", "config": config} for name in ("one", "two")]
    )
    (tmp_path / "home" / "cache").write_text("")
    done = project.run_here()
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be written") == 1, done.stderr
    assert done.stderr.count("solved") == 4, done.stderr
