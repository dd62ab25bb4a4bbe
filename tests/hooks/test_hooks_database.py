"""Results written to a file or a table, by many concurrent runs."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hook_bench import HookBench, bundle

from systems import linux_only, posix_only
from youbencha.hooks import run_post_evaluation
from youbencha.hooks.database import append_line, open_locked
from youbencha.spec.testcase import DatabaseConfig, DatabaseHook
from youbencha.store.bundle import HookResult, ResultsBundle

WRITER = """\
import asyncio, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from hook_bench import bundle
from youbencha.hooks import HookContext, run_post_evaluation
from youbencha.process import Redactor
from youbencha.spec.testcase import DatabaseConfig, DatabaseHook
here, number = pathlib.Path(sys.argv[2]), sys.argv[3]
directories = dict(working_dir=here, artifacts_dir=here, config_dir=here)
context = HookContext(**directories, variables={}, env=os.environ, redactor=Redactor())
for kind, output in (("json-file", "r.jsonl"), ("sqlite", "r.db")):
    hook = DatabaseHook(name="database", config=DatabaseConfig(type=kind, output_path=output))
    print("ready", flush=True)
    sys.stdin.readline()
    for each in range(5):
        large = bundle(f"{number}-{each}", version="x" * 200_000)
        (result,) = asyncio.run(run_post_evaluation([hook], large, context))
        assert result.status == "success", result
"""


async def keep(
    bench: HookBench, kind: str, output: str, results: ResultsBundle | None = None, **config: Any
) -> HookResult:
    hook = DatabaseHook(name="database", config=DatabaseConfig(type=kind, output_path=output, **config))  # type: ignore[arg-type]
    results = results or bundle()
    context = bench.after(results, {**os.environ, "WHERE": "deep"})
    (result,) = await run_post_evaluation([hook], results, context)
    return result


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def rows(file: Path, query: str = 'SELECT * FROM "results" ORDER BY run_id') -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


SUMMARY = {
    "run_id": "run-1",
    "test_case": "Fix it",
    "agent": "claude-code",
    "model": "opus",
    "overall_status": "passed",
    "outcome": "solved",
    "valid": True,
    "duration_ms": 1234,
    "input_tokens": 10,
    "output_tokens": 20,
    "cost_usd": 0.25,
    "started_at": "2026-01-02T03:04:05.678Z",
    "commit": "c0ffee",
}


async def test_each_result_is_appended_as_a_line(hook_bench: HookBench) -> None:
    result = await keep(hook_bench, "json-file", "${WHERE}/results.jsonl")
    file = hook_bench.config / "deep" / "results.jsonl"
    assert (result.status, result.metadata["output_path"]) == ("success", str(file))
    await keep(hook_bench, "json-file", "deep/results.jsonl", bundle("run-2"))
    first, second = lines(file)
    assert first.pop("exported_at").endswith("Z")
    assert first == bundle().model_dump(mode="json")
    assert second["identity"]["run_id"] == "run-2"


async def test_a_line_without_details_has_the_form_of_the_whole_result(hook_bench: HookBench) -> None:
    await keep(hook_bench, "json-file", "r.jsonl", include_full_bundle=False)
    (line,) = lines(hook_bench.config / "r.jsonl")
    whole = bundle().model_dump(mode="json")
    (evaluator,) = line.pop("evaluators")
    assert evaluator.keys() == {"evaluator", "status", "metrics", "message", "duration_ms", "timestamp"}
    assert evaluator.items() <= whole["evaluators"][0].items()
    kept = ("version", "test_case", "execution", "agent", "summary", "artifacts")
    assert {key: line[key] for key in kept} == {key: whole[key] for key in kept}
    assert line["exported_at"].endswith("Z")


async def test_a_row_is_flat_and_unknown_values_are_null(hook_bench: HookBench) -> None:
    await keep(hook_bench, "sqlite", "r.db", include_full_bundle=False)
    await keep(hook_bench, "sqlite", "r.db", bundle("run-2", agent=None, outcome=None), include_full_bundle=False)
    first, second = rows(hook_bench.config / "r.db")
    assert first.items() >= {**SUMMARY, "valid": 1}.items()
    unknown = {key for key, value in second.items() if value is None}
    assert unknown == {"agent", "model", "outcome", "valid", "input_tokens", "output_tokens", "cost_usd", "bundle"}


async def test_without_append_the_file_is_replaced(hook_bench: HookBench) -> None:
    for number in range(3):
        await keep(hook_bench, "json-file", "r.jsonl", bundle(f"run-{number}"), append=False)
    assert [line["identity"]["run_id"] for line in lines(hook_bench.config / "r.jsonl")] == ["run-2"]
    assert [path.name for path in hook_bench.config.iterdir()] == ["r.jsonl"]


@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_missing_line_end_is_added(end: str, hook_bench: HookBench) -> None:
    file = hook_bench.config / "r.jsonl"
    file.write_text('{"a": 1}' + end)
    await keep(hook_bench, "json-file", "r.jsonl")
    first, second = lines(file)
    assert first == {"a": 1}
    assert second["identity"]["run_id"] == "run-1"


WRITERS = 4


def test_several_processes_write_lines_and_rows_concurrently(tmp_path: Path) -> None:
    """All begin with the lines at the same time, and later with the rows."""
    argv = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(tmp_path)]
    writers = [
        subprocess.Popen([*argv, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(WRITERS)
    ]
    for _ in ("lines", "rows"):
        for writer in writers:
            assert writer.stdout
            assert writer.stdout.readline().strip() == b"ready"
        for writer in writers:
            assert writer.stdin
            writer.stdin.write(b"go\n")
            writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert (writer.returncode, errors) == (0, b"")
    expected = sorted(f"{number}-{each}" for number in range(WRITERS) for each in range(5))
    assert sorted(line["identity"]["run_id"] for line in lines(tmp_path / "r.jsonl")) == expected
    assert sorted(row["run_id"] for row in rows(tmp_path / "r.db")) == expected


@posix_only("an open file cannot be replaced there")
def test_a_writer_that_waited_for_a_replaced_file_uses_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text("old\n")
    with open_locked(file):
        waiting = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import pathlib, sys; import youbencha.locks as locking\n"
                "from youbencha.hooks.database import append_line\n"
                "was = locking.try_lock\n"
                "def asked(fd):\n"
                "    got = was(fd)\n"
                "    if not got: print('waits', flush=True)\n"
                "    return got\n"
                "locking.try_lock = asked\n"
                f"append_line(pathlib.Path({str(file)!r}), b'mine')",
            ],
            stdout=subprocess.PIPE,
        )
        assert waiting.stdout
        assert waiting.stdout.readline() == b"waits\n"
        (tmp_path / "new").write_text("new\n")
        (tmp_path / "new").replace(file)
    waiting.communicate(timeout=60)
    assert (waiting.returncode, file.read_text()) == (0, "new\nmine\n")


@linux_only("needs /dev/full's kind of limit: the size of a file")
def test_a_full_disk_leaves_no_partial_line(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text("old\n")
    script = (
        "import pathlib, resource, signal; from youbencha.hooks.database import append_line\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"append_line(pathlib.Path({str(file)!r}), b'x' * 5000)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "OSError" in done.stderr
    assert file.read_text() == "old\n"


def test_a_file_that_stays_locked_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    append_line(file, b"{}")
    with (
        open_locked(file),
        pytest.raises(Exception, match="locked"),
        open_locked(file, max_wait_s=0.05),
    ):
        pass


async def test_a_table_has_a_row_for_each_run(hook_bench: HookBench) -> None:
    result = await keep(hook_bench, "sqlite", "deep/r.db")
    file = hook_bench.config / "deep" / "r.db"
    assert (result.status, result.metadata["output_path"]) == ("success", str(file))
    await keep(hook_bench, "sqlite", "deep/r.db", bundle("run-2", agent=None, outcome=None), include_full_bundle=False)
    first, second = rows(file)
    assert json.loads(first.pop("bundle")) == bundle().model_dump(mode="json")
    assert first.pop("exported_at").endswith("Z")
    assert first == {**SUMMARY, "valid": 1}
    assert [key for key, value in second.items() if value is None] == [
        "agent",
        "model",
        "outcome",
        "valid",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "bundle",
    ]


async def test_the_same_run_written_twice_is_one_row(hook_bench: HookBench) -> None:
    for name in ("first", "second"):
        result = await keep(hook_bench, "sqlite", "r.db", bundle(version=name))
        assert result.status == "success"
    (row,) = rows(hook_bench.config / "r.db")
    assert json.loads(row["bundle"])["version"] == "second"


async def test_without_append_only_this_table_is_emptied(hook_bench: HookBench) -> None:
    await keep(hook_bench, "sqlite", "r.db")
    await keep(hook_bench, "sqlite", "r.db", table="others")
    await keep(hook_bench, "sqlite", "r.db", bundle("run-2"), append=False)
    file = hook_bench.config / "r.db"
    assert [row["run_id"] for row in rows(file)] == ["run-2"]
    assert [row["run_id"] for row in rows(file, 'SELECT * FROM "others"')] == ["run-1"]


async def test_missing_columns_are_added_to_an_older_table(hook_bench: HookBench) -> None:
    file = hook_bench.config / "r.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute('CREATE TABLE "results" (run_id TEXT PRIMARY KEY, mine TEXT)')
        connection.execute("INSERT INTO results VALUES ('run-0', 'kept')")
        connection.commit()
    assert (await keep(hook_bench, "sqlite", "r.db")).status == "success"
    old, new = rows(file)
    assert (old["mine"], old["model"], new["mine"], new["model"]) == ("kept", None, None, "opus")


async def test_an_unrelated_table_is_not_changed(hook_bench: HookBench) -> None:
    file = hook_bench.config / "r.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute('CREATE TABLE "results" (athlete TEXT)')
        connection.commit()
    result = await keep(hook_bench, "sqlite", "r.db", append=False)
    assert (result.status, "no column run_id" in result.message) == ("failed", True)
    with closing(sqlite3.connect(file)) as connection:
        assert [row[1] for row in connection.execute("PRAGMA table_info(results)")] == ["athlete"]


async def test_a_file_that_is_not_a_database_is_reported_and_not_changed(hook_bench: HookBench) -> None:
    file = hook_bench.config / "r.db"
    file.write_text("my notes " * 100)
    result = await keep(hook_bench, "sqlite", "r.db")
    assert result.status == "failed"
    assert result.error
    assert (result.error.code, "is not a database" in result.message) == ("HOOK_DATABASE_FAILED", True)
    assert file.read_text() == "my notes " * 100


@pytest.mark.parametrize("kind", ["json-file", "sqlite"])
async def test_an_unwritable_path(kind: str, hook_bench: HookBench) -> None:
    (hook_bench.config / "file").write_text("")
    for output in ("file/below", "."):
        result = await keep(hook_bench, kind, output)
        assert (result.status, result.error and result.error.code) == ("failed", "HOOK_DATABASE_FAILED")
    result = await keep(hook_bench, kind, "${NOBODY_KNOWS_THIS}.x")
    assert (result.status, result.error and result.error.code) == ("failed", "HOOK_VARIABLE_UNKNOWN")
    assert [path.name for path in hook_bench.config.iterdir()] == ["file"]
