"""Any program as an agent: its prompt, its variables, and its results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command_bench import CommandBench

from systems import PLAIN_PYTHON
from youbencha.adapters.command import CommandAdapter
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.events import AssistantTextDelta, Event, ProcessEnded, ProcessStarted, UserText

SHOW = "import sys, json, os; print(json.dumps({'args': sys.argv[1:], 'in': sys.stdin.read()}))"
PROMPT = 'Say "it": `id` $(id) {prompt} {model}\n--not an option é 漢'
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")


@pytest.fixture
def bench(tmp_path: Path) -> CommandBench:
    return CommandBench(tmp_path)


async def shown(bench: CommandBench, **config: Any) -> Any:
    result = await bench.python(SHOW, **config)
    assert result.status == "success", result.errors
    return json.loads(result.output)


# -- the prompt ------------------------------------------------------------------------------------------------------


async def test_the_prompt_is_the_last_argument(bench: CommandBench) -> None:
    assert await shown(bench, prompt=PROMPT, args=["--fast"]) == {"args": ["--fast", PROMPT], "in": ""}


async def test_placeholders_in_the_prompt_are_not_replaced(bench: CommandBench) -> None:
    found = await shown(bench, prompt=PROMPT, args=["--task={prompt}", "{model}", "-"], model="m-1")
    assert found["args"] == [f"--task={PROMPT}", "m-1", "-"]


async def test_prompt_on_standard_input(bench: CommandBench) -> None:
    assert await shown(bench, prompt=PROMPT, prompt_by="stdin") == {"args": [], "in": PROMPT}


async def test_prompt_in_a_file_outside_the_workspace(bench: CommandBench) -> None:
    code = "import sys; print(open(sys.argv[1], newline='', encoding='utf-8').read() + '|' + sys.argv[1])"
    result = await bench.python(code, prompt=PROMPT, prompt_by="file", args=["{prompt_file}"])
    text, _, path = result.output.rstrip("\n").rpartition("|")
    assert text == PROMPT
    assert not Path(path).is_relative_to(bench.workspace)
    assert not Path(path).exists()  # gone with the run


async def test_prompt_in_the_environment(bench: CommandBench) -> None:
    code = "import os, sys; sys.stdout.reconfigure(encoding='utf-8'); print(os.environ['YOUBENCHA_PROMPT'])"
    result = await bench.python(code, prompt=PROMPT, prompt_by="environment")
    assert result.output.rstrip("\n") == PROMPT


async def test_no_prompt_at_all(bench: CommandBench) -> None:
    assert await shown(bench) == {"args": [], "in": ""}
    assert (await shown(bench, prompt="never seen", prompt_by="none"))["args"] == []


async def test_a_prompt_too_long_for_an_argument(bench: CommandBench) -> None:
    with pytest.raises(ConfigError, match="use stdin or file"):
        await bench.python(SHOW, prompt="x" * 200_000)
    assert len((await shown(bench, prompt="x" * 200_000, prompt_by="stdin"))["in"]) == 200_000


async def test_a_prompt_file(bench: CommandBench, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("from a file")
    found = await bench.python(SHOW, prompt_file="task.md", context={"config_dir": tmp_path})
    assert json.loads(found.output)["args"] == ["from a file"]


# -- the program ----------------------------------------------------------------------------------------------------


async def test_a_line_is_split_into_words_without_a_shell(bench: CommandBench) -> None:
    script = bench.workspace / "show.py"
    script.write_text(SHOW)
    result = await bench.run(command=f"'{sys.executable}' -S show.py 'a b' $HOME | cat", prompt="p")
    assert json.loads(result.output)["args"] == ["a b", "$HOME", "|", "cat", "p"]


@on_posix
async def test_a_shell_gets_the_prompt_as_its_first_argument(bench: CommandBench) -> None:
    result = await bench.run(command='printf "%s|%s" "$1" "$2" | tr a-z A-Z', shell=True, prompt="$(id); x", args=["y"])
    assert result.output == "$(ID); X|Y"


@on_posix
async def test_a_program_beside_the_test_case_or_in_the_repository(bench: CommandBench, tmp_path: Path) -> None:
    for place, word in ((bench.workspace, "workspace"), (tmp_path, "beside")):
        (place / "agent.sh").write_text(f"#!/bin/sh\necho {word}\n")
        (place / "agent.sh").chmod(0o755)
    assert (await bench.run(command="./agent.sh")).output == "workspace\n"
    assert (await bench.run(command="./agent.sh", context={"config_dir": tmp_path})).output == "beside\n"


@pytest.mark.parametrize("command", ["no-such-program-here", "./nowhere.sh", "/nowhere/at/all"])
async def test_a_missing_program(bench: CommandBench, command: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        await bench.run(command=command)
    assert caught.value.code == "COMMAND_NOT_FOUND"


async def test_readiness(bench: CommandBench) -> None:
    await bench.adapter.check_ready({"command": PLAIN_PYTHON}, {})
    await bench.adapter.check_ready({"command": "./comes-with-the-repository.sh"}, {})
    with pytest.raises(YouBenchaError, match="no-such-program-here"):
        await bench.adapter.check_ready({"command": "no-such-program-here"}, {})


# -- its world -------------------------------------------------------------------------------------------------------


async def test_variables_of_the_program(bench: CommandBench) -> None:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    context = {"env": {"GIVEN": "yes"}, "model": "m-2"}
    env = json.loads((await bench.python(code, prompt="p", agent_name="reviewer", context=context)).output)
    assert env["TASK_DIR"] == str(bench.workspace)
    assert (env["GIVEN"], env["YOUBENCHA_MODEL"], env["YOUBENCHA_AGENT_NAME"]) == ("yes", "m-2", "reviewer")
    assert Path(env["TASK_DESCRIPTION"]).name == "prompt.md"
    assert "SOMEBODYS_SECRET" not in env


async def test_events(bench: CommandBench) -> None:
    events: list[Event] = []
    await bench.python("pass", context={"on_event": events.append})
    assert [type(event) for event in events] == [UserText, ProcessStarted, ProcessEnded]


# -- its end --------------------------------------------------------------------------------------------------------


async def test_configured_success_exit_codes(bench: CommandBench) -> None:
    result = await bench.python("import sys; sys.exit(3)", success_exit_codes=[0, 3])
    assert (result.status, result.exit_code, result.errors) == ("success", 3, ())
    result = await bench.python("import sys; sys.exit('it broke')", success_exit_codes=[0, 3])
    assert (result.status, [error.code for error in result.errors]) == ("failed", ["COMMAND_EXIT_CODE"])
    assert "it broke" in result.errors[0].message


async def test_api_error_text_in_its_output_is_ignored(bench: CommandBench) -> None:
    result = await bench.python("import sys; sys.exit('401 invalid api key: rate limit')")
    assert [error.code for error in result.errors] == ["COMMAND_EXIT_CODE"]


@on_posix
async def test_a_crash(bench: CommandBench) -> None:
    result = await bench.python("import os; os.kill(os.getpid(), 11)")
    assert (result.status, result.exit_code) == ("failed", 139)
    assert [error.code for error in result.errors] == ["COMMAND_CRASHED"]


async def test_output_becomes_the_answer(bench: CommandBench) -> None:
    result = await bench.python("print('\\x1b[1mbold\\x1b[0m')", prompt="Be bold.", context={"model": "m-3"})
    assert bench.context is not None
    log = bench.adapter.normalize_log(result, bench.context)
    assert [(message.role, message.content) for message in log.messages] == [
        ("user", "Be bold."),
        ("assistant", "bold"),
    ]
    assert (log.model_info.name, log.model_info.provider, log.agent_info.version) == ("m-3", "unknown", "unknown")
    assert (log.usage, log.turns) == (None, None)


async def test_the_last_lines_of_a_long_output_are_in_the_log(bench: CommandBench) -> None:
    result = await bench.python(
        "print('first'); print(('x' * 999 + chr(10)) * 12_000); print('last'); raise SystemExit(3)"
    )
    assert bench.context is not None
    log = bench.adapter.normalize_log(result, bench.context)
    (answer,) = log.messages
    left_out = 12_000 * 1000 + 12 - 10 * 1024 * 1024 - 256 * 1024
    assert answer.content.startswith("first\nx")
    assert answer.content.endswith("x\n\nlast")
    assert f"\n[{left_out:,} bytes left out here]\nx" in answer.content
    assert [error.code for error in log.errors] == ["COMMAND_EXIT_CODE", "COMMAND_OUTPUT_TRUNCATED"]
    assert log.errors[0].message.endswith("\nlast")
    (warning,) = log.warnings
    assert (warning.code, warning.context) == (
        "COMMAND_TRANSCRIPT_SHORTENED",
        {"messages": 0, "tool_calls": 0, "characters": 0, "bytes": left_out},
    )


# -- what it tells of itself -----------------------------------------------------------------------------------------


def writes_metrics(text: str) -> str:
    return f"import os; open(os.environ['YOUBENCHA_METRICS_FILE'], 'w').write({text!r})"


async def test_metrics_in_a_file(bench: CommandBench) -> None:
    metrics = {"input_tokens": 1000, "output_tokens": 50, "cache_read_tokens": 7, "turns": 3, "cost_usd": 0.25}
    metrics |= {"tools_used": ["Bash", "Read", "Bash"], "model": "m-4", "something": "else"}  # type: ignore[dict-item]
    result = await bench.python(writes_metrics(json.dumps(metrics)))
    assert bench.context is not None
    log = bench.adapter.normalize_log(result, bench.context)
    assert log.usage is not None
    assert log.usage.model_dump(exclude_none=True) == {
        "input_tokens": 1000,
        "output_tokens": 50,
        "total_tokens": 1057,
        "cache_read_tokens": 7,
        "cost_usd": 0.25,
        "cost_source": "agent",
        "partial": False,
    }
    assert (log.turns, log.model_info.name) == (3, "m-4")
    assert result.session.facts.tools_used == {"Bash": 2, "Read": 1}


@pytest.mark.parametrize("text", ["", "not json", "[1]", '{"input_tokens": "many", "turns": -1}', "\\ud800"])
async def test_unusable_metrics(bench: CommandBench, text: str) -> None:
    result = await bench.python(writes_metrics(text))
    assert bench.context is not None
    log = bench.adapter.normalize_log(result, bench.context)
    assert (result.status, log.usage, log.turns) == ("success", None, None)


@on_posix
async def test_a_pipe_instead_of_the_metrics_file_does_not_block(bench: CommandBench) -> None:
    result = await bench.python("import os; os.mkfifo(os.environ['YOUBENCHA_METRICS_FILE'])")
    assert result.status == "success"


# -- its output ------------------------------------------------------------------------------------------------------


@on_posix
async def test_a_terminal(bench: CommandBench) -> None:
    """As wide as possible, and without colours, if the program respects its type."""
    look = "import os, sys; print(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns, os.environ['TERM'])"
    assert (await bench.python(look, pty="always")).output == "True True 65535 dumb\n"
    result = await bench.python(look, pty="always", context={"env": {"TERM": "xterm"}})
    assert result.output.split()[-1] == "xterm"
    assert (await bench.python("import os; print(os.isatty(1))")).output == "False\n"


async def test_its_text_is_shown_as_it_arrives(bench: CommandBench) -> None:
    """Masked, also if a secret has several lines."""
    key = "-----BEGIN KEY-----\nabcdefghijklmnop\nqrstuvwxyz123456\n-----END KEY-----"
    code = "import os; print('grün'); print(os.environ['MY_API_KEY']); print('\\x1b[31mred\\x1b[0m\\r')"
    events: list[Event] = []
    await bench.python(
        code, context={"on_event": events.append, "env": {"MY_API_KEY": key, "PYTHONIOENCODING": "utf-8"}}
    )
    text = "".join(event.text for event in events if isinstance(event, AssistantTextDelta))
    assert text == "grün\n[REDACTED]\nred\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_any_output_is_a_sign_of_life(bench: CommandBench, stream: str) -> None:
    heard: list[None] = []
    await bench.python(f"import sys; print('x', file=sys.{stream})", context={"on_output": lambda: heard.append(None)})
    assert heard
    heard.clear()
    await bench.python("pass", context={"on_output": lambda: heard.append(None)})
    assert not heard


# -- its configuration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "path", "says"),
    [
        ({}, "command", "is required"),
        ({"command": []}, "command", "at least 1"),
        ({"command": ""}, "command", "names no program"),
        ({"command": "a 'b"}, "command", "cannot be split"),
        ({"command": ["a"], "shell": True}, "command", "one line of text"),
        ({"command": "a {prompt}", "shell": True}, "command", "must not contain {prompt}"),
        ({"command": "a", "prompt": "x", "prompt_file": "y"}, "prompt_file", "exactly one"),
        ({"command": "a", "prompt_by": "telepathy"}, "prompt_by", "one of"),
        ({"command": "a", "comand": "a"}, "comand", "unknown key"),
        ({"command": "a", "prompt_file": "../x"}, "prompt_file", "'..'"),
    ],
)
def test_invalid_configurations(config: dict[str, Any], path: str, says: str, tmp_path: Path) -> None:
    problems = CommandAdapter().check_config(config, tmp_path)
    assert [problem.path for problem in problems] == [path], problems
    assert says in problems[0].message


def test_a_valid_configuration_has_no_problems(tmp_path: Path) -> None:
    assert CommandAdapter().check_config({"command": "a b", "prompt": "x"}, tmp_path) == ()
