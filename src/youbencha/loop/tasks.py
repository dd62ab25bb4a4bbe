"""The tasks that agents keep: `.ralph/agent/tasks.jsonl`, one task on each line, in Ralph's format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from youbencha import json_lines
from youbencha.errors import YouBenchaError
from youbencha.loop.agent_file import change_agent_file, new_id, read_agent_file
from youbencha.text import clean_text, iso_time, one_line

TASKS_FILE = "tasks.jsonl"

TaskStatus = Literal["open", "in_progress", "closed", "failed"]
STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
_ENDED = ("closed", "failed")
_LOWEST_PRIORITY = 5
_MAX_TITLE = 500
_MAX_DESCRIPTION = 10_000
_MAX_TASKS = 5_000


@dataclass(frozen=True)
class Task:
    """Something to do. Its times are ISO 8601."""

    id: str
    title: str
    status: TaskStatus = "open"
    priority: int = 3
    """From 1, the highest, to 5."""
    blocked_by: tuple[str, ...] = ()
    """The ids of tasks that must be closed first."""
    created: str = ""
    description: str | None = None
    key: str | None = None
    """Chosen by the agent, so that the same task is not added twice."""
    loop_id: str | None = None
    started: str | None = None
    closed: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDED

    def to_record(self) -> dict[str, Any]:
        """Return what the file holds. Unknown times and texts are left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def in_loop(self, loop_id: str | None) -> bool:
        return loop_id is None or self.loop_id in (None, loop_id)


class TaskList:
    """The tasks of a project. Each change is made to what the file holds at that moment."""

    def __init__(self, project: Path) -> None:
        self._project = project

    def all(self) -> tuple[Task, ...]:
        """Return all tasks, in the order in which they were added. Other lines are skipped."""
        return _parsed(read_agent_file(self._project, TASKS_FILE))[0]

    def get(self, task_id: str) -> Task:
        return _find_task(self.all(), task_id)

    def add(
        self,
        title: str,
        *,
        priority: int = 3,
        description: str | None = None,
        blocked_by: Iterable[str] = (),
        key: str | None = None,
        loop_id: str | None = None,
    ) -> Task:
        """Add a task. If one has this key already, update its title, priority and texts instead."""
        task = Task(
            id="",
            title=one_line(title, _MAX_TITLE),
            priority=min(max(priority, 1), _LOWEST_PRIORITY),
            blocked_by=tuple(blocked_by),
            created=iso_time(time.time()),
            description=description and clean_text(description)[:_MAX_DESCRIPTION],
            key=key,
            loop_id=loop_id,
        )
        if not task.title:
            raise YouBenchaError(
                "TASK_WITHOUT_TITLE", "A task needs a title.", hint="Describe in a few words what to do."
            )
        return self._change(lambda tasks: _add(tasks, task))

    def set_status(self, task_id: str, status: TaskStatus) -> Task:
        """Start, close, fail or reopen a task."""
        now = iso_time(time.time())

        def changed(tasks: list[Task]) -> Task:
            old = _find_task(tasks, task_id)
            started = old.started or (now if status == "in_progress" else None)
            new = replace(old, status=status, started=started, closed=now if status in _ENDED else None)
            tasks[tasks.index(old)] = new
            return new

        return self._change(changed)

    def _change(self, change: Callable[[list[Task]], Task]) -> Task:
        def changed(text: str) -> tuple[str, Task]:
            parsed, others = _parsed(text)
            tasks = list(parsed)
            result = change(tasks)
            return "".join(f"{line}\n" for line in (*others, *(json_lines.dumps(t.to_record()) for t in tasks))), result

        return change_agent_file(self._project, TASKS_FILE, changed)


def ready_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Return the open tasks whose blockers are all closed, the most important first."""
    closed = {task.id for task in tasks if task.status == "closed"}
    return by_importance(task for task in tasks if task.status == "open" and closed.issuperset(task.blocked_by))


def by_importance(tasks: Iterable[Task]) -> list[Task]:
    """Started ones first, then by priority and age."""
    order = {"in_progress": 0, "open": 1, "closed": 2, "failed": 3}
    return sorted(tasks, key=lambda task: (order[task.status], task.priority, task.created))


def task_lines(waiting: Iterable[Task], tasks: Sequence[Task]) -> tuple[str, ...]:
    """Describe the tasks that wait, one line each, for a prompt. `tasks` are all that there are."""
    ready = {task.id for task in ready_tasks(tasks)}

    def line(task: Task) -> str:
        state = "in progress" if task.status == "in_progress" else "ready" if task.id in ready else "blocked"
        return f"- `{task.id}` ({state}, priority {task.priority}): {one_line(task.title, 200)}"

    return tuple(map(line, waiting))


def _add(tasks: list[Task], task: Task) -> Task:
    old = next((known for known in tasks if task.key is not None and known.key == task.key), None)
    if old is None:
        if len(tasks) >= _MAX_TASKS:
            raise YouBenchaError(
                "TOO_MANY_TASKS", f"There are {_MAX_TASKS:,} tasks already.", hint="Close some tasks first."
            )
        tasks.append(replace(task, id=new_id("task", {known.id for known in tasks})))
        return tasks[-1]
    new = replace(
        old,
        title=task.title,
        priority=task.priority,
        description=task.description or old.description,
        blocked_by=task.blocked_by or old.blocked_by,
    )
    tasks[tasks.index(old)] = new
    return new


def _find_task(tasks: Iterable[Task], task_id: str) -> Task:
    task = next((task for task in tasks if task.id == task_id), None)
    if task is None:
        message = f"There is no task {json_lines.excerpt(task_id)}."
        raise YouBenchaError("TASK_NOT_FOUND", message, hint="`ralph tools task list --all` shows all of them.")
    return task


def _parsed(text: str) -> tuple[tuple[Task, ...], tuple[str, ...]]:
    """Return the tasks, and the lines that are none: they are kept when the file is written."""
    tasks: dict[str, Task] = {}
    others: list[str] = []
    for line in text.split("\n"):
        task = _task(json_lines.as_mapping(json_lines.loads_lossy(line.encode("utf-8", "replace"))))
        if task is not None and task.id not in tasks and len(tasks) < _MAX_TASKS:
            tasks[task.id] = task
        elif line.strip():
            others.append(line)
    return tuple(tasks.values()), tuple(others)


def _task(record: json_lines.Record) -> Task | None:
    task_id, title, status = (json_lines.as_str(record.get(name)) for name in ("id", "title", "status"))
    priority = json_lines.as_count(record.get("priority"), _LOWEST_PRIORITY)
    if not task_id or not title or status not in STATUSES or not priority:
        return None
    texts = {
        name: json_lines.as_str(record.get(name)) for name in ("description", "key", "loop_id", "started", "closed")
    }
    return Task(
        id=one_line(task_id, 100),
        title=one_line(title, _MAX_TITLE),
        status=status,
        priority=priority,
        blocked_by=json_lines.as_strs(record.get("blocked_by")),
        created=json_lines.as_str(record.get("created")) or "",
        **texts,
    )
