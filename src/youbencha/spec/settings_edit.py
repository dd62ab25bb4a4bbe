"""Change one setting in its file. Every other line stays as it is, and nothing invalid is written.

The place of a setting in a YAML file is read off ruamel's nodes, and only the text there is replaced: ruamel's own
round trip would drop the comments after a removed entry, which belong to the next one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from youbencha.errors import ConfigError, Problem
from youbencha.spec.document import Document, parse_document, read_document
from youbencha.spec.problems import list_problems
from youbencha.spec.settings import CODE, WHAT, Settings, project_refusals, write_settings
from youbencha.text import did_you_mean

Scalar = str | int | float | bool
MAX_NUMBER_CHARS = 18
"""A longer float would lose digits."""
DEFAULT_INDENT = 2
MAX_WIDTH = 1_000_000
"""Long lines are never folded."""


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
        problems = [Problem(tuple(name.split(".")), reason) for name, reason in refusals.items()]
        hint = f"Set it in your own settings with `yb config set --global {key} …`."
        raise ConfigError(CODE, "The setting", problems, hint=hint)
    before = read_document(file, code=CODE, what=WHAT) if file.exists() else _parse("", file)
    if not isinstance(before.data or {}, dict):
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


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """Every key in dots, including groups: `agent`, `agent.model`."""
    for name, info in model.model_fields.items():
        yield f"{prefix}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from known_keys(info.annotation, f"{prefix}{name}.")


def check_key(key: str) -> None:
    """Refuse a key that is not a setting, and name the nearest. Variables may have any name."""
    known = list(known_keys())
    if key in known or re.fullmatch(r"variables\.[^.]+", key):
        return
    problem = Problem(
        tuple(key.split(".")), "unknown key", did_you_mean(key, [*known, "variables.NAME"]), kind="unknown_key"
    )
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
        if re.fullmatch(pattern, text, re.ASCII) and len(text) <= MAX_NUMBER_CHARS and str(kind(text)) == text:
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
    result = [] if document.data is None else document.validate(Settings)
    return result if isinstance(result, list) else []


def _parse(text: str, file: Path) -> Document:
    return parse_document(text, code=CODE, what=WHAT, file=file)


def _holds(data: Any, path: Sequence[str]) -> bool:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True


def _edit(before: Document, file: Path, path: Sequence[str], value: Scalar | None) -> None:
    """Write the file with the value set, or removed if it is None; unless anything else in it would change."""
    text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n") if file.exists() else ""
    wanted = _changed(before.data, path, value)
    is_json = file.suffix.lower() == ".json" or text.lstrip().startswith("{")
    edited = _edit_json(file, text, path, value) if is_json else _edit_yaml(text, path, value)
    try:
        after = _parse(edited, file)
    except ConfigError:  # an anchor or a tag was lost
        raise _refusal(before, path) from None
    known = {problem.keys for problem in _problems(before)}
    if value is not None and (added := [problem for problem in _problems(after) if problem.keys not in known]):
        raise ConfigError(CODE, WHAT, added)
    if (after.data or {}) != wanted:
        raise _refusal(before, path)
    write_settings(file, edited)


def _refusal(before: Document, path: Sequence[str]) -> ConfigError:
    problem = before.problem(path, "cannot be changed without changing other settings")
    return ConfigError(CODE, WHAT, [problem], hint="Edit the file by hand.")


def _changed(data: Any, path: Sequence[str], value: Scalar | None) -> dict[str, Any]:
    """Return the data with a value set, or removed with every group that is empty without it."""
    result = dict(data) if isinstance(data, dict) else {}
    first, *rest = path
    inside = _changed(result.get(first), rest, value) if rest else value
    if inside is None or inside == {}:
        result.pop(first, None)
    else:
        result[first] = inside
    return result


def _edit_json(file: Path, text: str, path: Sequence[str], value: Scalar | None) -> str:
    try:
        root = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        problem = Problem((), f"is not valid JSON: {error.msg}", None, error.lineno, error.colno, file)
        raise ConfigError(CODE, WHAT, [problem], hint="Fix this by hand, then try again.") from None
    indent = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    data = _changed(root, path, value)
    return json.dumps(data, indent=indent.group() if indent else DEFAULT_INDENT, ensure_ascii=False) + "\n"


def _edit_yaml(text: str, path: Sequence[str], value: Scalar | None) -> str:
    root = YAML(typ="safe", pure=True).compose(text)
    if not isinstance(root, MappingNode):  # nothing but comments
        return (text.rstrip("\n") + "\n\n" if text.strip() else "") + _dump(_changed({}, path, value))
    group, path = _place(root, path, value)
    if group.flow_style or not group.value:
        return _edit_flow(text, group, path, value)
    entry = _entry(group, path[0])
    if entry and value is not None and len(path) == 1 and _is_in_line(old := entry[1]):
        new = _dump({"": value}).partition(": ")[2].rstrip("\n")
        return text[: old.start_mark.index] + new + text[old.end_mark.index :]
    lines = text.splitlines(keepends=True)
    lines[-1] = lines[-1].rstrip("\n") + "\n"
    end = _last_line(*(entry or group.value[-1])) + 1
    start = entry[0].start_mark.line if entry else end
    added = [] if value is None else _dump(_changed({}, path, value), _indent(root)).splitlines(keepends=True)
    margin = " " * group.value[0][0].start_mark.column
    return "".join([*lines[:start], *(margin + line for line in added), *lines[end:]])


def _place(root: MappingNode, path: Sequence[str], value: Scalar | None) -> tuple[MappingNode, Sequence[str]]:
    """Return the group to edit and the rest of the path: the innermost group that exists.

    To remove a value, it is the innermost that has other entries: the groups inside go with it.
    """
    group, place = root, (root, path)
    for index, step in enumerate(path[:-1], start=1):
        entry = _entry(group, step)
        if entry is None or not isinstance(entry[1], MappingNode):
            break
        group = entry[1]
        if value is not None or len(group.value) > 1:
            place = group, path[index:]
    return place


def _edit_flow(text: str, group: MappingNode, path: Sequence[str], value: Scalar | None) -> str:
    """Write a group in braces anew."""
    written = text[group.start_mark.index : group.end_mark.index]
    data = _changed(parse_document(written, code=CODE, what=WHAT).data, path, value)
    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width = True, MAX_WIDTH
    yaml.dump(data, out)
    return text[: group.start_mark.index] + out.getvalue().rstrip("\n") + text[group.end_mark.index :]


def _dump(data: Any, indent: int = DEFAULT_INDENT) -> str:
    out = io.StringIO()
    yaml = YAML()
    yaml.width = MAX_WIDTH
    yaml.indent(mapping=indent)
    yaml.dump(data, out)
    return out.getvalue()


def _entry(group: MappingNode, name: str) -> tuple[Node, Node] | None:
    return next(((key, value) for key, value in group.value if key.value == name), None)


def _is_block(node: Node) -> bool:
    return isinstance(node, MappingNode | SequenceNode) and not node.flow_style


def _is_in_line(node: Node) -> bool:
    return bool(node.start_mark.line == node.end_mark.line and node.start_mark.index < node.end_mark.index)


def _last_line(key: Node, value: Node) -> int:
    """Return the line in which an entry ends, without the blank lines and comments below it."""
    while _is_block(value) and value.value:
        last = value.value[-1]
        key, value = last if isinstance(last, tuple) else (last, last)
    start, end = value.start_mark, value.end_mark
    if start.index == end.index:  # `key:` with nothing behind it
        return int(key.start_mark.line)
    return int(end.line - (end.column == 0 and end.line > start.line))


def _indent(root: MappingNode) -> int:
    """Return by how much the file indents its groups."""
    columns = (value.start_mark.column for _, value in root.value if _is_block(value))
    return next((column for column in columns if column), DEFAULT_INDENT)
