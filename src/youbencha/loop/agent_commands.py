"""The commands that agents call: `ralph emit` and `ralph tools`.

One parser serves the command line, which has to start quickly, and the requests of agents in containers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from youbencha.errors import YouBenchaError
from youbencha.loop.memories import DEFAULT_BUDGET, SECTIONS, Memories, Memory, as_markdown, matching, within_budget
from youbencha.loop.tasks import STATUSES, Task, TaskList, TaskStatus, by_importance, ready_tasks
from youbencha.loop.topics import MAX_PAYLOAD, TopicEvent, TopicLog, check_topic
from youbencha.text import iso_time, one_line, table

Options = argparse.Namespace
_WIDTH = 200
_MAX_HITS = 10
_CANNOT_RUN = 2


class Answer(NamedTuple):
    """What a command prints, and its exit code. If that is not 0, the text is an error message."""

    text: str
    code: int = 0


@dataclass(frozen=True)
class Place:
    """Where the commands work."""

    project: Path
    events: TopicLog
    loop_id: str | None = None
    """The id of the running loop, to which new tasks belong."""
    confined: bool = False
    """Called by an agent in a container: it cannot name other files."""


class _Usage(Exception):
    """What is wrong with the arguments."""


class _Help(Exception):
    """The help was asked for."""


class _Parser(argparse.ArgumentParser):
    """Neither prints nor exits."""

    def error(self, message: str) -> NoReturn:
        raise _Usage(f"{message} ({self.format_usage().strip()})")

    def print_help(self, file: Any = None) -> None:
        raise _Help(self.format_help())


class AgentCommand(NamedTuple):
    summary: str
    run: Callable[[Options, Place], str]
    declare: tuple[Callable[[argparse.ArgumentParser], object], ...] = ()


def answer(arguments: Sequence[str], place: Place) -> Answer:
    """Run the command that the arguments name. Only `emit` and `tools` are known here."""
    try:
        return Answer(_run(list(arguments), place))
    except _Help as text:
        return Answer(str(text).rstrip())
    except _Usage as problem:
        return Answer(f"error {problem}", _CANNOT_RUN)
    except YouBenchaError as error:
        return Answer(f"error [{error.code}] {error.message}\nhint  {error.hint}", _CANNOT_RUN)
    except OSError as error:
        return Answer(f"error Cannot read or write {error.filename}: {error.strerror or error}", _CANNOT_RUN)


def _run(arguments: list[str], place: Place) -> str:
    length = next((n for n in (1, 3) if tuple(arguments[:n]) in COMMANDS), None)
    if length is None:
        raise (_Help if {"-h", "--help"} & {*arguments} else _Usage)(_overview(arguments))
    command = COMMANDS[tuple(arguments[:length])]
    parser = _Parser(prog=" ".join(("ralph", *arguments[:length])), description=command.summary, allow_abbrev=False)
    parser.add_argument("--root", type=Path, metavar="DIR", help="The project; default: the nearest with .ralph.")
    for declare in command.declare:
        declare(parser)
    options = parser.parse_intermixed_args(arguments[length:])
    if place.confined and (options.root or vars(options).get("file")):
        raise _Usage("other files cannot be named from inside a container")
    return command.run(options, replace(place, project=options.root) if options.root else place)


def _overview(arguments: Sequence[str]) -> str:
    """The commands that begin with the same words."""
    words = [word for word in arguments if not word.startswith("-")][:3]  # an agent may send a million words
    while words and not any(name[: len(words)] == tuple(words) for name in COMMANDS):
        words.pop()
    rows = [(" ".join(("ralph", *name)), command.summary) for name, command in COMMANDS.items()
            if name[: len(words)] == tuple(words)]  # fmt: skip
    return "the commands are:\n" + table(("COMMAND", "IT DOES"), rows, width=_WIDTH)


def _emit(options: Options, place: Place) -> str:
    check_topic(options.topic)
    if len(options.payload) > MAX_PAYLOAD:
        message = f"The payload has {len(options.payload):,} characters; the maximum is {MAX_PAYLOAD:,}."
        raise YouBenchaError("PAYLOAD_TOO_LARGE", message, hint="Write it to a file, and publish the file's name.")
    if options.json and options.payload:
        try:
            json.loads(options.payload)
        except (ValueError, RecursionError) as error:
            raise YouBenchaError(
                "PAYLOAD_NOT_JSON",
                f"The payload is not JSON: {error}.",
                hint='Pass valid JSON, for example \'{"tests": "pass"}\'.',
            ) from error
    log = TopicLog(Path.cwd() / options.file) if options.file else place.events
    event = TopicEvent(options.topic, options.payload, options.ts or iso_time(time.time()))
    log.append(event, as_json=bool(options.json and options.payload))
    return f"published {options.topic}"


def _task_add(options: Options, place: Place) -> str:
    blockers = [task_id.strip() for task_id in (options.blocked_by or "").split(",") if task_id.strip()]
    task = TaskList(place.project).add(
        options.title,
        priority=options.priority,
        description=options.description,
        blocked_by=blockers,
        key=getattr(options, "key", None),
        loop_id=place.loop_id,
    )
    return _one_task(task, options.format, f"task {task.id}: {task.title}")


def _task_list(options: Options, place: Place) -> str:
    tasks: Sequence[Task] = TaskList(place.project).all()
    if options.status:
        tasks = [task for task in tasks if task.status == options.status]
    elif not options.all:
        tasks = [task for task in tasks if not task.has_ended]
    if options.days is not None:
        since = (datetime.now(UTC) - timedelta(days=min(options.days, 36_500))).isoformat()
        tasks = [task for task in tasks if max(task.created, task.closed or "") >= since]
    return _many_tasks(by_importance(tasks)[: options.limit], options.format, "no tasks")


def _task_ready(options: Options, place: Place) -> str:
    loop = None if options.all else place.loop_id
    tasks = [task for task in ready_tasks(TaskList(place.project).all()) if task.in_loop(loop)]
    return _many_tasks(tasks, options.format, "no task is ready")


def _task_show(options: Options, place: Place) -> str:
    task = TaskList(place.project).get(options.id)
    lines = (f"{name.replace('_', ' ')}: {value}" for name, value in _task_record(task).items())
    return _one_task(task, options.format, "\n".join(lines))


def _set_status(status: TaskStatus, said: str) -> Callable[[Options, Place], str]:
    def run(options: Options, place: Place) -> str:
        task = TaskList(place.project).set_status(options.id, status)
        return f"{said} {task.id}: {task.title}"

    return run


def _task_record(task: Task) -> dict[str, Any]:
    return {name: value for name, value in task.to_record().items() if value != ()}


def _one_task(task: Task, form: str, text: str) -> str:
    return {"json": json.dumps(task.to_record(), ensure_ascii=False), "quiet": task.id}.get(form, text)


def _many_tasks(tasks: Sequence[Task], form: str, none: str) -> str:
    if form == "json":
        return json.dumps([task.to_record() for task in tasks], indent=2, ensure_ascii=False)
    if form == "quiet":
        return "\n".join(task.id for task in tasks)
    rows = [(t.id, t.status, str(t.priority), one_line(t.title, 80), t.key or "-") for t in tasks]
    return table(("ID", "STATUS", "PRIORITY", "TITLE", "KEY"), rows, width=_WIDTH) if rows else none


def _memory_add(options: Options, place: Place) -> str:
    memory = Memories(place.project).add(options.content, options.type, _tags(options))
    return _many_memories([memory], options.format, f"memory {memory.id}")


def _memory_list(options: Options, place: Place) -> str:
    memories = [memory for memory in Memories(place.project).all() if options.type in (None, memory.type)]
    return _many_memories(memories[-options.last :] if options.last else memories, options.format)


def _memory_search(options: Options, place: Place) -> str:
    tags = _tags(options)
    chosen = matching(Memories(place.project).all(), types=[options.type] if options.type else (), tags=tags)
    hits = [memory for memory in chosen if not options.query or memory.has_words(options.query)]
    shown = hits if options.all else hits[:_MAX_HITS]
    more = f"\n{len(hits) - len(shown)} more: --all shows them" if len(shown) < len(hits) else ""
    return _many_memories(shown, options.format) + (more if options.format == "table" else "")


def _memory_prime(options: Options, place: Place) -> str:
    kinds = {kind.strip() for kind in (options.type or "").split(",")} & {*SECTIONS}
    memories = matching(Memories(place.project).all(), types=kinds, tags=_tags(options), recent=options.recent)
    if options.format == "markdown":
        return within_budget(memories, options.budget).rstrip()
    return _many_memories(memories, options.format)


def _memory_show(options: Options, place: Place) -> str:
    memory = Memories(place.project).get(options.id)
    return _many_memories([memory], "markdown" if options.format == "table" else options.format)


def _memory_delete(options: Options, place: Place) -> str:
    return f"deleted {Memories(place.project).delete(options.id).id}"


def _tags(options: Options) -> list[str]:
    return [tag.strip() for tag in (options.tags or "").split(",") if tag.strip()]


def _many_memories(memories: Sequence[Memory], form: str, text: str | None = None) -> str:
    if form == "json":
        return json.dumps([_memory_record(memory) for memory in memories], indent=2, ensure_ascii=False)
    if form == "quiet":
        return "\n".join(memory.id for memory in memories)
    if form == "markdown":
        return as_markdown(memories).rstrip()
    rows = [(m.id, m.type, ", ".join(m.tags) or "-", one_line(m.content, 100)) for m in memories]
    return text or (table(("ID", "TYPE", "TAGS", "CONTENT"), rows, width=_WIDTH) if rows else "no memories")


def _memory_record(memory: Memory) -> dict[str, Any]:
    return {("memory_type" if name == "type" else name): value for name, value in asdict(memory).items()}


def _no_skills(_: Options, __: Place) -> str:
    return "no skills: they are not supported yet"


def _unsupported(what: str, instead: str) -> Callable[[Options, Place], str]:
    def run(_: Options, __: Place) -> str:
        raise YouBenchaError("NOT_SUPPORTED_YET", f"{what} are not supported yet.", hint=instead)

    return run


def _argument(*names: str, **options: Any) -> Callable[[argparse.ArgumentParser], object]:
    return lambda parser: parser.add_argument(*names, **options)


def _format(*forms: str, default: str = "table") -> Callable[[argparse.ArgumentParser], object]:
    return _argument("--format", choices=forms, default=default)


def _status(text: str) -> str:
    return text.lower().replace("-", "_").replace("inprogress", "in_progress")


_ID = _argument("id", metavar="ID")
_WORDS = _argument("words", nargs="*", metavar="TEXT")
_ALL = _argument("--all", "-a", action="store_true")
_TAGS = _argument("--tags", metavar="A,B", help="Separated by commas.")
_TYPE = _argument("--type", "-t", choices=tuple(SECTIONS))
_TASK_FORMAT = _format("table", "json", "quiet")
_MEMORY_FORMAT = _format("table", "json", "markdown", "quiet")
_NEW_TASK = (
    _argument("title", metavar="TITLE"),
    _argument("--priority", "-p", type=int, default=3, metavar="N", help="From 1, the highest, to 5; default 3."),
    _argument("--description", "-d", metavar="TEXT"),
    _argument("--blocked-by", metavar="ID,ID", help="Tasks that have to be closed first."),
    _TASK_FORMAT,
)

COMMANDS: dict[tuple[str, ...], AgentCommand] = {
    ("emit",): AgentCommand(
        "Publish an event.",
        _emit,
        (
            _argument("topic", metavar="TOPIC", help="Such as build.done."),
            _argument("payload", nargs="?", default="", metavar="PAYLOAD", help="A text for the hat that receives it."),
            _argument("--json", "-j", action="store_true", help="The payload is JSON, and is written as such."),
            _argument("--ts", metavar="TIME", help="ISO 8601; default: now."),
            _argument("--file", type=Path, metavar="FILE", help="The events file; default: that of the loop."),
        ),
    ),
    ("tools", "task", "add"): AgentCommand("Add a task.", _task_add, _NEW_TASK),
    ("tools", "task", "ensure"): AgentCommand(
        "Add a task, or update the one with the same key.",
        _task_add,
        (*_NEW_TASK, _argument("--key", required=True, metavar="KEY")),
    ),
    ("tools", "task", "list"): AgentCommand(
        "List the tasks that have not ended.",
        _task_list,
        (
            _argument("--status", "-s", type=_status, choices=STATUSES),
            _argument("--days", "-d", type=int, metavar="N", help="Only those of the last N days."),
            _argument("--limit", "-l", type=int, metavar="N"),
            _ALL,
            _TASK_FORMAT,
        ),
    ),
    ("tools", "task", "ready"): AgentCommand(
        "List the tasks that can be started, the most important first.", _task_ready, (_ALL, _TASK_FORMAT)
    ),
    ("tools", "task", "start"): AgentCommand("Start a task.", _set_status("in_progress", "started"), (_ID,)),
    ("tools", "task", "close"): AgentCommand("Close a task.", _set_status("closed", "closed"), (_ID,)),
    ("tools", "task", "fail"): AgentCommand("Give a task up.", _set_status("failed", "failed"), (_ID,)),
    ("tools", "task", "reopen"): AgentCommand("Open a task again.", _set_status("open", "reopened"), (_ID,)),
    ("tools", "task", "show"): AgentCommand("Show a task.", _task_show, (_ID, _TASK_FORMAT)),
    ("tools", "memory", "add"): AgentCommand(
        "Remember something.",
        _memory_add,
        (
            _argument("content", metavar="TEXT"),
            _argument("--type", "-t", choices=tuple(SECTIONS), default="pattern"),
            _TAGS,
            _MEMORY_FORMAT,
        ),
    ),
    ("tools", "memory", "list"): AgentCommand(
        "List the memories.", _memory_list, (_TYPE, _argument("--last", type=int, metavar="N"), _MEMORY_FORMAT)
    ),
    ("tools", "memory", "search"): AgentCommand(
        "Find memories by words, type or tags.",
        _memory_search,
        (_argument("query", nargs="?", metavar="WORDS"), _TYPE, _TAGS, _ALL, _MEMORY_FORMAT),
    ),
    ("tools", "memory", "prime"): AgentCommand(
        "Print the memories as a prompt gets them.",
        _memory_prime,
        (
            _argument("--budget", type=int, default=DEFAULT_BUDGET, metavar="N", help="Tokens; 0: all."),
            _argument("--type", "-t", metavar="A,B", help="Separated by commas."),
            _TAGS,
            _argument("--recent", type=int, default=0, metavar="N", help="Only those of the last N days."),
            _format("table", "json", "markdown", "quiet", default="markdown"),
        ),
    ),
    ("tools", "memory", "show"): AgentCommand("Show a memory.", _memory_show, (_ID, _MEMORY_FORMAT)),
    ("tools", "memory", "delete"): AgentCommand("Forget a memory.", _memory_delete, (_ID,)),
    ("tools", "interact", "progress"): AgentCommand(
        "Say how far the work is.", lambda options, _: f"noted: {one_line(' '.join(options.words))}", (_WORDS,)
    ),
    ("tools", "skill", "list"): AgentCommand("List the skills.", _no_skills, (_format("table", "json", "quiet"),)),
    ("tools", "skill", "load"): AgentCommand(
        "Load a skill.", _unsupported("Skills", "Continue without the skill."), (_WORDS,)
    ),
}
"""Commands by their words. `emit` has one, all others three."""
