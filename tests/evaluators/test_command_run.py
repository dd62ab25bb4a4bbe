"""command: real programs on a real tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from evaluating import OverRun

from systems import PLAIN_PYTHON, posix_only
from youbencha.errors import YouBenchaError
from youbencha.workspace import trees

PYTHON = PLAIN_PYTHON
pytestmark = posix_only("the programs here are small shell and Python scripts")


def python(code: str, **more: Any) -> dict[str, Any]:
    return {"command": [PYTHON, "-c", code], **more}


async def test_exit_code_zero_passes(over: OverRun) -> None:
    (over.tree / "a.txt").write_text("hello")
    result = await over.evaluate("command", python("print(open('a.txt').read())", name="Reading"))
    assert result.status == "passed"
    assert result.message.startswith("Reading took ")
    metrics = result.metrics
    assert (metrics["exit_code"], metrics["signal"], metrics["timed_out"]) == (0, None, False)
    assert metrics["output_tail"] == "hello\n"
    assert metrics["duration_ms"] > 0
    assert [artifact.path for artifact in result.artifacts] == ["evaluators/command/output.log"]
    assert (over.artifacts / result.artifacts[0].path).read_text() == "hello\n"


async def test_another_exit_code_fails(over: OverRun) -> None:
    result = await over.evaluate("command-x", python("import sys; print('bad', file=sys.stderr); sys.exit(3)"))
    assert result.status == "failed"
    assert "its exit code is 3, not 0" in result.message
    assert [(a.name, a.passed, a.expected, a.actual) for a in result.assertions] == [("exit_code", False, 0, 3)]
    assert result.metrics["output_tail"] == "bad\n"


@pytest.mark.parametrize(("expected", "status"), [(3, "passed"), ([0, 3], "passed"), ([0, 1], "failed")])
async def test_an_expected_exit_code(over: OverRun, expected: Any, status: str) -> None:
    result = await over.evaluate("command", python("raise SystemExit(3)", expect_exit_code=expected))
    assert result.status == status


async def test_a_shell_reports_a_missing_program_by_its_exit_code(over: OverRun) -> None:
    result = await over.evaluate("command", {"command": "no-such-program", "shell": True})
    assert (result.status, result.metrics["exit_code"]) == ("failed", 127)


async def test_a_signal_is_reported(over: OverRun) -> None:
    result = await over.evaluate("command", python("import os; os.kill(os.getpid(), 11)"))
    assert (result.status, result.metrics["exit_code"], result.metrics["signal"]) == ("failed", None, "SIGSEGV")
    assert "SIGSEGV" in result.message


async def test_a_timeout_ends_the_whole_tree(over: OverRun) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'], start_new_session=True)\n"
        "print(child.pid, flush=True); time.sleep(100)"
    )
    for timeout in (1_500, 30_500):  # the second only where the first came before the child was there
        result = await over.evaluate("command", python(code, timeout=timeout))
        if result.metrics["output_tail"]:
            break
    assert (result.status, result.metrics["timed_out"]) == ("failed", True)
    assert f"it timed out after {timeout / 1000} s" in result.message
    assert not psutil.pid_exists(int(result.metrics["output_tail"]))


async def test_the_command_runs_in_a_copy(over: OverRun) -> None:
    (over.tree / "a.txt").write_text("before")
    code = "open('a.txt', 'w').write('after'); open('new', 'w').write('x')"
    result = await over.evaluate("command", python(code))
    assert result.status == "passed"
    assert [path.name for path in over.tree.iterdir()] == ["a.txt"]
    assert (over.tree / "a.txt").read_text() == "before"


@pytest.mark.parametrize(("by_eval", "written"), [(False, True), (True, False)])
async def test_in_place_only_in_a_run_directory(over: OverRun, by_eval: bool, written: bool) -> None:
    await over.evaluate("command", python("open('new', 'w')", copy=False), by_eval=by_eval)
    assert (over.tree / "new").exists() is written


async def test_without_a_shell_nothing_is_expanded(over: OverRun) -> None:
    result = await over.evaluate("command", {"command": "echo '$HOME' *", "args": ["a b"]})
    assert result.metrics["output_tail"] == "$HOME * a b\n"


async def test_with_a_shell(over: OverRun) -> None:
    config = {"command": 'echo one && echo "$1" | tr a-z A-Z', "args": ["two words"], "shell": True}
    assert (await over.evaluate("command", config)).metrics["output_tail"] == "one\nTWO WORDS\n"


async def test_a_program_in_the_tree(over: OverRun) -> None:
    script = over.tree / "sub" / "run.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\npwd; exit 7\n")
    script.chmod(0o755)
    result = await over.evaluate("command", {"command": "./run.sh", "working_dir": "sub"})
    assert result.metrics["exit_code"] == 7
    assert result.metrics["output_tail"] == "sub\n"  # not the path of the copy, which is removed


@pytest.mark.parametrize("command", ["no-such-program-anywhere --x", "/no/such/program"])
async def test_a_missing_program_is_an_error_and_not_a_failure(over: OverRun, command: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        await over.evaluate("command", {"command": command})
    assert caught.value.code == "COMMAND_NOT_FOUND"


async def test_a_removed_program_is_the_agents_failure(over: OverRun, tmp_path: Path) -> None:
    """Else an agent could escape a verdict by deleting the tests."""

    async def message(**config: Any) -> str:
        result = await over.evaluate("command", config)
        assert result.status == "failed"
        return result.message

    assert "./run.sh does not exist in the tree" in await message(command="./run.sh")
    assert "the directory tests does not exist in the tree" in await message(command="true", working_dir="tests")
    (over.tree / "away").symlink_to(tmp_path)
    assert "away leads out of the tree" in await message(command="true", working_dir="away")
    (over.tree / "run.sh").write_text("not a program")
    assert "./run.sh is not executable" in await message(command="./run.sh")
    (over.tree / "run.sh").chmod(0o755)
    (over.tree / "run.sh").write_bytes(b"\x7fELF nonsense")
    assert "Cannot start" in await message(command="./run.sh")


async def test_a_missing_tree(over: OverRun) -> None:
    over.tree.rmdir()
    assert (await over.evaluate("command", {"command": "test -e src"})).status == "failed"


async def test_the_environment(over: OverRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    monkeypatch.setenv("TEST_REGION", "north")
    code = "import os; print(os.environ.get('MY_API_KEY'), os.environ['R'], os.environ['YOUBENCHA_CONFIG_DIR'])"
    result = await over.evaluate("command", python(code, env={"R": "${TEST_REGION}-1"}))
    assert result.metrics["output_tail"] == f"None north-1 {over.artifacts.parent}\n"


async def test_a_given_secret_is_never_written(over: OverRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    code = "import os, sys; print('key', os.environ['K']); sys.exit(1)"
    names = ("k", "version", "status", "code", "type")
    metrics = {name: {"pattern": "key (.*)", "type": "string"} for name in names}
    result = await over.evaluate("command", python(code, env={"K": "${MY_API_KEY}"}, metrics=metrics))
    assert [result.metrics[name] for name in names] == ["[REDACTED]"] * len(names)
    written = result.model_dump_json() + (over.artifacts / result.artifacts[0].path).read_text()
    assert "very-secret-value" not in written


async def test_an_undefined_variable_is_an_error(over: OverRun) -> None:
    with pytest.raises(YouBenchaError, match="NOT_SET_ANYWHERE"):
        await over.evaluate("command", {"command": "true", "env": {"A": "${NOT_SET_ANYWHERE}"}})


async def test_metrics_from_the_output(over: OverRun) -> None:
    output = "coverage 10%\\ncoverage 81.5%\\n1,234 requests\\nby me\\nhuge 1e999\\nnext x7"
    patterns = {
        "coverage": {"pattern": r"coverage ([\d.]+)%"},
        "requests": {"pattern": r"[\d,]+(?= requests)", "type": "int"},
        "who": {"pattern": "by (?P<name>.*)$", "type": "string", "group": "name"},
        "huge": {"pattern": "huge (.*)"},
        "not_a_number": {"pattern": "next (.*)", "type": "int"},
        "absent": {"pattern": "nowhere"},
        "optional": {"pattern": "next(y)?", "type": "string"},
    }
    config = python(f"print('{output}')", metrics=patterns, assertions={"min_coverage": 81.5, "max_requests": 1000})
    result = await over.evaluate("command", config)
    found = {name: result.metrics[name] for name in patterns}
    assert found == {
        "coverage": 81.5,
        "requests": 1234,
        "who": "me",
        "huge": None,
        "not_a_number": None,
        "absent": None,
        "optional": None,
    }
    assert result.status == "failed"
    assert result.message.endswith(", but requests is 1,234, more than 1,000.")


async def test_a_missing_metric_fails_its_assertion(over: OverRun) -> None:
    config = {"command": "true", "metrics": {"n": {"pattern": "(x)"}}, "assertions": {"max_n": 5}}
    result = await over.evaluate("command", config)
    assert result.status == "failed"
    assert "n is unknown" in result.message


async def test_output_is_bounded(over: OverRun) -> None:
    code = "import sys\nfor _ in range(300): sys.stdout.write('x' * 99_999 + '\\n')\nprint('the end')"
    result = await over.evaluate("command", python(code))
    assert result.status == "passed"
    assert result.metrics["output_truncated"] is True
    assert len(result.metrics["output_tail"]) <= 4_000


JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="s" tests="99">
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>
<testcase name="d"><error/></testcase></testsuite></testsuites>"""


async def test_a_junit_report(over: OverRun) -> None:
    code = f"import os; os.mkdir('out'); open('out/TEST-a.xml', 'w').write('''{JUNIT}''')"
    config = python(code, junit="out/*.xml", assertions={"min_pass_rate": 0.5, "max_errors": 0})
    result = await over.evaluate("command", config)
    wanted = {"tests": 4, "failures": 1, "errors": 1, "skipped": 1, "pass_rate": pytest.approx(1 / 3)}
    assert {name: result.metrics[name] for name in wanted} == wanted
    assert result.status == "failed"
    assert "4 tests, 2 failed, 1 skipped, but pass_rate is 0.3333, less than 0.5; errors is 1, more" in result.message


@pytest.mark.parametrize("copy", [True, False])
async def test_a_report_that_the_agent_left_does_not_count(over: OverRun, copy: bool) -> None:
    (over.tree / "report.xml").write_text(JUNIT)
    os.utime(over.tree / "report.xml", (4_000_000_000, 4_000_000_000))
    result = await over.evaluate("command", {"command": "true", "junit": "report.xml", "copy": copy})
    assert result.status == "failed"
    assert "no JUnit report was written to report.xml" in result.message
    assert "tests" not in result.metrics


async def test_two_evaluators_have_separate_logs(over: OverRun) -> None:
    await over.evaluate("command", {"command": "echo one"})
    result = await over.evaluate("command", {"command": "echo two"})
    assert [artifact.path for artifact in result.artifacts] == ["evaluators/command/output-2.log"]


def lying_inside(over: OverRun) -> Path:
    """`yb eval` with `directory: .`: what it leaves, and what it copies, lies in the judged directory."""
    output = over.tree / "deep" / ".youbencha-eval"
    (output / "run-1" / "artifacts").mkdir(parents=True)
    (output / "run-1" / "artifacts" / "results.json").write_text("{}")
    over.scratch = output / "run-2" / "scratch"
    over.scratch.mkdir(parents=True)
    (over.tree / "deep" / "theirs").write_text("kept")
    return output.resolve()


async def test_our_own_files_in_the_tree_are_not_copied(over: OverRun) -> None:
    output = lying_inside(over)
    over.scratch = over.tree.parent / "elsewhere"
    over.scratch.mkdir()
    config = {"command": "test -f deep/theirs -a ! -e deep/.youbencha-eval", "shell": True}
    assert (await over.evaluate("command", config, by_eval=True, left_out=(output,))).status == "passed"
    assert (await over.evaluate("command", config, by_eval=True)).status == "failed"


@posix_only("links need a privilege there")
async def test_our_own_files_are_recognised_behind_a_link(over: OverRun) -> None:
    output = lying_inside(over)
    link = over.tree.parent / "by-a-link"
    link.symlink_to(over.tree)
    over.tree = link
    config = {"command": "test ! -e deep/.youbencha-eval", "shell": True}
    assert (await over.evaluate("command", config, by_eval=True, left_out=(output,))).status == "passed"


async def test_a_copy_never_contains_itself(over: OverRun) -> None:
    """Even if our own files are not named: an endless copy would fill the disk."""
    lying_inside(over)
    (over.tree / "top").write_text("")
    config = {"command": "test -f top -a ! -e deep", "shell": True}
    assert (await over.evaluate("command", config, by_eval=True)).status == "passed"


async def test_planted_scratch_files_are_not_in_the_copy(over: OverRun) -> None:
    (over.scratch / "tree").mkdir()
    (over.scratch / "tree" / "sitecustomize.py").write_text("")
    config = {"command": "test ! -e sitecustomize.py", "shell": True}
    assert (await over.evaluate("command", config)).status == "passed"


@posix_only("permissions")
@pytest.mark.parametrize("line", ["true", "false", "mkdir -p a/b && touch a/b/c && chmod 500 a/b a", "./missing"])
async def test_the_copy_is_removed(over: OverRun, line: str) -> None:
    (over.tree / "large").write_bytes(bytes(1_000_000))
    await over.evaluate("command", {"command": line, "shell": line != "./missing"})
    assert list(over.scratch.iterdir()) == []


@posix_only("files of holes")
async def test_a_sparse_file_does_not_prevent_a_verdict(over: OverRun) -> None:
    (over.tree / "huge").touch()
    os.truncate(over.tree / "huge", 5 * 1024**4)
    assert (await over.evaluate("command", {"command": "false"})).status == "failed"
    assert list(over.scratch.iterdir()) == []


async def test_a_partial_copy_is_removed_too(over: OverRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_FICLONE", 0)
    monkeypatch.setattr(trees, "_ROOM_LEFT", 0)
    (over.tree / "file").write_bytes(bytes(10_000))
    with pytest.raises(YouBenchaError) as caught:
        await over.evaluate("command", {"command": "true"})
    assert caught.value.code == "COMMAND_COPY_FAILED"
    assert list(over.scratch.iterdir()) == []
