"""The evaluator `validation` on real repositories, with programs as agents, on the host."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from validation_bench import ALL_TESTS, HIDDEN, SOLUTION, START, TEST_CMD, ValidationBench, writes

from youbencha.errors import YouBenchaError
from youbencha.evaluators.validation.evaluator import describe
from youbencha.evaluators.validation.measure import Baseline, Measurement
from youbencha.evaluators.validation.reports import ExpectedTests, RunReports
from youbencha.evaluators.validation.steps import StepResult
from youbencha.workspace.trees import remove_tree

WITH_HIDDEN = {"validation_tag": "v1-validation"}
WITH_REFERENCE = {**WITH_HIDDEN, "reference_tag": "v1-solution"}
PASSING = "import unittest\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        pass\n"


@pytest.fixture
def bench(tmp_path: Path) -> ValidationBench:
    return ValidationBench(tmp_path)


async def test_a_solution_passes_all_tests(bench: ValidationBench) -> None:
    done = await bench.run(writes(SOLUTION), **WITH_REFERENCE)
    assert done.result.status == "passed", done.result
    assert done.scores == {"tests": 1.0}
    assert done.result.metrics["tests"]["tests"] == ALL_TESTS == done.result.metrics["expected_tests"]
    assert done.result.metrics["composite_score"] == 1.0
    assert done.flags == set()
    assert done.result.message == "4 of 4 tests passed."
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == "solved"
    assert "Ran 8 tests" in done.log("test"), "with two canaries in each file"


async def test_doing_nothing_scores_what_passed_before(bench: ValidationBench) -> None:
    done = await bench.run("", **WITH_REFERENCE)
    assert done.result.status == "failed"
    assert done.scores == {"tests": 0.25}
    assert done.flags == set()


async def test_hidden_tests_are_not_there_while_the_agent_works(bench: ValidationBench) -> None:
    look = "import os, subprocess\nopen('seen.txt', 'w').write(' '.join(os.listdir('tests'))"
    look += " + subprocess.run(['git', 'log', '--all', '--oneline'], capture_output=True, text=True).stdout)"
    done = await bench.run(look, **WITH_HIDDEN)
    seen = (done.directory / "src-modified" / "seen.txt").read_text()
    assert "test_calc.py" in seen
    assert "hidden" not in seen
    assert len(seen.splitlines()) == 1
    assert not (done.directory / "src-modified" / "tests" / "test_hidden.py").exists()


CHEATS = {
    "edited tests": {"tests/test_calc.py": PASSING},
    "a conftest": {"conftest.py": "collect_ignore_glob = ['*']\n"},
    "a shadowed runner": {"unittest/__init__.py": "", "unittest/__main__.py": "print('Ran 4 tests in 0.1s\\n\\nOK')\n"},
    "a runner in one file": {"unittest.py": "print('Ran 4 tests in 0.1s\\n\\nOK')\n"},
    "tests of its own": {"tests/test_more.py": PASSING.replace("add", "more")},
    "an early exit": {"calc.py": "import os\nos._exit(0)\n"},
    "a load_tests protocol": {
        "tests/__init__.py": "def load_tests(*_):\n    import unittest\n    return unittest.TestSuite()\n"
    },
    "a forged report": {"report.xml": "<testsuite><testcase/><testcase/><testcase/><testcase/></testsuite>"},
    "a report forged while the tests run": {
        "calc.py": START["calc.py"]
        + "open('junit.xml', 'w').write('<testsuite>' + '<testcase/>' * 4 + '</testsuite>')\n"
    },
}


async def test_cheating_gains_nothing(bench: ValidationBench) -> None:
    tried = {name: await bench.run(writes(files), **WITH_HIDDEN) for name, files in CHEATS.items()}
    scores = {name: done.result.metrics["scores"]["tests"] for name, done in tried.items()}
    assert all(score <= 1 / ALL_TESTS for score in scores.values()), scores  # one passes without any change
    assert {done.result.status for done in tried.values()} == {"failed"}
    assert "tests_missing" in tried["an early exit"].flags
    assert tried["edited tests"].flags == {"test_edit"}
    assert "forged_report" in tried["a report forged while the tests run"].flags
    assert tried["tests of its own"].flags == set()


PLUGIN = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
CONFIGURATION = "[tool.pytest.ini_options]\naddopts = '-p plugin'\n"
CONFIGURED_CHEATS = {
    "pyproject.toml": {"pyproject.toml": CONFIGURATION},
    "setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = -p plugin\n"},
    "a link": {"a.toml": CONFIGURATION},
}


async def test_new_files_of_a_project_do_not_configure_tests(bench: ValidationBench) -> None:
    pytest_cmd = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 '{sys.executable}' -m pytest -q"
    for name, files in CONFIGURED_CHEATS.items():
        program = writes({**files, "plugin.py": PLUGIN})
        if name == "a link":
            program += "import os\nos.symlink('a.toml', 'pyproject.toml')\n"
        done = await bench.run(program, test_cmd=pytest_cmd, **WITH_HIDDEN)
        assert done.scores == {"tests": 0.25}, name
        assert name == "a link" or done.flags == {"test_edit", "test_runner"}, name


async def test_what_runs_the_tests_is_restored_or_flagged(tmp_path: Path) -> None:
    given = {"scripts/run_all.sh": TEST_CMD, "Makefile": f"check:\n\t{TEST_CMD}\n"}
    bench = ValidationBench(tmp_path, start={**START, **given})
    printed = "printf 'Ran 2 tests in 0.1s\\n\\nOK\\n'\n"
    script = await bench.run(writes({"scripts/run_all.sh": printed}), test_cmd="sh ./scripts/run_all.sh")
    assert script.scores == {"tests": 0.5}
    assert "test_edit" in script.flags
    for name in ("Makefile", "GNUmakefile"):
        recipe = await bench.run(
            writes({name: f"check:\n\t@{printed}"}), test_cmd="make check || sh scripts/run_all.sh"
        )
        assert "test_edit" in recipe.flags
    honest = await bench.run(writes({**SOLUTION, "Makefile": "all:\n"}), test_cmd=TEST_CMD)
    assert honest.flags == set()


REACHING = {
    "a patched runner": {"calc.py": "import unittest\nunittest.TestCase.run = print\n"},
    "a printed summary": {"calc.py": "import os\nos.write(2, b'Ran 4 tests in 0.1s\\n\\nOK\\n')\nos._exit(0)\n"},
    "a module of Python's": {"argparse.py": "print('Ran 4 tests in 0.1s', end='\\n\\nOK\\n')\nraise SystemExit\n"},
}


async def test_code_that_reaches_into_the_test_runner_is_flagged(bench: ValidationBench) -> None:
    for name, files in REACHING.items():
        done = await bench.run(writes(files), **WITH_HIDDEN)
        assert "test_runner" in done.flags, name


async def test_directories_can_be_nested_deeply(bench: ValidationBench) -> None:
    deep = "import os\nfor _ in range(1050):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').close()\n"
    done = await bench.run(writes(SOLUTION) + deep, **WITH_HIDDEN)
    remove_tree(done.directory)  # pytest cannot
    assert done.result.status == "passed", done.result


async def test_compiled_tests_are_not_run_in_place_of_the_real_ones(bench: ValidationBench) -> None:
    program = writes({"fake.py": PASSING + "    test_double = test_add\n"}) + (
        "import py_compile\n"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
        "import importlib.util\n"
        "target = importlib.util.cache_from_source('tests/test_calc.py')\n"
        "py_compile.compile('fake.py', target, invalidation_mode=mode)\n"
    )
    done = await bench.run(program, mode="separate")
    assert done.scores == {"tests": 0.5}


async def test_every_command_has_a_deadline(bench: ValidationBench) -> None:
    done = await bench.run(writes({"calc.py": "import time\ntime.sleep(60)\n"}), timeout_minutes=0.02)
    assert done.result.status == "failed"
    assert done.scores == {"tests": 0.0}
    assert done.result.metrics["steps"]["test"]["timed_out"]
    assert done.result.metrics["steps"]["test"]["duration_ms"] < 15_000
    assert "timed out" in done.result.message


def test_what_ended_the_tests_is_in_the_message() -> None:
    measured = Measurement(
        changes=(),
        steps={"test": StepResult(None, False, 10, "", "its limit of memory")},
        tests=RunReports(exit_code=None),
    )
    message = describe(measured, Baseline(expected=ExpectedTests(number=2)), ())
    assert "the tests were killed by its limit of memory" in message


async def test_lint_is_compared_with_the_untouched_task(bench: ValidationBench) -> None:
    lint = "grep -n 'BAD' calc.py | sed 's/^/calc.py:/; s/:BAD/:1: error: bad/'; true"
    clean = await bench.run(writes(SOLUTION), lint_cmd=lint)
    assert clean.scores == {"tests": 1.0, "static_analysis": 1.0}
    dirty = await bench.run(writes({"calc.py": SOLUTION["calc.py"] + "BAD = 1\nBAD = 2\n"}), lint_cmd=lint)
    assert dirty.result.metrics["lint_issues"] == 2
    assert dirty.scores == {"tests": 1.0, "static_analysis": 0.8}
    assert dirty.result.metrics["composite_score"] == pytest.approx(0.94)
    nothing = await bench.run("", lint_cmd=lint)
    assert nothing.scores == {"tests": 0.5}, "nothing changed, nothing analysed"


async def test_a_failed_build_is_not_solved(bench: ValidationBench) -> None:
    done = await bench.run(writes(SOLUTION), build_cmd="python3 -c 'import calc; assert not hasattr(calc, \"triple\")'")
    assert done.scores == {"tests": 1.0, "static_analysis": 0.0}
    assert done.result.status == "failed"
    assert "build failed" in done.result.message


async def test_steps_share_a_home_but_not_with_the_agent(bench: ValidationBench) -> None:
    program = (
        writes(SOLUTION) + "from os.path import expanduser\nopen(expanduser('~/left'), 'w').write('by the agent')\n"
    )
    check = 'test ! -e ~/left && test -e ~/installed && test -z "$SECRET_KEY"'
    done = await bench.run(program, install_cmd="touch ~/installed", build_cmd=check)
    assert done.result.status == "passed", done.result
    shared = await bench.run(program, mode="shared", build_cmd="cat ~/left", install_cmd="true")
    assert shared.log("build").strip() == "by the agent"


WITH_IGNORED: Mapping[str, Mapping[str, Any]] = {
    "diff": {},
    "separate": {"mode": "separate"},
    "separate, as asked for": {"mode": "separate", "copy_ignored": True},
    "shared": {"mode": "shared"},
}


async def test_ignored_files_are_validated_only_if_asked_for(bench: ValidationBench) -> None:
    program = writes({**SOLUTION, "ignored/file": ""})
    for name, config in WITH_IGNORED.items():
        done = await bench.run(program, build_cmd="ls ignored; true", **config)
        assert done.result.status == "passed", done.result
        assert (done.log("build") == "file\n") == (name in ("separate, as asked for", "shared")), name


async def test_large_files_are_validated_in_a_copy(bench: ValidationBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youbencha.workspace.listing.MAX_FILE_BYTES", 1000)
    large = "#" * 2000 + "\n"
    program = writes({"calc.py": SOLUTION["calc.py"] + large, "data/new.txt": large})
    seen = {mode: await bench.run(program, build_cmd="cat data/new.txt", mode=mode) for mode in ("diff", "separate")}
    assert seen["diff"].result.metrics["left_out"] == ["calc.py", "data/new.txt"]
    assert seen["diff"].scores["tests"] == 0.5
    assert seen["separate"].result.metrics["left_out"] == []
    assert seen["separate"].scores == {"tests": 1.0, "static_analysis": 1.0}


BROKEN: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "an installation that fails": ({"install_cmd": "echo An ERROR occurred; echo done; false"}, "An ERROR occurred"),
    "a program that is not there": ({"test_cmd": "no-such-program"}, "no-such-program: "),
    "a program that cannot be run": ({"test_cmd": "./calc.py"}, "ermission denied"),
    "a runner that is not installed": (
        {"test_cmd": f"'{sys.executable}' -S -m pytest -q"},
        f'after "{sys.executable}: No module named pytest"',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_no_agent_is_run_on_a_task_that_cannot_be_validated(bench: ValidationBench, case: str) -> None:
    config, line = BROKEN[case]
    for _ in range(2):
        with pytest.raises(YouBenchaError) as raised:
            await bench.run(f"open({str(bench.root / 'ran')!r}, 'w')", **config)
        assert raised.value.code == "VALIDATION_BROKEN"
        assert line in raised.value.message
    assert not (bench.root / "ran").exists()
    for run in (bench.root / "runs").glob("run-*"):
        logs = run.glob("artifacts/evaluators/validation/baseline-*.log")
        assert any(line.split('"')[-1] in log.read_text() for log in logs) or '"' in line


async def test_what_the_untouched_task_prints_is_not_shown_to_the_agent(bench: ValidationBench) -> None:
    """Each trial has the logs, although the task is measured only once."""
    look = "import os\nprint(os.listdir('../artifacts'))\n"
    trials = [await bench.run(writes(SOLUTION) + look, **WITH_HIDDEN) for _ in range(2)]
    for done in trials:
        assert "test_hidden" in done.log("baseline-test")
        assert "evaluators/validation/baseline-test.log" in [item.path for item in done.result.artifacts]
        output = (done.directory / "artifacts" / "youbencha-log.json").read_text()
        assert "'evaluators'" not in output


async def test_a_failing_installation_is_the_agents_if_it_worked_before(bench: ValidationBench) -> None:
    done = await bench.run(writes({"setup.txt": "broken"}), install_cmd="test ! -e setup.txt")
    assert done.result.status == "failed"
    assert "install failed" in done.result.message


async def test_the_baseline_is_measured_once(bench: ValidationBench) -> None:
    plan = {"install_cmd": f"echo x >> '{bench.root}/installed'"}
    await asyncio.gather(*(bench.run(writes(SOLUTION), **plan) for _ in range(3)))
    assert len((bench.root / "installed").read_text().splitlines()) == 1 + 3


async def test_secrets_are_masked_in_logs_and_results(bench: ValidationBench) -> None:
    done = await bench.run(
        writes(SOLUTION), env={"TOKEN": "${SECRET_KEY}"}, install_cmd="echo $TOKEN", test_cmd="echo $TOKEN; exit 1"
    )
    assert "a-secret-of-the-user" not in done.log("baseline-install")
    assert "[REDACTED]" in done.log("baseline-install")


async def test_a_greenfield_task(tmp_path: Path) -> None:
    bench = ValidationBench(tmp_path)
    own = {
        "tests/test_own.py": "import unittest\n\nimport calc\n\n\nclass Own(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(calc.add(1, 1), 2)\n"
    }
    done = await bench.run(writes({**SOLUTION, **own}), greenfield=True, **WITH_REFERENCE)
    assert done.result.status == "passed", done.result
    assert done.scores["hidden_tests"] == 1.0
    assert done.scores["agent_tests"] == 1.0
    assert 0 < done.scores["code_metrics"] < 1
    assert done.result.metrics["steps"].keys() == {"test", "hidden"}
    assert "test_own" not in done.log("hidden")
    nothing = await bench.run("", greenfield=True, **WITH_REFERENCE)
    assert nothing.scores["hidden_tests"] < 0.5


def test_options_are_checked(bench: ValidationBench) -> None:
    from youbencha.errors import ConfigError

    with pytest.raises(ConfigError, match="test_cmd"):
        bench.plan(test_cmd="")
    with pytest.raises(ConfigError, match="timeout_minutes"):
        bench.plan(timeout_minutes=0)
    with pytest.raises(ConfigError, match=r"\.\."):
        bench.plan(protected=["../x"])


HOSTILE = ("../x", "/tmp/x", ".git/hooks/post-checkout", "a/.git/config", "a/../../x")


async def test_hostile_patches_are_refused(bench: ValidationBench) -> None:
    for path in HOSTILE:
        names = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        result = await bench.validate(f"{names}@@ -0,0 +1 @@\n+hi\n")
        assert result.status == "skipped", path
        assert result.error is not None
        assert result.error.code == "PATCH_NOT_APPLICABLE", path


async def test_a_patch_that_does_not_fit_is_a_clear_error(bench: ValidationBench) -> None:
    result = await bench.validate(
        "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-no\n+yes\n"
    )
    assert result.error is not None
    assert result.error.code == "PATCH_NOT_APPLICABLE"
    assert "calc.py" in result.message


async def test_binary_files_and_links_are_patched(bench: ValidationBench) -> None:
    program = (
        writes(SOLUTION)
        + "open('data.bin', 'wb').write(bytes(range(256)) * 9)\nimport os\nos.symlink('calc.py', 'link.py')\n"
    )
    done = await bench.run(program, build_cmd="python3 -c 'import link' && test $(wc -c < data.bin) = 2304")
    assert done.result.status == "passed", done.result


async def test_tests_are_restored_through_links(bench: ValidationBench) -> None:
    """The agent's code replaces the directory of the tests by a link, after the patch was applied."""
    outside = bench.root / "outside"
    outside.mkdir()
    program = writes(
        {**SOLUTION, "setup.py": f"import os, shutil\nshutil.rmtree('tests')\nos.symlink({str(outside)!r}, 'tests')\n"}
    )
    done = await bench.run(program, install_cmd="test ! -e setup.py || python3 setup.py", **WITH_HIDDEN)
    assert done.result.status == "passed", done.result
    assert list(outside.iterdir()) == []


async def test_hidden_tests_count(bench: ValidationBench) -> None:
    half = {"calc.py": SOLUTION["calc.py"].replace("3 * a", "4 * a")}
    done = await bench.run(writes(half), **WITH_HIDDEN)
    assert done.scores == {"tests": 0.75}
    assert set(HIDDEN) == {"tests/test_hidden.py"}


CHECK = {"check.py": "#!/usr/bin/env python3\nimport calc\nraise SystemExit(calc.add(1, 1) != 2)\n"}
BAD = writes({"calc.py": START["calc.py"] + "\n"}) + "import os, shutil\n"
ODD_NAMES = (
    "git~1/x",
    ".git\\x",
    "GIT~1",
    ".git ",
    ".g\u200cit/config",
    "con",
    "a\nb",
    "a:b",
    "..\\x",
    "-x",
    "x" * 255,
)
VOIDING = {
    "names that git refuses elsewhere": writes(dict.fromkeys(ODD_NAMES, "x")),
    "a name that is not text": "open(b'\\xff\\xfe', 'w')",
    "an unreadable test program": "os.chmod('check.py', 0)",
    "no test program": "os.unlink('check.py')",
    "a directory in its place": "os.unlink('check.py'); os.mkdir('check.py'); open('check.py/x', 'w')",
    "a pipe in its place": "os.unlink('check.py'); os.mkfifo('check.py')",
    "a test program that is killed": "open('check.py', 'w').write('#!/bin/sh\\nkill -9 $$')",
    "a link to itself": "os.unlink('check.py'); os.symlink('check.py', 'check.py')",
    "links for git's files": "[os.symlink('x', name) for name in ('.gitmodules', '.gitattributes')]",
    "no files": "[shutil.rmtree(p) if os.path.isdir(p) else os.unlink(p) for p in os.listdir('.')]",
    "no workspace": "shutil.rmtree(os.getcwd())",
    "tests replaced by a file": "shutil.rmtree('tests'); open('tests', 'w')",
    "a directory without rights": "os.mkdir('d'); open('d/x', 'w'); os.chmod('d', 0); os.chmod('tests', 0)",
    "a repository inside": "os.system('git init -q sub; touch sub/x; git -C sub add x')",
    "a broken repository": "shutil.rmtree('.git'); open('.git', 'w').write('gitdir: /nowhere')",
}


async def test_an_agent_cannot_void_its_trial(tmp_path: Path) -> None:
    bench = ValidationBench(tmp_path, start={**START, **CHECK})
    ended = {}
    for name, program in VOIDING.items():
        done = await bench.run(BAD + program, test_cmd="./check.py")
        assert done.bundle.outcome is not None
        ended[name] = (done.bundle.outcome.name, done.bundle.outcome.valid, done.result.metrics.get("composite_score"))
    assert ended == dict.fromkeys(VOIDING, ("unsolved", True, 0.0))


async def test_odd_names_are_validated_and_scored_again(bench: ValidationBench) -> None:
    program = writes({**SOLUTION, **dict.fromkeys(ODD_NAMES, "x")})
    done = await bench.run(program, build_cmd="cat 'git~1/x' '.git\\x'", **WITH_HIDDEN)
    assert done.result.status == "passed", done.result
    patch = (done.directory / "artifacts" / "git-diff.patch").read_bytes()
    again = await bench.validate(patch, build_cmd="cat 'git~1/x' '.git\\x'", **WITH_HIDDEN)
    assert again.metrics["composite_score"] == 1.0, again


ADVISORY = {"a verdict": ["echo", '{"assertions": {"fine": {"score": 0.6}}}'], "no verdict": ["echo", "I cannot say"]}


@pytest.mark.parametrize(
    ("judged", "more", "outcome"),
    [
        ("a verdict", {}, "unsolved"),
        ("a verdict", {"threshold": 0.6}, "solved"),
        ("a verdict", {"advisory": True}, "solved"),
        ("no verdict", {}, "verifier_error"),
        ("no verdict", {"advisory": True}, "solved"),
    ],
)
async def test_an_advisory_judge_decides_nothing(
    bench: ValidationBench, judged: str, more: Mapping[str, Any], outcome: str
) -> None:
    command = {"command": ADVISORY[judged], "prompt_by": "none"}
    judge = {"type": "command", "assertions": {"fine": "It is fine."}, "config": command, **more}
    done = await bench.run(writes(SOLUTION), judge=judge)
    assert done.bundle.outcome is not None
    assert done.bundle.outcome.name == outcome, done.bundle.evaluators
    assert (done.bundle.summary.overall_status == "passed") == (outcome == "solved")
    assert (
        done.bundle.evaluators[1].status == ("skipped" if judged == "no verdict" else "failed") or outcome == "solved"
    )


GIVEN = {
    "pyproject.toml": "[project]\nname = 'a'\n",
    "package.json": '{"scripts": {"test": "npm run unit", "unit": "a"}}\n',
    "setup.cfg": "[metadata]\nname = a\n",
}
HARMLESS = {
    "pyproject.toml": "[project]\nname = 'b'\n",
    "package.json": '{"scripts": {"test": "npm run unit", "unit": "a", "start": "b"}}\n',
    "setup.cfg": "[metadata]\nname = b\n",
}
CHEATING = {
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-k x'\n",
    "package.json": '{"type": "module", "scripts": {"test": "npm run unit", "unit": "b"}}\n',
    "setup.cfg": "[tool:pytest]\naddopts = -k x\n",
}


async def test_files_of_a_project_are_restored_if_they_configure_tests(tmp_path: Path) -> None:
    bench = ValidationBench(tmp_path, start={**START, **GIVEN})
    show = f"cat {' '.join(GIVEN)}; {TEST_CMD}"
    kept = await bench.run(writes(HARMLESS), test_cmd=show)
    assert kept.log("test").startswith("".join(HARMLESS.values()))
    restored = await bench.run(writes(CHEATING), test_cmd=show)
    shown = restored.log("test")
    assert shown.startswith(GIVEN["pyproject.toml"])
    assert '"unit": "a"' in shown, "the script is the given one"
    assert '"type": "module"' in shown, "which the tests do not depend on, but the program may"
    assert GIVEN["setup.cfg"] in shown
