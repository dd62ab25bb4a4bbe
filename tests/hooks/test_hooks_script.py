"""Scripts before the agent and after the evaluation: what they are told, and how their end is told."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hook_lab import Lab, bundle

from systems import linux_only, posix_only
from youbencha.hooks import run_post_evaluation, run_pre_execution
from youbencha.log.results import HookResult
from youbencha.spec import ScriptConfig, ScriptHook

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
NEEDS_A_SHELL = posix_only("the scripts are shell scripts")


def script(command: str, *args: str, **more: Any) -> ScriptHook:
    return ScriptHook(name="script", config=ScriptConfig(command=command, args=args, **more))


def python(code: str, *args: str, **more: Any) -> ScriptHook:
    return script(sys.executable, "-c", code, *args, **more)


async def before(lab: Lab, *hooks: ScriptHook, **env: str) -> tuple[HookResult, ...]:
    return await run_pre_execution(hooks, lab.before({**os.environ, **env}))


async def after(lab: Lab, *hooks: ScriptHook, **env: str) -> tuple[HookResult, ...]:
    return await run_post_evaluation(hooks, bundle(), lab.after(bundle(), {**os.environ, **env}))


def shown(result: HookResult, lab: Lab) -> tuple[list[str], Path, dict[str, str]]:
    assert result.status == "success", result
    arguments, cwd, env = json.loads((lab.artifacts / result.metadata["log"]).read_text())
    return arguments, Path(cwd), env


async def test_before_the_agent_a_script_runs_in_its_workspace(hook_lab: Lab) -> None:
    (result,) = await before(hook_lab, python(SHOW))
    _, cwd, env = shown(result, hook_lab)
    assert cwd == hook_lab.workspace
    assert {name: env[name] for name in hook_lab.before().variables} == {
        "WORKSPACE_DIR": str(hook_lab.workspace),
        "REPO_DIR": str(hook_lab.workspace),
        "ARTIFACTS_DIR": str(hook_lab.artifacts),
        "TEST_CASE_NAME": "Fix it",
        "REPO_URL": "https://example.com/r.git",
        "BRANCH": "main",
    }
    assert env["PATH"] == os.environ["PATH"]
    assert result.metadata["log"] == "hooks/pre-1-script.log"


async def test_after_the_evaluation_it_runs_beside_the_test_case(hook_lab: Lab) -> None:
    (result,) = await after(hook_lab, python(SHOW))
    _, cwd, env = shown(result, hook_lab)
    assert cwd == hook_lab.config
    assert {name: env[name] for name in hook_lab.after(bundle()).variables} == {
        "RESULTS_PATH": str(hook_lab.artifacts / "results.json"),
        "ARTIFACTS_DIR": str(hook_lab.artifacts),
        "WORKSPACE_DIR": str(hook_lab.workspace),
        "REPO_DIR": str(hook_lab.workspace),
        "TEST_CASE_NAME": "Fix it",
        "OVERALL_STATUS": "passed",
    }
    assert result.metadata["log"] == "hooks/post-1-script.log"


async def test_arguments_reach_the_program_as_they_are(hook_lab: Lab) -> None:
    odd = ("a b", "$(id)", "`id`", "; id", '"', "*", "", "$HOME")
    (result,) = await before(hook_lab, python(SHOW, *odd))
    assert shown(result, hook_lab)[0] == list(odd)


async def test_references_are_put_in_and_unknown_ones_stay(hook_lab: Lab) -> None:
    hook = python(
        SHOW,
        "${WORKSPACE_DIR}/x",
        "${OWN}",
        "${OUTER}",
        "${NOBODY_KNOWS_THIS}",
        "$${OUTER}",
        env={"OWN": "<${TEST_CASE_NAME}>", "OUTER": "inner", "TEST_CASE_NAME": "no"},
    )
    (result,) = await before(hook_lab, hook, OUTER="outer")
    arguments, _, env = shown(result, hook_lab)
    assert arguments == [f"{hook_lab.workspace}/x", "<Fix it>", "inner", "${NOBODY_KNOWS_THIS}", "${OUTER}"]
    assert (env["OWN"], env["OUTER"], env["TEST_CASE_NAME"]) == ("<Fix it>", "inner", "Fix it")


@NEEDS_A_SHELL
async def test_a_path_starts_at_the_test_case_and_a_name_is_looked_for_on_path(hook_lab: Lab) -> None:
    (hook_lab.config / "bin").mkdir()
    program = hook_lab.config / "bin" / "hello"
    program.write_text("#!/bin/sh\necho hello from $0\n")
    program.chmod(0o755)
    for hook in (script("bin/hello"), script("./bin/hello"), script(str(program)), script("${CONFIG}/bin/hello")):
        (result,) = await before(hook_lab, hook, CONFIG=str(hook_lab.config))
        assert (result.status, result.metadata["exit_code"]) == ("success", 0)
        assert result.metadata["output_tail"].startswith("hello from ")
    (result,) = await before(hook_lab, script("hello", env={"PATH": f"{program.parent}:/usr/bin:/bin"}))
    assert result.status == "success"


@pytest.mark.parametrize(
    ("command", "words", "hint"),
    [
        ("no-such-program", "no-such-program is not on PATH", "A path with a slash"),
        ("./gone.sh", "there is no file", "is relative to the test case"),
        ("echo hello", "echo hello is not on PATH", "put its arguments into `args`"),
        ("${NOBODY_KNOWS_THIS}/x", "${NOBODY_KNOWS_THIS} is not defined", "in the environment"),
    ],
)
async def test_a_program_that_is_not_there(command: str, words: str, hint: str, hook_lab: Lab) -> None:
    (result,) = await before(hook_lab, script(command))
    assert result.status == "failed"
    assert words in result.message
    assert result.error
    assert hint in (result.error.hint or "")


@NEEDS_A_SHELL
async def test_a_file_that_cannot_be_executed(hook_lab: Lab) -> None:
    (hook_lab.config / "plain.sh").write_text("#!/bin/sh\n")
    (result,) = await before(hook_lab, script("./plain.sh"))
    assert result.status == "failed"
    assert result.error
    assert "chmod +x" in (result.error.hint or "")


@NEEDS_A_SHELL
async def test_a_shell_is_there_if_asked_for(hook_lab: Lab) -> None:
    line = 'printf "%s|" "$1" "$2" "${WORKSPACE_DIR##*/}" > "$WORKSPACE_DIR/made" && cat made'
    (result,) = await before(hook_lab, script(line, "a b", "${BRANCH}", shell=True))
    assert (hook_lab.workspace / "made").read_text() == "a b|main|src-modified|"
    assert result.metadata["output_tail"] == "a b|main|src-modified|"


@NEEDS_A_SHELL
async def test_the_shells_line_is_its_own(hook_lab: Lab) -> None:
    """Were values put into it, this one would run."""
    line = 'echo "${OUTER}"'
    (result,) = await before(hook_lab, script(line, shell=True), OUTER='"; touch injected; echo "')
    assert result.metadata["output_tail"] == '"; touch injected; echo "\n'
    assert not (hook_lab.workspace / "injected").exists()


async def test_a_working_directory_of_its_own(hook_lab: Lab) -> None:
    (hook_lab.workspace / "sub").mkdir()
    (hook_lab.config / "sub").mkdir()
    (first,) = await before(hook_lab, python(SHOW, working_dir="sub"))
    (last,) = await after(hook_lab, python(SHOW, working_dir="${OUTER}"), OUTER="sub")
    assert shown(first, hook_lab)[1] == hook_lab.workspace / "sub"
    assert shown(last, hook_lab)[1] == hook_lab.config / "sub"
    (wrong,) = await before(hook_lab, python(SHOW, working_dir="gone"))
    assert (wrong.status, wrong.message) == (
        "failed",
        f"working_dir: there is no directory {hook_lab.workspace / 'gone'}",
    )


async def test_the_first_failure_is_the_last_script(hook_lab: Lab) -> None:
    results = await before(
        hook_lab,
        python("open('one', 'w')"),
        python("import sys; print('so wrong'); sys.exit(3)"),
        python("open('three', 'w')"),
    )
    assert [result.status for result in results] == ["success", "failed"]
    assert [path.name for path in hook_lab.workspace.iterdir()] == ["one"]
    failed = results[1]
    assert failed.message.endswith("failed with exit code 3")
    assert failed.metadata["exit_code"] == 3
    assert failed.metadata["output_tail"] == "so wrong\n"
    assert failed.error
    assert failed.error.code == "HOOK_SCRIPT_FAILED"
    assert (hook_lab.artifacts / "hooks" / "pre-2-script.log").read_text() == "so wrong\n"


async def test_it_is_ended_at_its_deadline_with_all_its_children(hook_lab: Lab) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    for timeout_ms in (1_500, 30_000):  # the second only where the first came before the child was there
        (result,) = await before(hook_lab, python(code, timeout_ms=timeout_ms))
        if result.metadata["output_tail"]:
            break
    assert (result.status, result.metadata["timed_out"]) == ("failed", True)
    assert f"took longer than {timeout_ms:,} ms" in result.message
    assert result.error
    assert (result.error.code, result.error.hint) == ("HOOK_TIMEOUT", "Give it more time with `timeout_ms`.")
    assert not psutil.pid_exists(int(result.metadata["output_tail"]))


@linux_only("elsewhere nobody adopts an orphan, so it has no name")
async def test_what_it_leaves_running_is_ended_and_named(hook_lab: Lab) -> None:
    (result,) = await before(hook_lab, script("sleep 600 &", shell=True))
    assert result.status == "success"
    assert "; still running, and ended with it: " in result.message


async def test_no_secret_is_in_the_result_or_the_log(hook_lab: Lab) -> None:
    code = "import os; print(os.environ['MY_API_KEY'], os.environ['HOOK_TOKEN'])"
    hook = python(code, env={"HOOK_TOKEN": "hook-secret-1"})
    (result,) = await before(hook_lab, hook, MY_API_KEY="outer-secret-2")
    assert result.metadata["output_tail"] == "[REDACTED] [REDACTED]\n"
    assert (hook_lab.artifacts / "hooks/pre-1-script.log").read_text() == "[REDACTED] [REDACTED]\n"
    (failed,) = await before(hook_lab, script("./${MY_API_KEY}"), MY_API_KEY="outer-secret-2")
    assert failed.status == "failed"
    assert "outer-secret-2" not in failed.model_dump_json()


async def test_only_the_end_of_much_output_is_in_the_result(hook_lab: Lab) -> None:
    (result,) = await before(hook_lab, python("print('x' * 100_000); print('end')"))
    assert len(result.metadata["output_tail"]) == 2000
    assert result.metadata["output_tail"].endswith("xxx\nend\n")
    assert (hook_lab.artifacts / "hooks/pre-1-script.log").stat().st_size == 100_005


async def test_afterwards_all_run_at_once_and_none_disturbs_another(hook_lab: Lab) -> None:
    """Each waits for what the other writes, so one after the other they would never end."""
    meet = (
        "import pathlib, sys, time\n"
        "mine, other = map(pathlib.Path, sys.argv[1:])\n"
        "mine.touch()\n"
        "while not other.exists(): time.sleep(0.01)\n"
    )
    results = await after(
        hook_lab, python(meet, "a", "b"), script("no-such-program"), python(meet, "b", "a"), python("import x_y_z")
    )
    assert [result.status for result in results] == ["success", "failed", "success", "failed"]
    assert [result.metadata.get("log") for result in results] == [
        "hooks/post-1-script.log",
        None,
        "hooks/post-3-script.log",
        "hooks/post-4-script.log",
    ]


@posix_only("root can write anywhere, but not below a file")
async def test_artifacts_that_cannot_be_written_are_a_result(hook_lab: Lab) -> None:
    (hook_lab.artifacts / "hooks").write_text("in the way")
    (result,) = await after(hook_lab, python(SHOW))
    assert result.status == "failed"
    assert result.error


async def test_notes_say_what_is_going_on(hook_lab: Lab) -> None:
    notes: list[str] = []
    await run_pre_execution([python("1"), python("1/0")], hook_lab.before(on_note=notes.append))
    assert notes[:2] == ["before the agent, script 1 of 2", "before the agent, script 2 of 2"]
    assert notes[2].endswith("failed with exit code 1")
    notes.clear()
    await run_post_evaluation([python("1")], bundle(), hook_lab.after(bundle(), on_note=notes.append))
    assert [note.partition(":")[0] for note in notes] == ["after the evaluation, script 1 of 1"]
