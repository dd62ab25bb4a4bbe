"""What agents remember for later work: `.ralph/agent/memories.md`, in Ralph's format, which people can edit."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from youbencha import json_lines
from youbencha.errors import YouBenchaError
from youbencha.loop.agent_file import change_agent_file, new_id, read_agent_file
from youbencha.text import clean_text, iso_time, one_line

MEMORIES_FILE = "memories.md"
DEFAULT_BUDGET = 2000
"""Tokens of memories in a prompt."""

MemoryType = Literal["pattern", "decision", "fix", "context"]
SECTIONS: dict[MemoryType, str] = {
    "pattern": "Patterns",
    "decision": "Decisions",
    "fix": "Fixes",
    "context": "Context",
}
_TYPES = {section: kind for kind, section in SECTIONS.items()}
_CHARS_PER_TOKEN = 4
_MAX_CONTENT = 10_000
_MAX_TAGS = 20
_MAX_DAYS = 36_500
_SECTION = re.compile(r"## (Patterns|Decisions|Fixes|Context)\b")
_ID = re.compile(r"### (mem-\d+-[0-9a-f]{4})\b")
_METADATA = re.compile(r"<!-- tags: ([^|]*) \| created: (\d{4}-\d{2}-\d{2}) -->")
_CUT = "(more memories: `ralph tools memory search`)"


@dataclass(frozen=True)
class Memory:
    """A fact, a decision or a solution."""

    id: str
    type: MemoryType
    content: str
    tags: tuple[str, ...] = ()
    created: str = ""
    """The date, as 2026-01-31."""

    def has_words(self, words: str) -> bool:
        return any(words.casefold() in text.casefold() for text in (self.content, *self.tags))

    def has_tag(self, tags: Iterable[str]) -> bool:
        return not {tag.casefold() for tag in self.tags}.isdisjoint(tag.casefold() for tag in tags)


class Memories:
    """The memories of a project."""

    def __init__(self, project: Path) -> None:
        self._project = project

    def all(self) -> tuple[Memory, ...]:
        return _parsed(read_agent_file(self._project, MEMORIES_FILE))

    def get(self, memory_id: str) -> Memory:
        return _find_memory(self.all(), memory_id)

    def add(self, content: str, kind: MemoryType = "pattern", tags: Iterable[str] = ()) -> Memory:
        """Add a memory to the section of its type. The rest of the file stays as it is."""
        content = clean_text(content).strip()
        if not content:
            raise YouBenchaError(
                "MEMORY_EMPTY", "The memory has no text.", hint="Write what to remember, in one sentence."
            )
        new = Memory(
            id="",
            type=kind,
            content=content[:_MAX_CONTENT],
            tags=tuple(filter(None, (_as_tag(tag) for tag in tags)))[:_MAX_TAGS],
            created=iso_time(time.time())[:10],
        )

        def added(text: str) -> tuple[str, Memory]:
            made = replace(new, id=new_id("mem", text))
            return _insert(text, made), made

        return change_agent_file(self._project, MEMORIES_FILE, added)

    def delete(self, memory_id: str) -> Memory:
        """Remove a memory. The rest of the file stays as it is."""

        def deleted(text: str) -> tuple[str, Memory]:
            return _remove(text, memory_id), _find_memory(_parsed(text), memory_id)

        return change_agent_file(self._project, MEMORIES_FILE, deleted)


def as_markdown(memories: Sequence[Memory]) -> str:
    """Return the memories as the file has them; empty if there are none."""
    blocks = [
        f"\n## {title}\n" + "".join(map(_block, each))
        for kind, title in SECTIONS.items()
        if (each := [memory for memory in memories if memory.type == kind])
    ]
    return "# Memories\n" + "".join(blocks) if blocks else ""


def matching(
    memories: Iterable[Memory], *, types: Collection[str] = (), tags: Collection[str] = (), recent: int = 0
) -> list[Memory]:
    """The memories of these types, with one of these tags, of the last `recent` days; 0: of any age."""
    oldest = iso_time(time.time() - min(recent, _MAX_DAYS) * 86_400)[:10] if recent else ""
    return [
        memory
        for memory in memories
        if (not types or memory.type in types) and (not tags or memory.has_tag(tags)) and memory.created >= oldest
    ]


def within_budget(memories: Sequence[Memory], tokens: int) -> str:
    """Return as many memories as fit, the newest first to be kept; 0 means all of them."""
    kept = list(memories)
    if tokens == 0 or len(text := as_markdown(kept)) <= tokens * _CHARS_PER_TOKEN:
        return as_markdown(kept)
    kept.sort(key=lambda memory: (memory.created, memory.id))
    while kept and len(text := as_markdown(kept)) > tokens * _CHARS_PER_TOKEN:
        del kept[: max(1, len(kept) // 20)]
    return f"{text}\n{_CUT}\n" if kept else _CUT + "\n"


def _block(memory: Memory) -> str:
    lines = "\n".join(f"> {line}" for line in memory.content.splitlines())
    return f"\n### {memory.id}\n{lines}\n<!-- tags: {', '.join(memory.tags)} | created: {memory.created} -->\n"


def _as_tag(text: str) -> str:
    """A tag cannot hold what separates tags, or what ends the comment that holds them."""
    return one_line(re.sub(r"[,|<>]|--+", " ", text), 60)


def _insert(text: str, memory: Memory) -> str:
    """Return the text with the memory at the start of its section, which is created if there is none."""
    text = text or "# Memories\n" + "".join(f"\n## {title}\n" for title in SECTIONS.values())
    header = re.search(rf"^## {SECTIONS[memory.type]}\b.*\n?", text, re.MULTILINE)
    if header is None:
        return f"{text.rstrip()}\n\n## {SECTIONS[memory.type]}\n{_block(memory)}"
    before = text[: header.end()]
    return before + ("" if before.endswith("\n") else "\n") + _block(memory) + text[header.end() :]


def _remove(text: str, memory_id: str) -> str:
    """Without the lines from the memory's heading up to the next heading."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            match = _ID.match(line)
            inside = match is not None and match[1] == memory_id
        if not inside:
            kept.append(line)
    return "".join(kept)


def _find_memory(memories: Iterable[Memory], memory_id: str) -> Memory:
    memory = next((memory for memory in memories if memory.id == memory_id), None)
    if memory is None:
        message = f"There is no memory {json_lines.excerpt(memory_id)}."
        raise YouBenchaError("MEMORY_NOT_FOUND", message, hint="`ralph tools memory list` shows all of them.")
    return memory


def _parsed(text: str) -> tuple[Memory, ...]:
    """Return the memories in a file. Everything else in it is skipped."""
    memories: list[Memory] = []
    kind: MemoryType = "pattern"
    for part in re.split(r"^(?=#)", text, flags=re.MULTILINE):  # a heading, and what is below it
        if section := _SECTION.match(part):
            kind = _TYPES[section[1]]
        lines = part.splitlines()
        content = [line[1:].removeprefix(" ") for line in lines if line.startswith(">")]
        heading = _ID.match(part)
        if heading is None or not content:
            continue
        metadata = (_METADATA.search(line) for line in lines if not line.startswith(">"))
        written, created = next((found.groups() for found in metadata if found), ("", ""))
        tags = tuple(filter(None, (_as_tag(tag) for tag in written.split(","))))
        whole = clean_text("\n".join(content))[:_MAX_CONTENT]
        memories.append(Memory(heading[1], kind, whole, tags, created))
    return tuple(memories)
