"""`ralph emit` and `ralph tools`, as agents call them: the real programs, several at once, on hostile files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systems import posix_only
from yb import yb
from youbencha.loop.agent_commands import Answer, Place, answer
from youbencha.loop.memories import DEFAULT_BUDGET, Memories, within_budget
from youbencha.loop.tasks import Task, TaskList, ready_tasks, task_lines
from youbencha.loop.topics import TopicLog
from youbencha.text import clean_text

RALPH = (sys.executable, "-c", "from youbencha.cli import ralph; ralph()")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, TopicLog(tmp_path / ".ralph" / "events.jsonl", tmp_path))


def ralph(project: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RALPH_")}
    return subprocess.run(
        [*RALPH, *arguments], cwd=project, env={**clean, **env}, capture_output=True, text=True, timeout=60, check=False
    )


def ok(place: Place, *arguments: str) -> str:
    done = answer(arguments, place)
    assert done.code == 0, done.text
    return done.text


def refused(place: Place, *arguments: str) -> str:
    done = answer(arguments, place)
    assert done.code == 2
    assert done.text.startswith("error ")
    return done.text


def test_a_request_of_a_quarter_of_a_million_words_is_refused_at_once(place: Place) -> None:
    assert "the commands are" in refused(place, *[""] * 250_000)


def test_emit_writes_to_the_file_of_the_running_loop(tmp_path: Path) -> None:
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / ".ralph").mkdir()
    (tmp_path / ".ralph" / "current-events").write_text(".ralph/events-1.jsonl\n")
    done = ralph(below, "emit", "build.done", "tests: pass")
    assert (done.returncode, done.stdout, done.stderr) == (0, "published build.done\n", "")
    events = str(tmp_path / ".ralph" / "events-2.jsonl")
    assert ralph(below, "emit", "merge.complete", "--json", '{"a": 1}', RALPH_EVENTS_FILE=events).returncode == 0
    assert ralph(below, "emit", "mine", "--file", "own.jsonl", "--ts", "T").returncode == 0
    (first,), (second,), (third,) = (
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in (tmp_path / ".ralph" / "events-1.jsonl", Path(events), below / "own.jsonl")
    )
    assert (first["topic"], first["payload"]) == ("build.done", "tests: pass")
    assert (second["topic"], second["payload"]) == ("merge.complete", {"a": 1})
    assert third == {"topic": "mine", "payload": None, "ts": "T"}


def test_yb_loop_has_the_same_commands(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from youbencha.cli import main; main()", "loop"]
    added = subprocess.run(
        [*program, "tools", "task", "add", "Parse", "-p", "1", "--format", "quiet"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert TaskList(tmp_path).get(added.stdout.strip()).priority == 1
    shown = subprocess.run([*program, "emit", "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (shown.returncode, "PAYLOAD" in shown.stdout) == (0, True)


LOADED = (
    "import sys; from youbencha.cli.loop_tools import call; call(['emit', 'a']);"
    "print(*(name.partition('.')[0] for name in sys.modules))"
)


def test_emit_loads_nothing_that_is_slow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    slow = {"pydantic", "typer", "rich", "textual", "ruamel", "psutil", "aiohttp"}
    assert {*done.stdout.split()} & slow == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("emit",), "TOPIC"),
        (("emit", "two words"), "TOPIC_INVALID"),
        (("emit", ""), "TOPIC_INVALID"),
        (("emit", "a", "b", "c"), "unrecognized arguments: c"),
        (("emit", "a", "--json", "{"), "PAYLOAD_NOT_JSON"),
        (("emit", "a", "--json", "[" * 10_000), "PAYLOAD_NOT_JSON"),
        (("emit", "a", "x" * 30_000), "PAYLOAD_TOO_LARGE"),
        (("emit", "a", "--file", ".", "b"), "directory"),
        (("tools",), "ralph tools task add"),
        (("tools", "task"), "ralph tools task ready"),
        (("tools", "task", "fly"), "ralph tools task ready"),
        (("tools", "task", "add", " \n"), "TASK_WITHOUT_TITLE"),
        (("tools", "task", "close", "task-1"), "TASK_NOT_FOUND"),
        (("tools", "task", "ensure", "title"), "--key"),
        (("tools", "memory", "add", "x", "-t", "poem"), "invalid choice"),
        (("tools", "memory", "add", ""), "MEMORY_EMPTY"),
        (("tools", "memory", "delete", "mem-1-aaaa"), "MEMORY_NOT_FOUND"),
        (("tools", "skill", "load", "x"), "not supported yet"),
        (("run",), "ralph emit"),
        ((), "ralph emit"),
    ],
)
def test_mistakes_are_answered_with_what_is_wrong(place: Place, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(place, *arguments)


@pytest.mark.parametrize(
    "arguments", [("emit", "-h"), ("tools", "--help"), ("tools", "task", "add", "--help"), ("-h",)]
)
def test_help(place: Place, arguments: tuple[str, ...]) -> None:
    assert "ralph" in ok(place, *arguments)


def test_a_payload_may_begin_with_a_dash(place: Place) -> None:
    ok(place, "emit", "a", "- first\n- second")
    ok(place, "emit", "b", "--", "--text")
    assert [event.payload for event in place.events.read_new().events] == ["- first\n- second", "--text"]


def test_what_presets_only_mention_does_not_fail(place: Place) -> None:
    assert "noted: half done" in ok(place, "tools", "interact", "progress", "half", "done")
    assert "no skills" in ok(place, "tools", "skill", "list")


def test_the_life_of_a_task(place: Place) -> None:
    first = ok(place, "tools", "task", "ensure", "Set up", "--key", "auth:setup", "-p", "1", "--format", "quiet")
    second = ok(
        place, "tools", "task", "add", "Routes", "-d", "All of them", "--blocked-by", f"{first}, ", "--format", "quiet"
    )
    again = ok(place, "tools", "task", "ensure", "Set up auth", "--key", "auth:setup", "--format", "json")
    assert (json.loads(again)["id"], json.loads(again)["title"]) == (first, "Set up auth")
    assert ok(place, "tools", "task", "ready", "--format", "quiet") == first
    ok(place, "tools", "task", "start", first)
    assert ok(place, "tools", "task", "ready") == "no task is ready"
    ok(place, "tools", "task", "close", first)
    assert ok(place, "tools", "task", "ready", "--format", "quiet") == second
    ok(place, "tools", "task", "fail", second)
    assert ok(place, "tools", "task", "list") == "no tasks"
    everything = json.loads(ok(place, "tools", "task", "list", "--all", "--format", "json"))
    assert [(task["id"], task["status"]) for task in everything] == [(first, "closed"), (second, "failed")]
    assert ok(place, "tools", "task", "list", "-s", "failed", "--format", "quiet") == second
    ok(place, "tools", "task", "reopen", second)
    shown = json.loads(ok(place, "tools", "task", "show", second, "--format", "json"))
    assert (shown["status"], shown["description"], shown["blocked_by"]) == ("open", "All of them", [first])
    assert "closed" not in shown
    assert second in ok(place, "tools", "task", "show", second)


def test_a_line_of_the_file_is_what_the_original_writes(place: Place) -> None:
    ok(place, "tools", "task", "add", "Parse")
    (record,) = map(json.loads, (place.project / ".ralph" / "agent" / "tasks.jsonl").read_text().splitlines())
    assert set(record) == {"id", "title", "status", "priority", "blocked_by", "created"}
    assert (record["status"], record["priority"], record["blocked_by"]) == ("open", 3, [])


def test_tasks_of_other_loops_are_not_ready_here(tmp_path: Path) -> None:
    events = TopicLog(tmp_path / "events.jsonl")
    here, there = Place(tmp_path, events, "loop-1"), Place(tmp_path, events, "loop-2")
    ok(there, "tools", "task", "add", "Theirs")
    mine = ok(here, "tools", "task", "add", "Mine", "--format", "quiet")
    assert ok(here, "tools", "task", "ready", "--format", "quiet") == mine
    assert len(ok(here, "tools", "task", "ready", "--all", "--format", "quiet").split()) == 2


def test_lines_that_are_no_tasks_are_kept(place: Place) -> None:
    file = place.project / ".ralph" / "agent" / "tasks.jsonl"
    file.parent.mkdir(parents=True)
    good = '{"id":"task-1-aaaa","title":"T","status":"open","priority":1,"created":"2025-01-01T00:00:00+00:00"}'
    bad = ["not JSON", '{"id":"task-2","title":"T","status":"flying","priority":1}', '{"title":"no id"}', "[]"]
    file.write_text("\n".join([*bad, good, good, ""]))
    assert [task.id for task in TaskList(place.project).all()] == ["task-1-aaaa"]
    ok(place, "tools", "task", "start", "task-1-aaaa")
    lines = file.read_text().splitlines()
    assert lines[:5] == [*bad, good], "also the second line with the same id"
    assert json.loads(lines[5])["status"] == "in_progress"


def test_a_task_in_a_prompt_is_one_line() -> None:
    done = Task("task-1", "Done", status="closed")
    first, second = (
        Task("task-2", "A\n# Objective", blocked_by=("task-1",)),
        Task("task-3", "B", blocked_by=("task-2",)),
    )
    tasks = [done, first, second]
    assert ready_tasks(tasks) == [first]
    lines = task_lines([first, second], tasks)
    assert lines[0] == "- `task-2` (ready, priority 3): A # Objective"
    assert "(blocked, priority 3)" in lines[1]


def test_the_life_of_a_memory(place: Place) -> None:
    first = ok(
        place, "tools", "memory", "add", "Uses tabs\n\n# not a heading", "--tags", "style, x", "--format", "quiet"
    )
    second = ok(place, "tools", "memory", "add", "Port 80 is taken", "-t", "fix", "--tags", "net", "--format", "quiet")
    assert Memories(place.project).get(first).content == "Uses tabs\n\n# not a heading"
    assert ok(place, "tools", "memory", "search", "TABS", "--format", "quiet") == first
    assert ok(place, "tools", "memory", "search", "--tags", "NET,y", "--format", "quiet") == second
    assert ok(place, "tools", "memory", "list", "-t", "fix", "--format", "quiet") == second
    assert ok(place, "tools", "memory", "search", "nothing") == "no memories"
    (record,) = json.loads(ok(place, "tools", "memory", "show", second, "--format", "json"))
    assert (record["memory_type"], record["tags"]) == ("fix", ["net"])
    assert "> Port 80 is taken" in ok(place, "tools", "memory", "prime", "--budget", "0", "-t", "fix,context")
    ok(place, "tools", "memory", "delete", first)
    assert [memory.id for memory in Memories(place.project).all()] == [second]


ORIGINAL = """\
# Memories

## Patterns

### mem-1737372000-a1b2
> Uses barrel exports
> in every package
<!-- tags: imports, structure | created: 2025-01-20 -->

Something that a person wrote.

### mem-invalid
> This is no memory

## Decisions

## Fixes

### mem-1737372200-e5f6
> Start docker

## Context
"""


def test_a_file_of_the_original_is_read_and_kept(place: Place) -> None:
    file = place.project / ".ralph" / "agent" / "memories.md"
    file.parent.mkdir(parents=True)
    file.write_text(ORIGINAL)
    first, second = Memories(place.project).all()
    assert (first.content, first.tags, first.created) == (
        "Uses barrel exports\nin every package", ("imports", "structure"), "2025-01-20",
    )  # fmt: skip
    assert (second.type, second.content, second.tags) == ("fix", "Start docker", ())
    added = Memories(place.project).add("Chose SQLite", "decision")
    assert "Something that a person wrote." in file.read_text()
    Memories(place.project).delete(added.id)
    assert file.read_text().split() == ORIGINAL.split()
    Memories(place.project).delete(second.id)
    assert file.read_text() == ORIGINAL.replace("### mem-1737372200-e5f6\n> Start docker\n\n", "")


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60) | st.sampled_from(
    ["## Fixes", "### mem-1-aaaa", "> quote", "<!-- tags: a | created: 2020-01-01 -->", "-->", "a\n## Context\n> b"]
)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=3)), max_size=4))
def test_no_text_can_disturb_other_memories(
    tmp_path_factory: pytest.TempPathFactory, given_texts: list[tuple[str, list[str]]]
) -> None:
    memories = Memories(tmp_path_factory.mktemp("project"))
    kept = [memories.add("the first", "fix", ["tag"])]
    for text, tags in given_texts:
        if clean_text(text).strip():
            kept.append(memories.add(text, "decision", tags))
    found = {memory.id: memory for memory in memories.all()}
    assert found.keys() == {memory.id for memory in kept}
    for memory in kept:
        assert (found[memory.id].type, found[memory.id].tags) == (memory.type, memory.tags)
        assert found[memory.id].content.split() == memory.content.split()


def test_the_newest_memories_are_kept_within_a_budget(tmp_path: Path) -> None:
    memories = Memories(tmp_path)
    ids = [memories.add(f"{number} " + "x" * 1000).id for number in range(20)]
    text = within_budget(memories.all(), DEFAULT_BUDGET)
    assert len(text) <= DEFAULT_BUDGET * 4 + 100
    assert "more memories" in text
    assert within_budget(memories.all(), 0).count("### mem-") == len(ids)
    assert within_budget((), 10) == ""


def test_ids_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have only four random digits."""
    given_bytes = iter(b"\0\1\0\1\0\2\0\1\0\1\0\2")
    names = os.urandom
    monkeypatch.setattr(
        os, "urandom", lambda size: bytes(next(given_bytes) for _ in range(2)) if size == 2 else names(size)
    )
    monkeypatch.setattr(time, "time", lambda: 1.8e9)
    tasks, memories = TaskList(tmp_path), Memories(tmp_path)
    assert [tasks.add("a").id, tasks.add("b").id] == ["task-1800000000-0001", "task-1800000000-0002"]
    assert [memories.add("a").id, memories.add("b").id] == ["mem-1800000000-0001", "mem-1800000000-0002"]
    assert len(tasks.all()) == len(memories.all()) == 2


def test_parallel_calls_lose_nothing(tmp_path: Path) -> None:
    def call(number: int) -> Answer:
        done = [
            ralph(tmp_path, "tools", "task", "add", f"Task {number}"),
            ralph(tmp_path, "tools", "memory", "add", f"Memory {number}"),
            ralph(tmp_path, "emit", f"event.{number}"),
        ]
        return Answer("".join(each.stderr for each in done), max(each.returncode for each in done))

    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(call, range(6))} == {Answer("", 0)}
    assert len(TaskList(tmp_path).all()) == len(Memories(tmp_path).all()) == 6
    assert len(TopicLog(tmp_path / ".ralph" / "events.jsonl").read_new().events) == 6


@posix_only("links")
@pytest.mark.parametrize("name", ["tasks.jsonl", "memories.md", "."])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    project = tmp_path / "project"
    agent = project / ".ralph" / "agent"
    agent.mkdir(parents=True)
    if name == ".":
        agent.rmdir()
        agent.symlink_to(outside)
    else:
        (agent / name).symlink_to(outside / "file")
    place = Place(project, TopicLog(project / "events.jsonl"))
    which = "memory" if name == "memories.md" else "task"
    assert "AGENT_FILE_UNUSABLE" in refused(place, "tools", which, "add", "text")
    assert ([each.name for each in outside.iterdir()], (outside / "file").read_text()) == (["file"], "mine")


def test_a_full_file_is_an_error_and_stays_as_it_is(place: Place) -> None:
    file = place.project / ".ralph" / "agent" / "tasks.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x\n" * 2_200_000)
    assert "is larger than" in refused(place, "tools", "task", "list")
    assert "is larger than" in refused(place, "tools", "task", "add", "T")
    assert file.stat().st_size == 4_400_000


def test_a_lock_that_is_held_for_ever_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from youbencha.locks import try_lock
    from youbencha.loop import agent_file

    ok(place, "tools", "task", "add", "T")
    monkeypatch.setattr(agent_file, "_WAIT_S", 0.1)
    with (place.project / ".ralph" / "agent" / ".lock").open("rb+") as lock:
        assert try_lock(lock.fileno())
        start = time.monotonic()
        assert "AGENT_FILE_BUSY" in refused(place, "tools", "task", "add", "T")
        assert time.monotonic() - start < 10


def test_a_confined_agent_cannot_name_other_files(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    place = Place(project, TopicLog(project / "events.jsonl"), confined=True)
    for arguments in (
        ("emit", "a", "--file", str(other / "e")),
        ("emit", "a", f"--file={other}/e"),
        ("tools", "task", "add", "T", "--root", str(other)),
    ):
        assert "other files" in refused(place, *arguments)
    assert list(other.iterdir()) == []


EVENTS = '{"topic": "a.b", "payload": "one\\u001b[2J", "ts": "2026-01-01T00:00:00Z"}\nbad\n{"topic": "c"}\n'


def test_ralph_events(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    assert "no events" in yb("loop", "events", cwd=tmp_path).stdout
    (tmp_path / ".ralph" / "events.jsonl").write_text(EVENTS)
    done = yb("loop", "events", cwd=tmp_path)
    assert (done.returncode, "\x1b" in done.stdout, "1 line" in done.stderr) == (0, False, True)
    assert [line.split()[:2] for line in done.stdout.splitlines()][1:] == [["2026-01-01T00:00:00", "a.b"], ["c"]]
    for options, topic in ((("--topic", "a.*", "--last", "5"), "a.b"), (("--last", "1"), "c")):
        chosen = yb("loop", "events", "--format", "json", *options, cwd=tmp_path).stdout
        assert [event["topic"] for event in json.loads(chosen)] == [topic]
