"""Scripts before the agent and after the evaluation: their variables, and how their end is reported."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hook_bench import HookBench, bundle

from systems import linux_only, posix_only
from youbencha.hooks import run_post_evaluation, run_pre_execution
from youbencha.spec.testcase import ScriptConfig, ScriptHook
from youbencha.store.bundle import HookResult

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
NEEDS_A_SHELL = posix_only("the scripts are shell scripts")


def script(command: str, *args: str, **more: Any) -> ScriptHook:
    return ScriptHook(name="script", config=ScriptConfig(command=command, args=args, **more))


def python(code: str, *args: str, **more: Any) -> ScriptHook:
    return script(sys.executable, "-c", code, *args, **more)


async def before(bench: HookBench, *hooks: ScriptHook, **env: str) -> tuple[HookResult, ...]:
    return await run_pre_execution(hooks, bench.before({**os.environ, **env}))


async def after(bench: HookBench, *hooks: ScriptHook, **env: str) -> tuple[HookResult, ...]:
    return await run_post_evaluation(hooks, bundle(), bench.after(bundle(), {**os.environ, **env}))


def shown(result: HookResult, bench: HookBench) -> tuple[list[str], Path, dict[str, str]]:
    assert result.status == "success", result
    arguments, cwd, env = json.loads((bench.artifacts / result.metadata["log"]).read_text())
    return arguments, Path(cwd), env


async def test_before_the_agent_a_script_runs_in_its_workspace(hook_bench: HookBench) -> None:
    (result,) = await before(hook_bench, python(SHOW))
    _, cwd, env = shown(result, hook_bench)
    assert cwd == hook_bench.workspace
    assert {name: env[name] for name in hook_bench.before().variables} == {
        "WORKSPACE_DIR": str(hook_bench.workspace),
        "REPO_DIR": str(hook_bench.workspace),
        "ARTIFACTS_DIR": str(hook_bench.artifacts),
        "TEST_CASE_NAME": "Fix it",
        "REPO_URL": "https://example.com/r.git",
        "BRANCH": "main",
    }
    assert env["PATH"] == os.environ["PATH"]
    assert result.metadata["log"] == "hooks/pre-1-script.log"


async def test_after_the_evaluation_it_runs_beside_the_test_case(hook_bench: HookBench) -> None:
    (result,) = await after(hook_bench, python(SHOW))
    _, cwd, env = shown(result, hook_bench)
    assert cwd == hook_bench.config
    assert {name: env[name] for name in hook_bench.after(bundle()).variables} == {
        "RESULTS_PATH": str(hook_bench.artifacts / "results.json"),
        "ARTIFACTS_DIR": str(hook_bench.artifacts),
        "WORKSPACE_DIR": str(hook_bench.root),
        "REPO_DIR": str(hook_bench.workspace),
        "TEST_CASE_NAME": "Fix it",
        "OVERALL_STATUS": "passed",
    }
    assert result.metadata["log"] == "hooks/post-1-script.log"


async def test_arguments_reach_the_program_unchanged(hook_bench: HookBench) -> None:
    odd = ("a b", "$(id)", "`id`", "; id", '"', "*", "", "$HOME")
    (result,) = await before(hook_bench, python(SHOW, *odd))
    assert shown(result, hook_bench)[0] == list(odd)


async def test_variables_are_substituted_and_unknown_ones_kept(hook_bench: HookBench) -> None:
    hook = python(
        SHOW,
        "${WORKSPACE_DIR}/x",
        "${OWN}",
        "${OUTER}",
        "${NOBODY_KNOWS_THIS}",
        "$${OUTER}",
        env={"OWN": "<${TEST_CASE_NAME}>", "OUTER": "inner", "TEST_CASE_NAME": "no"},
    )
    (result,) = await before(hook_bench, hook, OUTER="outer")
    arguments, _, env = shown(result, hook_bench)
    assert arguments == [f"{hook_bench.workspace}/x", "<Fix it>", "inner", "${NOBODY_KNOWS_THIS}", "${OUTER}"]
    assert (env["OWN"], env["OUTER"], env["TEST_CASE_NAME"]) == ("<Fix it>", "inner", "Fix it")


@NEEDS_A_SHELL
async def test_paths_are_relative_to_the_test_case_and_names_are_searched_on_path(hook_bench: HookBench) -> None:
    (hook_bench.config / "bin").mkdir()
    program = hook_bench.config / "bin" / "hello"
    program.write_text("#!/bin/sh\necho hello from $0\n")
    program.chmod(0o755)
    for hook in (script("bin/hello"), script("./bin/hello"), script(str(program)), script("${CONFIG}/bin/hello")):
        (result,) = await before(hook_bench, hook, CONFIG=str(hook_bench.config))
        assert (result.status, result.metadata["exit_code"]) == ("success", 0)
        assert result.metadata["output_tail"].startswith("hello from ")
    (result,) = await before(hook_bench, script("hello", env={"PATH": f"{program.parent}:/usr/bin:/bin"}))
    assert result.status == "success"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-program", "HOOK_PROGRAM_NOT_FOUND"),
        ("./gone.sh", "HOOK_PROGRAM_NOT_FOUND"),
        ("${NOBODY_KNOWS_THIS}/x", "HOOK_VARIABLE_UNKNOWN"),
    ],
)
async def test_a_missing_program(command: str, code: str, hook_bench: HookBench) -> None:
    (result,) = await before(hook_bench, script(command))
    assert result.status == "failed"
    assert result.error
    assert result.error.code == code


@NEEDS_A_SHELL
@pytest.mark.parametrize(
    ("command", "args", "printed"),
    [
        ("printf '%s|' a b", (), "a|b|"),
        ("printf '%s|' a", ("b c", "$HOME", "${BRANCH}"), "a|b c|$HOME|main|"),
        ("echo one two | tr a-z A-Z", (), "ONE TWO\n"),
        ("echo one;echo two", (), "one\ntwo\n"),
        ("true && echo $BRANCH > made && cat made", (), "main\n"),
        ("./in-the-repository.sh now", (), "repository now\n"),
        ("./in-the-repository.sh", ("now",), "repository now\n"),
        ("./with space.sh", ("one  two",), "space one  two\n"),
        ("echo", ("a;b", "c | d"), "a;b c | d\n"),
    ],
)
async def test_a_line_is_run_as_the_original_ran_it(
    command: str, args: tuple[str, ...], printed: str, hook_bench: HookBench
) -> None:
    for path in (hook_bench.workspace / "in-the-repository.sh", hook_bench.config / "with space.sh"):
        path.write_text(f'#!/bin/sh\necho {path.stem.rpartition("-")[2].rpartition(" ")[2]} "$@"\n')
        path.chmod(0o755)
    (result,) = await before(hook_bench, script(command, *args))
    assert (result.status, result.metadata.get("output_tail")) == ("success", printed)


async def test_one_program_on_request(hook_bench: HookBench) -> None:
    (result,) = await before(hook_bench, script("echo hello", shell=False))
    assert "echo hello is not on PATH" in result.message


@NEEDS_A_SHELL
async def test_a_file_that_cannot_be_executed(hook_bench: HookBench) -> None:
    (hook_bench.config / "plain.sh").write_text("#!/bin/sh\n")
    (result,) = await before(hook_bench, script("./plain.sh"))
    assert result.status == "failed"
    assert result.error
    assert "chmod +x" in (result.error.hint or "")


@NEEDS_A_SHELL
async def test_a_shell_on_request(hook_bench: HookBench) -> None:
    line = 'printf "%s|" "$1" "$2" "${WORKSPACE_DIR##*/}" > "$WORKSPACE_DIR/made" && cat made'
    (result,) = await before(hook_bench, script(line, "a b", "${BRANCH}", shell=True))
    assert (hook_bench.workspace / "made").read_text() == "a b|main|src-modified|"
    assert result.metadata["output_tail"] == "a b|main|src-modified|"


@NEEDS_A_SHELL
@pytest.mark.parametrize(
    ("line", "args", "shell"),
    [
        ('echo "${OUTER}"', (), {"shell": True}),
        ('echo "${OUTER}"', (), {}),
    ],
)
async def test_no_values_are_substituted_into_a_shell_command(
    line: str, args: tuple[str, ...], shell: dict[str, bool], hook_bench: HookBench
) -> None:
    """Were values put into it, this one would run."""
    hook = script(line, *args, **shell)
    (result,) = await before(hook_bench, hook, OUTER='"; touch injected; echo "')
    assert result.metadata["output_tail"] == '"; touch injected; echo "\n'
    assert not (hook_bench.workspace / "injected").exists()


async def test_a_configured_working_directory(hook_bench: HookBench) -> None:
    (hook_bench.workspace / "sub").mkdir()
    (hook_bench.config / "sub").mkdir()
    (first,) = await before(hook_bench, python(SHOW, working_dir="sub"))
    (last,) = await after(hook_bench, python(SHOW, working_dir="${OUTER}"), OUTER="sub")
    assert shown(first, hook_bench)[1] == hook_bench.workspace / "sub"
    assert shown(last, hook_bench)[1] == hook_bench.config / "sub"
    (wrong,) = await before(hook_bench, python(SHOW, working_dir="gone"))
    assert (wrong.status, wrong.error and wrong.error.code) == ("failed", "HOOK_CONFIG_INVALID")


async def test_the_first_failure_stops_the_scripts(hook_bench: HookBench) -> None:
    results = await before(
        hook_bench,
        python("open('one', 'w')"),
        python("import sys; print('so wrong'); sys.exit(3)"),
        python("open('three', 'w')"),
    )
    assert [result.status for result in results] == ["success", "failed"]
    assert [path.name for path in hook_bench.workspace.iterdir()] == ["one"]
    failed = results[1]
    assert failed.message.endswith("failed with exit code 3")
    assert failed.metadata["exit_code"] == 3
    assert failed.metadata["output_tail"] == "so wrong\n"
    assert failed.error
    assert failed.error.code == "HOOK_SCRIPT_FAILED"
    assert (hook_bench.artifacts / "hooks" / "pre-2-script.log").read_text() == "so wrong\n"


async def test_a_timeout_ends_the_script_and_its_children(hook_bench: HookBench) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    for timeout_ms in (1_500, 30_000):  # the second only where the first came before the child was there
        (result,) = await before(hook_bench, python(code, timeout_ms=timeout_ms))
        if result.metadata["output_tail"]:
            break
    assert (result.status, result.metadata["timed_out"]) == ("failed", True)
    assert f"took longer than {timeout_ms:,} ms" in result.message
    assert result.error
    assert (result.error.code, result.error.hint) == ("HOOK_TIMEOUT", "Give it more time with `timeout_ms`.")
    assert not psutil.pid_exists(int(result.metadata["output_tail"]))


@linux_only("elsewhere orphans are not adopted, so they cannot be named")
async def test_processes_left_running_are_ended_and_named(hook_bench: HookBench) -> None:
    (result,) = await before(hook_bench, script("sleep 600 &", shell=True))
    assert result.status == "success"
    assert "; still running, and killed with it: " in result.message


async def test_no_secret_is_in_the_result_or_the_log(hook_bench: HookBench) -> None:
    code = "import os; print(os.environ['MY_API_KEY'], os.environ['HOOK_TOKEN'])"
    hook = python(code, env={"HOOK_TOKEN": "hook-secret-1"})
    (result,) = await before(hook_bench, hook, MY_API_KEY="outer-secret-2")
    assert result.metadata["output_tail"] == "[REDACTED] [REDACTED]\n"
    assert (hook_bench.artifacts / "hooks/pre-1-script.log").read_text() == "[REDACTED] [REDACTED]\n"
    (failed,) = await before(hook_bench, script("./${MY_API_KEY}"), MY_API_KEY="outer-secret-2")
    assert failed.status == "failed"
    assert "outer-secret-2" not in failed.model_dump_json()


async def test_only_the_end_of_long_output_is_in_the_result(hook_bench: HookBench) -> None:
    (result,) = await before(hook_bench, python("print('x' * 100_000); print('end')"))
    assert len(result.metadata["output_tail"]) == 2000
    assert result.metadata["output_tail"].endswith("xxx\nend\n")
    assert (hook_bench.artifacts / "hooks/pre-1-script.log").stat().st_size == 100_005


async def test_scripts_after_the_evaluation_run_concurrently(hook_bench: HookBench) -> None:
    """Each waits for what the other writes, so one after the other they would never end."""
    meet = (
        "import pathlib, sys, time\n"
        "mine, other = map(pathlib.Path, sys.argv[1:])\n"
        "mine.touch()\n"
        "while not other.exists(): time.sleep(0.01)\n"
    )
    results = await after(
        hook_bench, python(meet, "a", "b"), script("no-such-program"), python(meet, "b", "a"), python("import x_y_z")
    )
    assert [result.status for result in results] == ["success", "failed", "success", "failed"]
    assert [result.metadata.get("log") for result in results] == [
        "hooks/post-1-script.log",
        None,
        "hooks/post-3-script.log",
        "hooks/post-4-script.log",
    ]


@posix_only("root can write anywhere, but not below a file")
async def test_unwritable_artifacts_are_a_failed_result(hook_bench: HookBench) -> None:
    (hook_bench.artifacts / "hooks").write_text("in the way")
    (result,) = await after(hook_bench, python(SHOW))
    assert result.status == "failed"
    assert result.error


async def test_notes_report_progress(hook_bench: HookBench) -> None:
    notes: list[str] = []
    await run_pre_execution([python("1"), python("1/0")], hook_bench.before(on_note=notes.append))
    assert notes[:2] == ["before the agent, script 1 of 2", "before the agent, script 2 of 2"]
    assert notes[2].endswith("failed with exit code 1")
    notes.clear()
    await run_post_evaluation([python("1")], bundle(), hook_bench.after(bundle(), on_note=notes.append))
    assert [note.partition(":")[0] for note in notes] == ["after the evaluation, script 1 of 1"]
