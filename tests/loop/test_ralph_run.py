"""`ralph run` as a user calls it: exit codes, options, messages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loop_bench import RALPH, LoopBench

from systems import posix_only
from youbencha.workspace.listing import MAX_FILE_BYTES

pytestmark = posix_only("the agents are shell scripts")


def test_done(loops: LoopBench) -> None:
    loops.configure("echo hello; echo LOOP_COMPLETE")
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "--no-tui")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" in done.stdout
    assert "summary.md" in done.stdout


@pytest.mark.parametrize(
    ("script", "options", "code", "outcome"),
    [
        ("exit 1", ["--max-iterations", "9"], 1, "failed"),
        ("echo same", [], 1, "stale"),
        ("echo $N", ["--max-iterations", "2"], 2, "max iterations"),
        ("echo $N; sleep 50", ["--max-runtime", "0.3"], 2, "max runtime"),
        ("touch .ralph/restart-requested; echo $N", [], 3, "restart"),
        ("echo FINISHED", ["--completion-promise", "FINISHED"], 0, "completed"),
    ],
)
def test_exit_codes(loops: LoopBench, script: str, options: list[str], code: int, outcome: str) -> None:
    loops.configure(script, event_loop={"max_consecutive_failures": 2})
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "-q", *options)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith(f"{outcome}: ")


def test_without_a_configuration(loops: LoopBench) -> None:
    """The prompt is given, and the agent found on PATH by its usual name."""
    program = loops.root / "bin/amp"
    program.parent.mkdir()
    shutil.copy(loops.agent('echo "$PROMPT" > prompt; echo "$@" > words; echo LOOP_COMPLETE'), program)
    path = f"{program.parent}:/usr/bin:/bin"
    done = loops.ralph("run", "-p", "Make it so.", "--no-tui", "--", "--flag", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Amp is the first installed agent" in done.stdout
    assert "--flag" in (loops.tree / "words").read_text()
    assert "Make it so." in (loops.tree / "words").read_text()


def test_events_as_json(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE")
    recording = loops.root / "session.jsonl"
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "--json", "-v", "--record-session", str(recording))
    printed = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert (printed[0], printed[-1]) == ("loop_started", "loop_ended")
    assert "iteration_ended" in [json.loads(line)["type"] for line in recording.read_text().splitlines()]


def test_output_that_cannot_be_written_does_not_change_the_outcome(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE")
    command = [RALPH, "run", "-c", str(loops.root / "ralph.yml")]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=loops.tree, env=loops.env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    read, write = os.pipe()
    os.close(read)
    for each in (command, [RALPH, "tools", "task", "list"]):
        done = subprocess.run(each, cwd=loops.tree, env=loops.env, stdout=write, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    os.close(write)


def test_dry_run(loops: LoopBench) -> None:
    loops.configure("touch ran")
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "--dry-run")
    assert done.returncode == 0
    assert "LOOP_COMPLETE" in done.stdout
    assert not (loops.tree / ".ralph").exists()


def test_continue_uses_the_file_the_prompt_and_the_options_of_the_start(loops: LoopBench) -> None:
    loops.configure('echo "$PROMPT" > prompt; echo $N; [ $N = 3 ] && echo LOOP_COMPLETE; exit 0')
    text = (loops.root / "ralph.yml").read_text().replace("prompt: Do it.", "cooldown_delay_seconds: 0")
    (loops.root / "ralph.yml").write_text(text)
    loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "-p", "Do this.", "--no-tui", "--max-iterations", "2")
    (loops.tree / "prompt").unlink()
    (loops.tree / "PROMPT.md").write_text("Do something else.")
    limited = loops.ralph("run", "--continue", "--no-tui")
    assert (limited.returncode, loops.sessions) == (2, 2)
    assert "ralph run --continue --max-iterations N" in limited.stdout
    done = loops.ralph("run", "--continue", "--no-tui", "--max-iterations", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Do this." in (loops.tree / "prompt").read_text()
    assert loops.sessions == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["run", "--continue"], ("NO_LOOP", "Start one")),
        (["run", "-b", "claud", "-p", "x"], ("BACKEND_UNKNOWN", "claude")),
        (["run", "-b", "codex", "-p", "x"], ("BACKEND_NOT_INSTALLED", "Install")),
        (["run", "-p", "x"], ("BACKEND_NOT_INSTALLED", "ralph doctor")),
        (["run", "-b", "custom"], ("PROMPT_MISSING", "-p TEXT")),
        (["run", "-b", "custom", "-p", " "], ("PROMPT_EMPTY", "Describe the task")),
        (["run", "-P", "empty.md"], ("PROMPT_EMPTY", "empty.md is empty")),
        (["run", "-c", "missing.yml"], ("missing.yml", "")),
        (["run", "do this"], ("OPTION_INVALID", "-p")),
        (["wave"], ("No such command", "not supported yet")),
        (["run", "-H", "builtin:dbug"], ("PRESET_UNKNOWN", "debug")),
        (["run", "-H", "debug"], ("HATS_NOT_FOUND", "builtin:debug")),
        (["run", "-c", "builtin:debug"], ("CONFIG_NOT_A_FILE", "-H builtin:debug")),
        (["run", "-H", "https://example.org/hats.yml"], ("CONFIG_NOT_A_FILE", "Download")),
        (["run", "-c", "core.spec_dir=x"], ("core.spec_dir: unknown key", "specs_dir")),
        (["guide", "hello"], ("LOOP_NOT_RUNNING", "")),
        (["plan", "x"], ("BACKEND_NOT_INSTALLED", "ralph doctor")),
        (["run", "--worktree", "--continue"], ("OPTION_INVALID", "exclude each other")),
    ],
)
def test_bad_input(loops: LoopBench, options: list[str], expected: tuple[str, str]) -> None:
    (loops.tree / "empty.md").write_text("\n")
    before = sorted(loops.tree.iterdir())
    done = loops.ralph(*options, PATH="/usr/bin:/bin")
    assert done.returncode == 2
    for part in expected:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(loops.tree.iterdir()) == before, "nothing was begun"


def test_a_directory_that_is_no_repository(loops: LoopBench) -> None:
    loops.configure("echo LOOP_COMPLETE")
    shutil.rmtree(loops.tree / ".git")
    config = loops.root / "ralph.yml"
    done = loops.ralph("run", "-c", str(config), "--no-tui")
    assert done.returncode == 2
    assert "git init" in done.stderr
    assert "checkpoint_interval: 0" in done.stderr
    assert sorted(path.name for path in loops.tree.iterdir()) == ["README.md"], "nothing was begun"
    loops.configure("echo LOOP_COMPLETE", event_loop={"checkpoint_interval": 0})
    assert loops.ralph("run", "-c", str(config), "--no-tui").returncode == 0


def test_a_dirty_tree_goes_on(loops: LoopBench) -> None:
    loops.configure("echo changed > README.md; echo LOOP_COMPLETE")
    (loops.tree / "README.md").write_text("not committed\n")
    with (loops.tree / "large.bin").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "--no-tui")
    assert done.returncode == 0
    assert "1 file with uncommitted changes: checkpoint 0 has them" in done.stdout
    (loop,) = [path.name for path in (loops.tree / ".ralph/loops").iterdir()]
    assert loops.git("show", f"refs/youbencha/loops/{loop}/0:README.md") == "not committed\n"
    warned, began = done.stdout.index("large.bin"), done.stdout.index("iteration 1")
    assert warned < began, "what no checkpoint has is named before an agent can change it"


def test_a_damaged_state(loops: LoopBench) -> None:
    loops.configure("echo $N")
    loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "-q", "--max-iterations", "1")
    (state,) = (loops.tree / ".ralph/loops").glob("*/loop.json")
    state.write_text(state.read_text()[:100])
    done = loops.ralph("run", "--continue", "-c", str(loops.root / "ralph.yml"))
    assert done.returncode == 2
    assert "LOOP_STATE_UNUSABLE" in done.stderr
    assert len(state.read_text()) == 100


def test_one_loop_at_a_time(loops: LoopBench) -> None:
    loops.configure("touch begun; sleep 100")
    config = str(loops.root / "ralph.yml")
    first = loops.start("run", "-c", config, "--no-tui")
    while not (loops.tree / "begun").exists():
        assert first.poll() is None
    try:
        second = loops.ralph("run", "-c", config, "--no-tui")
        assert second.returncode == 2
        assert "--worktree" in second.stderr
    finally:
        first.terminate()
        first.communicate()


def test_a_worktree(loops: LoopBench) -> None:
    loops.configure("pwd; echo made > made.txt; echo LOOP_COMPLETE")
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "--no-tui", "--worktree")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (loops.tree / "made.txt").exists()
    (tree,) = Path(f"{loops.tree}-worktrees").iterdir()
    assert (tree / "made.txt").exists()
    assert str(tree) in done.stdout
    assert f"{tree}, on the branch ralph/{tree.name}" in done.stderr
    assert [path.name for path in (tree / ".ralph/loops").iterdir()] == [tree.name]


def test_the_outcome_does_not_control_the_terminal(loops: LoopBench) -> None:
    loops.configure("printf 'a\\302\\233b\\342\\200\\256c'; exit 3", event_loop={"max_consecutive_failures": 1})
    done = loops.ralph("run", "-c", str(loops.root / "ralph.yml"), "-q")
    assert done.returncode == 1
    assert "\x9b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "U+202E" in done.stdout
