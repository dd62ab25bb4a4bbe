"""The contract for any program: its inputs, exit codes and metrics file; also in a sandbox."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from command_bench import CommandBench
from renamed_sandbox import RenamedSandbox

from youbencha.adapters import AgentExecutionResult
from youbencha.adapters.command import CommandAdapter
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.gateway.access import GatewayAccess
from youbencha.log.model import YouBenchaLog

SIDECAR = ".thunderdome-metrics.json"
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes, and programs in shell")


@pytest.fixture
def bench(tmp_path: Path) -> CommandBench:
    return CommandBench(tmp_path)


def log_of(bench: CommandBench, result: AgentExecutionResult) -> YouBenchaLog:
    assert bench.context is not None
    return bench.adapter.normalize_log(result, bench.context)


# -- its end ----------------------------------------------------------------------------------------------------------


async def test_exit_code_2_means_giving_up(bench: CommandBench) -> None:
    result = await bench.python("import sys; print('rate limit? no: too hard'); sys.exit(2)")
    assert (result.status, result.exit_code) == ("failed", 2)
    assert [error.code for error in result.errors] == ["COMMAND_GAVE_UP"]
    assert "too hard" in result.errors[0].message


async def test_exit_code_2_may_be_a_success(bench: CommandBench) -> None:
    assert (await bench.python("import sys; sys.exit(2)", success_exit_codes=[2])).status == "success"


async def test_any_other_code_is_a_crash(bench: CommandBench) -> None:
    result = await bench.python("import sys; sys.exit(1)")
    assert [error.code for error in result.errors] == ["COMMAND_EXIT_CODE"]


def test_command_needs_no_model() -> None:
    assert not CommandAdapter.needs_model


# -- its figures ------------------------------------------------------------------------------------------------------


def writes(text: str, name: str = SIDECAR) -> str:
    return f"open({name!r}, 'w').write({text!r}); open('work.txt', 'w').write('done')"


async def test_the_sidecar_is_read_and_removed_from_the_workspace(bench: CommandBench) -> None:
    metrics: dict[str, Any] = {
        "input_tokens": 100,
        "output_tokens": 5,
        "total_cost_usd": 0.5,
        "turns": 2,
        "duration_ms": 9,
    }
    metrics |= {"tools_used": ["Bash", "Bash"], "session_id": None}
    result = await bench.python(writes(json.dumps(metrics)))
    log = log_of(bench, result)
    assert log.usage is not None
    assert (log.usage.input_tokens, log.usage.output_tokens, log.usage.cost_usd) == (100, 5, 0.5)
    assert log.turns == 2
    assert [call.name for call in log.tool_calls] == ["Bash", "Bash"]
    assert log.warnings == ()
    assert sorted(path.name for path in bench.workspace.iterdir()) == ["work.txt"]
    assert [path.name for path in bench.artifacts.iterdir()] == ["command-logs"]  # the rest is the trial's


async def test_the_sidecar_of_a_program_that_failed(bench: CommandBench) -> None:
    result = await bench.python(writes('{"turns": 3}') + "; import sys; sys.exit(1)")
    assert result.session.facts.turns == 3
    assert not (bench.workspace / SIDECAR).exists()


async def test_a_sidecar_in_the_repository_is_ignored(bench: CommandBench) -> None:
    (bench.workspace / SIDECAR).write_text('{"turns": 99}')
    result = await bench.python("pass")
    assert result.session.facts.turns is None
    assert (bench.workspace / SIDECAR).read_text() == '{"turns": 99}'


async def test_large_metrics_do_not_fill_memory(bench: CommandBench) -> None:
    result = await bench.python(writes('{"tools_used": {"Bash": 1000000000000}}'))
    assert len(log_of(bench, result).tool_calls) == 10_000


WRONG = {"input_tokens": "100", "output_tokens": 5, "turns": -1, "cost_usd": "much", "tools_used": {"Bash": None}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'turns': 3}", f"{SIDECAR} is not JSON"),
        ("", f"{SIDECAR} is not JSON"),
        ("[1, 2]", f"{SIDECAR} is not a JSON object"),
        (json.dumps(WRONG), "input_tokens is '100'; cost_usd is 'much'; turns is -1; tools_used is {'Bash': None}"),
    ],
)
async def test_unreadable_metrics_are_reported(text: str, message: str, bench: CommandBench) -> None:
    result = await bench.python(writes(text))
    assert (result.status, [warning.code for warning in result.warnings]) == ("success", ["COMMAND_METRICS_UNREADABLE"])
    assert message in result.warnings[0].message
    assert log_of(bench, result).turns is None


async def test_readable_metrics_beside_invalid_ones_count(bench: CommandBench) -> None:
    log = log_of(bench, await bench.python(writes(json.dumps(WRONG))))
    assert log.usage is not None
    assert (log.usage.input_tokens, log.usage.output_tokens) == (None, 5)


async def test_the_metrics_file_variable_is_checked_too(bench: CommandBench) -> None:
    code = "import os; open(os.environ['YOUBENCHA_METRICS_FILE'], 'w').write('turns: 3'); "
    result = await bench.python(code + writes('{"turns": 4}'))
    assert "YOUBENCHA_METRICS_FILE is not JSON" in result.warnings[0].message
    assert log_of(bench, result).turns == 4


async def test_secrets_are_masked_in_warnings(bench: CommandBench) -> None:
    secret = "a-key-that-is-longer-than-what-is-quoted-of-it-0123456789"
    result = await bench.python(writes(json.dumps({"turns": secret})), context={"env": {"ANTHROPIC_API_KEY": secret}})
    assert "turns is" in result.warnings[0].message
    assert secret[:10] not in result.warnings[0].message


@on_posix
@pytest.mark.parametrize(
    ("leave", "is_gone"),
    [
        ("os.symlink(elsewhere, SIDECAR)", True),
        ("os.mkfifo(SIDECAR)", True),
        ("open(SIDECAR, 'w').truncate(1 << 40)", True),
        ("open(SIDECAR, 'w').write('[1, 2]')", True),
        ("os.mkdir(SIDECAR)", False),
    ],
)
async def test_an_invalid_sidecar(leave: str, is_gone: bool, bench: CommandBench, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"turns": 99}')
    code = f"import os; SIDECAR = {SIDECAR!r}; elsewhere = {str(elsewhere)!r}; {leave}"
    result = await bench.python(code)
    assert (result.status, result.session.facts.turns) == ("success", None)
    assert os.path.lexists(bench.workspace / SIDECAR) is not is_gone
    assert [warning.code for warning in result.warnings] == ["COMMAND_METRICS_UNREADABLE"]
    assert elsewhere.exists()


# -- in a sandbox ------------------------------------------------------------------------------------------------------

TELL = '#!/bin/sh\nenv > env.txt\ncat "$TASK_DESCRIPTION" > task.txt\necho "$@" > args.txt\n'
METRICS = '#!/bin/sh\necho \'{"turns": 4}\' > "$YOUBENCHA_METRICS_FILE"\n'


class Inside:
    """A bench whose programs run in a sandbox with names of its own."""

    def __init__(self, directory: Path) -> None:
        self.bench = CommandBench(directory)
        self.sandbox = RenamedSandbox(directory / "inside", self.bench.workspace)
        self.beside = directory / "case"
        (self.beside / "agents").mkdir(parents=True)

    def program(self, name: str, text: str) -> Path:
        path = self.beside / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    async def run(self, *, context: dict[str, Any] | None = None, **config: Any) -> AgentExecutionResult:
        metrics = {"sandbox": self.sandbox, "config_dir": self.beside, **(context or {})}
        return await self.bench.run(context=metrics, **config)

    def read(self, name: str) -> str:
        return (self.bench.workspace / name).read_text()


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


@on_posix
async def test_only_the_program_beside_the_test_case_is_shared(inside: Inside) -> None:
    program = inside.program("agent.sh", TELL)
    access = GatewayAccess(url="http://127.0.0.1:4000", key="k-123456789012")
    result = await inside.run(command=["./agent.sh"], prompt="Do it.", context={"gateway": access})
    assert result.status == "success", result.errors
    env = dict(line.split("=", 1) for line in inside.read("env.txt").splitlines() if "=" in line)
    assert env["TASK_DIR"] == str(inside.sandbox.top / "workspace")
    assert env["PROXY_URL"] == "http://127.0.0.1:4000"
    assert env["TASK_DESCRIPTION"].startswith(str(inside.sandbox.top))
    assert inside.read("task.txt") == "Do it."
    assert inside.sandbox.shared[program] is False
    assert [path for path, writable in inside.sandbox.shared.items() if not writable] == [program]


@on_posix
async def test_metrics_from_a_sandbox_are_read(inside: Inside) -> None:
    inside.program("agent.sh", METRICS)
    result = await inside.run(command=["./agent.sh"])
    assert result.session.facts.turns == 4


@on_posix
async def test_a_program_of_the_repository_needs_no_sharing(inside: Inside) -> None:
    path = inside.bench.workspace / "agent.sh"
    path.write_text(TELL)
    path.chmod(0o755)
    await inside.run(command=["./agent.sh"], prompt="p")
    assert path not in inside.sandbox.shared
    assert inside.read("args.txt") == "p\n"


@on_posix
@pytest.mark.parametrize("name", ["sh", "/bin/sh"])
async def test_programs_of_the_image_are_used(name: str, inside: Inside) -> None:
    result = await inside.run(command=[name, "-c", "echo in there"])
    assert result.output == "in there\n"
    assert list(inside.sandbox.shared.values()) == [True]  # the scratch directory


@on_posix
async def test_programs_of_the_image_are_not_searched_on_the_host(inside: Inside) -> None:
    """A name that only the image knows: whether it is there, the start tells."""
    with pytest.raises(YouBenchaError) as caught:
        await inside.run(command=["only-the-image-has-this"])
    assert caught.value.code == "PROCESS_START_FAILED"


@on_posix
async def test_files_beside_the_test_case_are_shared_by_name(inside: Inside) -> None:
    inside.program("agent.sh", TELL)
    helper = inside.program("agents/fix.py", "")
    await inside.run(command=["./agent.sh", "{config_dir}/agents/fix.py", "--x={config_dir}/agents/fix.py"])
    seen = inside.sandbox.inside(helper)
    assert inside.read("args.txt") == f"{seen} --x={seen}\n"


@on_posix
@pytest.mark.parametrize("word", ["{config_dir}", "{config_dir}/", "{config_dir}/../elsewhere", "{config_dir}/missing"])
async def test_the_test_cases_directory_is_never_shared(word: str, inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    inside.program("agent.sh", TELL)
    with pytest.raises(ConfigError, match="not visible in a container"):
        await inside.run(command=["./agent.sh", word])
    assert inside.beside not in inside.sandbox.shared
