"""Change one setting in its file; comments, order and everything else in the file stay.

Nothing is written that could not be read again.
"""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark
from ruamel.yaml.scalarstring import FoldedScalarString, LiteralScalarString, PlainScalarString
from ruamel.yaml.tokens import CommentToken

from youbencha.errors import ConfigError, Problem
from youbencha.spec.document import Document, parse_document, read_document
from youbencha.spec.problems import list_problems
from youbencha.spec.settings import CODE, WHAT, Settings, project_refusals, write_settings
from youbencha.text import did_you_mean

Scalar = str | int | float | bool
Data = MutableMapping[str, Any]

_LONGEST_NUMBER = 18
"""A longer float would lose digits."""


def set_value(
    file: Path, key: str, text: str, *, as_text: bool = False, user_values: Mapping[str, Any] | None = None
) -> Scalar:
    """Write one setting, to a new file if there is none, and return its value.

    Other mistakes in the file are ignored, so that they can be fixed one at a time. For a project's file, `user_values`
    are the values of the user's file.
    """
    value = parse_setting(key, text, as_text=as_text)
    new_values = Settings.model_validate(_nested(key, value)).model_dump(exclude_unset=True)
    if user_values is not None and (refusals := project_refusals(new_values, user_values)):
        problems = [Problem(name, reason) for name, reason in refusals.items()]
        hint = f"Set it in your own settings with `yb config set --global {key} …`."
        raise ConfigError(CODE, "The setting", problems, hint=hint)
    before = read_document(file, code=CODE, what=WHAT) if file.exists() else _parsed("", file)
    if not isinstance(before.data or {}, MutableMapping):
        raise ConfigError(CODE, WHAT, _problems(before))
    _edit(before, file, key.split("."), value)
    return value


def unset_value(file: Path, key: str) -> bool:
    """Remove one setting; return whether it was set. Works on a file with mistakes, to fix them."""
    if not file.exists():
        return False
    before, path = read_document(file, code=CODE, what=WHAT), key.split(".")
    if not _holds(before.data, path):
        return False
    _edit(before, file, path, None)
    return True


def known_keys(model: type[BaseModel] = Settings, before: str = "") -> Iterator[str]:
    """Every key in dots, groups too: `agent`, `agent.model`."""
    for name, info in model.model_fields.items():
        yield f"{before}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from known_keys(info.annotation, f"{before}{name}.")


def check_key(key: str) -> None:
    """Refuse a key that is not a setting, and name the nearest. Variables may have any name."""
    known = list(known_keys())
    if key in known or re.fullmatch(r"variables\.[^.]+", key):
        return
    problem = Problem(key, "unknown key", did_you_mean(key, [*known, "variables.NAME"]), kind="unknown_key")
    raise ConfigError(CODE, "The setting", [problem], hint="`yb config list` shows all of them.")


def parse_setting(key: str, text: str, *, as_text: bool = False) -> Scalar:
    """Parse a value from the command line: a number or boolean if the setting takes one, else text."""
    check_key(key)
    value = text if as_text else _scalar(text)
    problems = _value_problems(key, value)
    if problems and not isinstance(value, str) and not _value_problems(key, text):
        return text  # a model may be called 4
    if problems:
        raise ConfigError(CODE, "The setting", problems)
    return value


def _scalar(text: str) -> Scalar:
    """Parse a boolean or a number. A number must be in its normal form: 3.10 is a version, and 007 a name."""
    if text in ("true", "false"):
        return text == "true"
    for kind, pattern in ((int, r"-?\d+"), (float, r"-?\d+\.\d+")):
        if re.fullmatch(pattern, text, re.ASCII) and len(text) <= _LONGEST_NUMBER and str(kind(text)) == text:
            return kind(text)
    return text


def _value_problems(key: str, value: Scalar) -> list[Problem]:
    try:
        Settings.model_validate(_nested(key, value))
    except ValidationError as error:
        return list_problems(error, Settings, _nested(key, value))
    return []


def _nested(key: str, value: Any) -> Any:
    """Return one setting in the form of a file: `{"agent": {"model": "opus"}}`."""
    for step in reversed(key.split(".")):
        value = {step: value}
    return value


def _problems(document: Document) -> list[Problem]:
    found = [] if document.data is None else document.validate(Settings)
    return found if isinstance(found, list) else []


def _parsed(text: str, file: Path) -> Document:
    return parse_document(text, code=CODE, what=WHAT, file=file)


def _holds(data: Any, path: Sequence[str]) -> bool:
    for step in path:
        if not isinstance(data, MutableMapping) or step not in data:
            return False
        data = data[step]
    return True


def _edit(before: Document, file: Path, path: Sequence[str], value: Scalar | None) -> None:
    """Write the file with the value set, or removed if it is None; unless anything else in it would change."""
    text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n") if file.exists() else ""
    is_json = file.suffix.lower() == ".json" or text.lstrip().startswith("{")
    edited = _edited_json(file, text, path, value) if is_json else _edited_yaml(text, path, value)
    after = _parsed(edited, file)
    known = {problem.keys for problem in _problems(before)}
    if value is not None and (added := [problem for problem in _problems(after) if problem.keys not in known]):
        raise ConfigError(CODE, WHAT, added)
    wanted = copy.deepcopy(before.data or {})
    _change(wanted, path, value)
    if (after.data or {}) != wanted:
        problem = before.problem(path, "cannot be changed without changing other settings")
        raise ConfigError(CODE, WHAT, [problem], hint="Edit the file by hand.")
    write_settings(file, edited)


def _edited_json(file: Path, text: str, path: Sequence[str], value: Scalar | None) -> str:
    try:
        root = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        problem = Problem("", f"is not valid JSON: {error.msg}", None, error.lineno, error.colno, file)
        raise ConfigError(CODE, WHAT, [problem], hint="Fix this by hand, then try again.") from None
    _change(root, path, value)
    indent = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return json.dumps(root, indent=indent.group() if indent else 2, ensure_ascii=False) + "\n"


def _edited_yaml(text: str, path: Sequence[str], value: Scalar | None) -> str:
    """Through ruamel's round trip, except for what comes before the document's start (`---`): it would be lost."""
    start = re.match(r"(?:[#%].*\n|\n)*---[ \t]*\n", text)
    head, text = (start.group(), text[start.end() :]) if start else ("", text)
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000  # never fold a line that was not folded
    root = yaml.load(text)
    if root is None:  # nothing but comments
        root = CommentedMap()
        head += text.rstrip("\n") + "\n\n" if text.strip() else ""
    yaml.indent(mapping=next((group.lc.col for group in root.values() if _is_block(group) and group.lc.col), 2))
    tail = _change(root, path, value)
    out = io.StringIO()
    yaml.dump(root, out)
    return head + (out.getvalue() if root else out.getvalue().removesuffix("{}\n")) + tail


def _change(root: Data, path: Sequence[str], value: Scalar | None) -> str:
    """Set an entry, or remove it if the value is None; return comments that have no entry left to be attached to."""
    if value is None:
        return _remove(root, path)
    _set(root, path, PlainScalarString(value) if isinstance(value, str) else value)
    return ""


def _set(root: Data, path: Sequence[str], value: Any) -> None:
    """Set a value, in new groups if needed. A new entry comes directly below the last one of its group."""
    group, (key, *rest) = root, path
    while rest and isinstance(group.get(key), MutableMapping):
        group, (key, *rest) = group[key], rest
    for step in reversed(rest):
        value = CommentedMap({step: value})
    last = key if key in group else next(reversed(list(group)), None)
    lines = _take_lines_below(group, last) if last is not None else ""
    group[key] = value
    _add_lines_below(group, key, lines)


def _remove(root: Data, path: Sequence[str]) -> str:
    """Remove an entry, and the groups that are empty without it."""
    here, step = group, key = root, path[0]
    for next_step in path[1:]:
        here, step = here[step], next_step
        if len(here) > 1:
            group, key = here, step
    keys = list(group)
    index = keys.index(key)
    below = _take_lines_below(group, key)
    lines = _take_lines_above(group, key) + below
    del group[key]
    if index + 1 < len(keys):
        _add_lines_above(group, keys[index + 1], lines)
    elif index:
        _add_lines_below(group, keys[index - 1], lines)
    if not group and isinstance(group, CommentedMap):
        return lines + "".join(token.value for token in group.ca.end)
    return ""


# Ruamel attaches the blank lines and comments below an entry to that entry. They belong to what follows, so they must
# neither be removed with the entry nor separate it from a new one below it.

_ABOVE = 1
"""Index of the comments above a key in ruamel's list of its comments."""


def _take_lines_above(group: Data, key: str) -> str:
    comments = group.ca.items.pop(key, None) if isinstance(group, CommentedMap) else None
    return "".join(token.value for token in (comments and comments[_ABOVE]) or ())


def _add_lines_above(group: Data, key: str, lines: str) -> None:
    if lines and isinstance(group, CommentedMap):
        comments = group.ca.items.setdefault(key, [None, None, None, None])
        comments[_ABOVE] = [CommentToken(lines, CommentMark(0)), *(comments[_ABOVE] or ())]


def _take_lines_below(group: Data, key: str) -> str:
    if not isinstance(group, CommentedMap):
        return ""
    comments, index, end_of_line = _end_comment(group, key)
    token = comments[index]
    if token is None:
        return ""
    comment, _, lines = token.value.partition("\n") if end_of_line else ("", "", token.value)
    comments[index] = CommentToken(f"{comment}\n", token.start_mark) if comment else None
    return str(lines)


def _add_lines_below(group: Data, key: str, lines: str) -> None:
    if lines and isinstance(group, CommentedMap):
        comments, index, end_of_line = _end_comment(group, key)
        token = comments[index] or CommentToken(end_of_line, CommentMark(0))
        comments[index] = CommentToken(token.value + lines, token.start_mark)


def _end_comment(group: CommentedMap | CommentedSeq, key: str | int) -> tuple[list[Any], int, str]:
    """The comments of the last scalar in an entry, the index of the one at its end, and what ends the scalar's line.

    A block scalar (`|`) has ended its line itself.
    """
    value = group[key]
    if _is_block(value):
        return _end_comment(value, list(value)[-1] if isinstance(value, CommentedMap) else len(value) - 1)
    comments = group.ca.items.setdefault(key, [None, None, None, None])
    end_of_line = "" if isinstance(value, LiteralScalarString | FoldedScalarString) else "\n"
    return comments, 2 if isinstance(group, CommentedMap) else 0, end_of_line


def _is_block(value: Any) -> bool:
    return isinstance(value, CommentedMap | CommentedSeq) and bool(value) and not value.fa.flow_style()
