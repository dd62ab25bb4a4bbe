"""Draft a test case from facts. What the user or the repository determines is never left to a model."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.scalarstring import LiteralScalarString

from youbencha.spec.variables import REFERENCE
from youbencha.suggest.facts import Facts
from youbencha.text import first_line, shorten

DEFAULT_AGENT = "claude-code"

_SUGGESTED_KEYS = ("name", "description", "timeout", "evaluators")
"""Keys that a suggestion may set. The starting point and the prompt are facts."""

MAX_REQUIRED_PATHS = 3
_THRESHOLD = 0.8

_PATTERN_CHARS = frozenset("*?[]{}")
"""A path with one of these would be read as a pattern."""

_HEADER = "# Suggested by `yb suggest-testcase`. Review it, then: yb run -c {file}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAnswers:
    """The user's options and answers."""

    agent: str
    prompt: str
    repo: str | None
    """Set if the folder is not in a repository."""
    save_to: Path


def draft(facts: Facts, wanted: UserAnswers) -> dict[str, Any]:
    """Return a complete test case: limits around what was measured, the project's tests, a judge."""
    return {
        "name": _name(facts.directory),
        "description": shorten(first_line(wanted.prompt), 120),
        **_fixed(facts, wanted),
        "evaluators": [*_limits(facts), *_expected(facts), *_tests(facts), _judge(wanted)],
    }


def merge_answer(facts: Facts, wanted: UserAnswers, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the draft with the keys that the agent's suggestion may set."""
    return {**draft(facts, wanted), **{key: answer[key] for key in _SUGGESTED_KEYS if answer.get(key)}}


def _fixed(facts: Facts, wanted: UserAnswers) -> dict[str, Any]:
    fixed: dict[str, Any] = {"repo": _repo(facts, wanted)}
    if facts.baseline:
        fixed["commit"] = facts.baseline
    # `${NAME}` in the user's prompt is not a variable of the test case: escape it.
    prompt = REFERENCE.sub(lambda found: "$" + found.group(), wanted.prompt)
    fixed["agent"] = {"type": wanted.agent, "config": {"prompt": prompt}}
    if _result_branch(facts):
        fixed |= {"expected_source": "branch", "expected": _result_branch(facts)}
    return fixed


def _repo(facts: Facts, wanted: UserAnswers) -> str:
    """The remote, if it has the starting point and nothing else is needed from this folder; otherwise the folder."""
    home = facts.home
    if home is None:
        return wanted.repo or str(facts.directory)
    if home.remote and facts.baseline_is_published and not _result_branch(facts):
        return home.remote
    top, start = home.top.resolve(), wanted.save_to.absolute().parent.resolve()
    try:
        return Path(os.path.relpath(top, start)).as_posix()
    except ValueError:  # another drive on Windows
        return str(top)


def _result_branch(facts: Facts) -> str | None:
    """Return the branch that holds all of the work, as a reference; None if it is not all committed."""
    home = facts.home
    return home.branch if home and home.is_clean and home.head != facts.baseline else None


def _limits(facts: Facts) -> list[dict[str, Any]]:
    if not facts.changes:
        return [{"name": "git-diff"}]
    changes = facts.changes
    limits: dict[str, Any] = {
        "max_files_changed": _with_room(len(changes), 2),
        "max_lines_added": _with_room(sum(change.additions or 0 for change in changes), 20),
        "max_lines_removed": _with_room(sum(change.deletions or 0 for change in changes), 20),
    }
    modified = [
        change.path for change in changes if change.kind == "modified" and not _PATTERN_CHARS & set(change.path)
    ]
    required = {"required_paths": modified} if 0 < len(modified) <= MAX_REQUIRED_PATHS else {}
    return [{"name": "git-diff", "config": {"assertions": limits, **required}}]


def _with_room(measured: int, minimum: int) -> int:
    """Allow for a correct solution that is half as large again, or larger by `minimum`."""
    return max(math.ceil(measured * 1.5), measured + minimum)


def _expected(facts: Facts) -> list[dict[str, Any]]:
    return [{"name": "expected-diff", "config": {"threshold": _THRESHOLD}}] if _result_branch(facts) else []


def _tests(facts: Facts) -> list[dict[str, Any]]:
    return [{"name": "command", "config": {"command": facts.tests}}] if facts.tests else []


def _judge(wanted: UserAnswers) -> dict[str, Any]:
    asked = "Everything that the task asks for is done, and it works. 1 if so, 0 if not, in between if part of it is."
    clean = "The change does what the task asks for and nothing else. 1 if so, otherwise less."
    assertions = {"does_what_was_asked": asked, "nothing_else_was_changed": clean}
    return {"name": "agentic-judge", "config": {"type": wanted.agent, "assertions": assertions}}


def _name(directory: Path) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-")
    return slug or "suggested"


def as_yaml(case: Mapping[str, Any], file: str) -> str:
    """Format a test case as YAML that is easy to edit."""
    yaml = YAML()
    yaml.width = 10_000  # a folded text is hard to edit
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump(_with_block_texts(case), stream)
    return _HEADER.format(file=file) + stream.getvalue()


def _with_block_texts(value: Any) -> Any:
    """Make texts of several lines blocks. What was read from YAML keeps its style and its comments."""
    if isinstance(value, CommentedBase):
        return value
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    if isinstance(value, Mapping):
        return {key: _with_block_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_block_texts(item) for item in value]
    return value
