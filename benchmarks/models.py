"""The scripted models of the arena: what each does in each task, as a script for the real agents.

What they write comes from the tasks' own `solution` and `partial` directories. A model is known by its name, a task by
the title of its description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from benchmarks.build import read_tree
from youbencha.scripted_model import Script

Skill = Literal["solution", "partial", "nothing"]
Tree = Mapping[str, bytes]

CLAUDE_CODE: Mapping[str, Mapping[str, Skill]] = {
    "claude-opus-4-5": {
        "bench-time-tracker": "solution",
        "finish-store-migration": "solution",
        "overdue-loans": "partial",
        "recur-month-ends": "solution",
        "split-sales-report": "solution",
        "template-loops": "solution",
    },
    "claude-haiku-4-5": {
        "bench-time-tracker": "partial",
        "finish-store-migration": "partial",
        "overdue-loans": "partial",
        "recur-month-ends": "solution",
        "split-sales-report": "nothing",
        "template-loops": "solution",
    },
}
AIDER: Mapping[str, Mapping[str, Skill]] = {
    "gpt-4.1": {
        "bench-time-tracker": "partial",
        "finish-store-migration": "nothing",  # Aider cannot delete files, nor edit merge markers
        "overdue-loans": "solution",
        "recur-month-ends": "solution",
        "split-sales-report": "solution",
        "template-loops": "partial",
    },
}
_SYSTEM_TOKENS = 14_000
"""Of the agent's own instructions, which are in the cache."""


def claude_code_script() -> Script:
    return _script(CLAUDE_CODE, claude_turns)


def aider_script() -> Script:
    """Aider calls no tools, and its sessions cannot be told apart: one answer is all it gets."""
    return _script(AIDER, _aider_turns, tools_optional=True)


def title_of(task: str) -> str:
    return read_tree(task)["TASK.md"].decode().splitlines()[0].removeprefix("# ")


def _script(
    models: Mapping[str, Mapping[str, Skill]], turns_of: Callable[[Tree, Tree], list[dict[str, Any]]], **settings: Any
) -> Script:
    conversations = []
    for model, skills in models.items():
        for task, skill in skills.items():
            before = read_tree(task)
            after = before if skill == "nothing" else read_tree(task, skill)
            when = {"user_contains": title_of(task), "model": f"{model}*"}
            conversations.append({"when": when, "turns": turns_of(before, after)})
    turns = [{"text": "I do not know this task.", "times": "forever"}]
    return Script.model_validate({"turns": turns, "conversations": conversations, **settings})


def claude_turns(before: Tree, after: Tree) -> list[dict[str, Any]]:
    turns, context = [], _SYSTEM_TOKENS
    for answer in _claude_answers(before, after):
        turns.append(_with_usage(answer, cache_read_input_tokens=context, cache_creation_input_tokens=500))
        context += 500 + _size(answer)
    return turns


def _aider_turns(before: Tree, after: Tree) -> list[dict[str, Any]]:
    return [{**_with_usage(_aider_answer(before, after), cache_read_input_tokens=3_000), "times": "forever"}]


def _claude_answers(before: Tree, after: Tree) -> Iterator[dict[str, Any]]:
    """Look, read, write, run the tests, say so: what Claude Code's tools need."""
    changed = [name for name, content in after.items() if before.get(name) != content]
    deleted = [name for name in before if name not in after]
    yield _answer("I will look at the repository first.", _bash("ls -R . | head -50"))
    if known := [name for name in changed if name in before]:
        yield _answer("Then at the code.", *(_tool("Read", file_path=_path(name)) for name in known))
    if changed:
        written = (_tool("Write", file_path=_path(name), content=_text(after[name])) for name in changed)
        yield _answer("Now I know what to do.", *written)
    if deleted:
        yield _answer("This is no longer needed.", _bash(f"rm {' '.join(deleted)}"))
    yield _answer("Now the tests.", _bash("python3 -B -m unittest 2>&1 | tail -3"))
    yield {"text": "It is done, and the tests pass." if changed else "Everything is fine as it is."}


def _aider_answer(before: Tree, after: Tree) -> dict[str, Any]:
    """All edits in one text, in Aider's format `diff`: what to search for, and what to replace it by."""
    blocks = [
        f"{name}\n```\n<<<<<<< SEARCH\n{_text(before.get(name, b''))}=======\n{_text(content)}>>>>>>> REPLACE\n```\n"
        for name, content in after.items()
        if before.get(name) != content
    ]
    return {"text": "\n".join(["I will change these files.\n", *blocks]) if blocks else "Everything is fine as it is."}


def _answer(text: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "tools": list(tools)}


def _tool(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "input": arguments}


def _bash(command: str) -> dict[str, Any]:
    return _tool("Bash", command=command)


def _path(name: str) -> str:
    return "${cwd}/" + name


def _text(content: bytes) -> str:
    """A literal text: in a script, `${…}` is a variable."""
    return content.decode().replace("${", "$${")


def _size(answer: Mapping[str, Any]) -> int:
    """In tokens, of about four characters."""
    return len(str(answer)) // 4


def _with_usage(answer: dict[str, Any], **cached: int) -> dict[str, Any]:
    return {**answer, "usage": {"input_tokens": 400, "output_tokens": _size(answer), **cached}}
