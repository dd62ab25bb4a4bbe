"""`yb`: help, errors, exit codes, how its process starts and ends, what it imports."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from yb import PATIENCE_S, SCRIPT, yb, yb_process
from youbencha import __version__

COMMANDS = [
    (),
    ("demo",),
    ("script",),
    ("gateway",),
    ("schema",),
    ("agents",),
    ("agents", "install"),
    ("agents", "list"),
    ("agents", "remove"),
    ("agents", "verify"),
    *((name,) for name in ("run", "eval", "report", "validate", "list", "init", "install-agents", "suggest-testcase")),
    *((name,) for name in ("doctor", "prune", "completion", "config")),
    *(("config", name) for name in ("init", "list", "get", "set", "unset")),
]
HEAVY = ["pydantic", "typer", "rich", "aiohttp", "ruamel", "psutil", "rapidfuzz", "asyncio", "numpy", "textual"]


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option: str) -> None:
    for run in (yb, yb_process):
        done = run(option)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"youbencha {__version__}\n", "")


def test_version_with_other_options() -> None:
    done = yb("--debug", "--version")
    assert (done.returncode, done.stdout) == (0, f"youbencha {__version__}\n")


@pytest.mark.parametrize("name", ["yb", "youbencha"])
def test_both_names_are_installed(name: str) -> None:
    done = subprocess.run([SCRIPT.with_stem(name), "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Usage: {name} ")


def test_printing_the_version_imports_nothing_heavy() -> None:
    check = (
        "import sys; sys.argv = ['yb', '--version']\n"
        "from youbencha.cli import main; main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == f"youbencha {__version__}\n[]\n"


def test_help_imports_no_command_no_server_and_no_models() -> None:
    check = (
        "import sys\n"
        "from youbencha.cli.app import run_app\n"
        "run_app(['--help'])\n"
        "print([n for n in ('aiohttp', 'pydantic', 'ruamel', 'psutil', 'rapidfuzz') if n in sys.modules],\n"
        "      sorted(n for n in sys.modules if n.startswith('youbencha.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] ['youbencha.cli.app', 'youbencha.cli.help', 'youbencha.cli.terminal']"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    done = yb(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: {' '.join(('yb', *command))}" in done.stdout
    assert len(done.stdout.split()) > 15


def test_the_short_option_for_help() -> None:
    assert yb("agents", "install", "-h").stdout == yb("agents", "install", "--help").stdout


@pytest.mark.parametrize("command", [(), ("agents",)], ids=" ".join)
def test_without_arguments_it_shows_its_help(command: tuple[str, ...]) -> None:
    done = yb(*command)
    assert "Usage: yb" in done.stdout
    assert done.stderr == ""
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["shema"], "Did you mean 'schema'"),
        (["--nonsense"], "No such option: --nonsense"),
        (["schema", "--nonsense"], "No such option: --nonsense"),
        (["schema"], "Missing argument 'FORMAT'"),
        (["schema", "nonsense"], "'nonsense' is not one of 'testcase', 'eval'"),
        (["schema", "log", "more"], "unexpected extra argument"),
        (["agents", "nonsense"], "No such command 'nonsense'"),
        (["script"], "Missing argument"),
        (["demo", "--workspace-dir"], "requires an argument"),
        (["--version=x"], "--version"),
    ],
)
def test_unknown_commands_and_options(arguments: list[str], words: str) -> None:
    done = yb(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error ")
    assert words in done.stderr
    assert re.search(r"\nhint  (for example `yb .+`; )?run with --help for usage\n$", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_youbencha_error(tmp_path: Path) -> None:
    done = yb("agents", "remove", "claude-code", YOUBENCHA_TOOLBOX=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"error \[AGENT_VERSION_INVALID\] .+\nhint  .+\n", done.stderr)


def test_an_error_in_a_file_names_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "[bold]script.yaml"  # which is no markup
    path.write_text("turns:\n  - txt: hi\n")
    done = yb("script", str(path))
    assert done.returncode == 2
    assert f"{path}:2:5: turns.0.txt: unknown key" in done.stderr
    assert re.match(r"error \[[A-Z_]+\] ", done.stderr)


def test_with_debug_a_youbencha_error_has_its_traceback(tmp_path: Path) -> None:
    done = yb("--debug", "agents", "remove", "claude-code", YOUBENCHA_TOOLBOX=str(tmp_path))
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert "error [AGENT_VERSION_INVALID]" in done.stderr


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("a\nb\n[red]c")

    monkeypatch.setattr("youbencha.cli.setup.import_module", fail)


@pytest.mark.usefixtures("fault")
def test_an_internal_error_is_one_line_and_a_hint() -> None:
    done = yb("schema", "log")
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()
    assert error == "error [INTERNAL] RuntimeError: a b [red]c"
    assert hint.startswith("hint  This is a bug in youBencha. Please report it")


@pytest.mark.usefixtures("fault")
def test_with_debug_an_internal_error_has_its_traceback() -> None:
    done = yb("--debug", "schema", "log")
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert "RuntimeError" in done.stderr
    assert "Traceback" not in yb("schema", "log").stderr  # it is for this call only


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is hard to come by")
def test_a_full_disk_is_not_an_internal_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([SCRIPT, "schema", "log"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error [SYSTEM] OSError: [Errno 28]")
    assert "fault of youBencha" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a directory that is in use cannot be removed there")
def test_a_deleted_current_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"rmdir '{gone}' && exec '{SCRIPT}' validate -c testcase.yaml"
    done = subprocess.run(["/bin/sh", "-c", line], cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error [CURRENT_DIRECTORY_GONE]" in done.stderr  # some shells complain, too


def test_an_invalid_choice_is_reported() -> None:
    done = yb("schema", "nope")
    assert done.returncode == 2
    assert done.stderr.startswith("error Invalid value for 'FORMAT': 'nope' is not one of 'testcase', ")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes that close")
@pytest.mark.parametrize("arguments", [["schema", "claude-code"], ["--help"]])
def test_a_closed_pipe_on_stdout(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run([SCRIPT, *arguments], stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 1


def test_a_command_restores_the_process_state(tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        streams = (sys.stdin, sys.stdout, sys.stderr, *(os.fstat(number)[:3] for number in range(3)))
        return dict(os.environ), Path.cwd(), sys.argv, sys.excepthook, handlers, streams, gc.get_freeze_count()

    (tmp_path / "eval.yaml").write_text("directory: .\nevaluators: [git-diff]\n")
    before = state()
    done = yb("eval", "-c", "eval.yaml", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, "skipped" in done.stdout) == (1, True)
    assert state() == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_is_130_and_no_traceback() -> None:
    """A command that has no signal handling of its own."""
    prelude = (
        "import time, youbencha.cli.setup as s\n"
        "def wait(_):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "s.import_module = wait\nfrom youbencha.cli import main\nmain()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", prelude, "schema", "log"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="shells")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    done = yb("--show-completion", SHELL=f"/bin/{shell}", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    if done.returncode != 0:  # typer wants the shell as a word when it cannot look
        done = yb("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "yb" in done.stdout
    assert "_YB_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("begun", "offered"),
    [("ag", ["agents"]), ("sug", ["suggest-testcase"]), ("s", ["schema", "script", "suggest-testcase"])],
)
def test_completion_offers_the_commands(begun: str, offered: list[str]) -> None:
    done = yb(_YB_COMPLETE="complete_bash", COMP_WORDS=f"yb {begun}", COMP_CWORD="1")
    assert sorted(done.stdout.split()) == offered
    assert done.stderr == ""
