"""Describe the files of a task's commit that agents read on their own, such as CLAUDE.md and skills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from youbencha.text import first_few, join_words, plural

_KINDS = (
    ("skill", re.compile(r"(^|/)skills/([^/]+/)*SKILL\.md$")),
    ("subagent", re.compile(r"(^|/)agents/.+\.md$")),
    ("command", re.compile(r"(^|/)(commands|prompts)/.+\.(md|toml)$")),
)
"""Files that are counted, not named."""


class CommitFiles(NamedTuple):
    """Files of a task's commit that an orchestrator reads."""

    task: str
    orchestrator: str
    files: tuple[str, ...]


def describe_files(files: Iterable[str]) -> str:
    """Return a phrase such as `CLAUDE.md, .mcp.json and 2 skills`."""
    named: list[str] = []
    numbers = dict.fromkeys((kind for kind, _ in _KINDS), 0)
    for file in files:
        kind = next((kind for kind, pattern in _KINDS if pattern.search(file)), None)
        if kind is None:
            named.append(file)
        else:
            numbers[kind] += 1
    counted = [plural(number, kind) for kind, number in numbers.items() if number]
    return join_words([*([first_few(named)] if named else []), *counted])


def commit_notes(cells: Iterable[CommitFiles]) -> Iterator[str]:
    """Yield one sentence for all tasks in which the same orchestrators read the same files."""
    by_task: dict[str, dict[str, tuple[str, ...]]] = {}
    for cell in cells:
        by_task.setdefault(cell.task, {})[cell.orchestrator] = cell.files
    tasks: dict[str, list[str]] = {}
    for task, by_orchestrator in by_task.items():
        for files in dict.fromkeys(by_orchestrator.values()):
            if files:
                readers = [name for name, read in by_orchestrator.items() if read == files]
                who = "every arm reads" if len(readers) == len(by_orchestrator) else f"read by {first_few(readers)}"
                tasks.setdefault(_sentence(files, who), []).append(task)
    for sentence, names in tasks.items():
        yield f"{first_few(names)}: {sentence}"


def _sentence(files: Sequence[str], who: str) -> str:
    is_one = len(files) == 1
    end = f"{who} {'it' if is_one else 'them'}" if who.endswith("reads") else who
    return f"the commit has its own {describe_files(files)}: {end}"
