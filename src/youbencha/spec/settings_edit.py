"""Change one setting in its file; everything else in there stays as it is, comments and order included.

Nothing is written that could not be read afterwards.
"""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from youbencha.errors import ConfigError, Problem
from youbencha.spec.document import Source, parse_source, read_source
from youbencha.spec.problems import problems_of
from youbencha.spec.settings import CODE, WHAT, Settings, write_settings
from youbencha.spec.settings_text import with_entry, without_entry
from youbencha.text import did_you_mean

Scalar = str | int | float | bool

_LONGEST_NUMBER = 18
"""Beyond, a float would lose digits."""


def known_keys(model: type[BaseModel] = Settings, before: str = "") -> Iterator[str]:
    """Every key in dots, groups too: `agent`, `agent.model`."""
    for name, info in model.model_fields.items():
        yield f"{before}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from known_keys(info.annotation, f"{before}{name}.")


def check_key(key: str) -> None:
    """Refuse what is no setting, and name the nearest. Variables have whatever names their owner gives them."""
    known = list(known_keys())
    if key in known or re.fullmatch(r"variables\.[^.]+", key):
        return
    problem = Problem(key, "unknown key", did_you_mean(key, [*known, "variables.NAME"]))
    raise ConfigError(CODE, "The setting", [problem], hint="`yb config list` shows all of them.")


def meant(key: str, text: str, *, as_text: bool = False) -> Scalar:
    """The number or truth value that a text spells if the setting takes one, else the text."""
    check_key(key)
    spelled: Scalar = text if as_text else coerced(text)
    problems = _value_problems(key, spelled)
    if problems and not isinstance(spelled, str) and not _value_problems(key, text):
        return text  # a model may be called 4
    if problems:
        raise ConfigError(CODE, "The setting", problems)
    return spelled


def coerced(text: str) -> Scalar:
    """Only what would be written the same again is a number: 3.10 is a version, and 007 a name."""
    if text in ("true", "false"):
        return text == "true"
    for kind, shape in ((int, r"-?\d+"), (float, r"-?\d+\.\d+")):
        if re.fullmatch(shape, text, re.ASCII) and len(text) <= _LONGEST_NUMBER and str(kind(text)) == text:
            return kind(text)
    return text


def _value_problems(key: str, value: Scalar) -> list[Problem]:
    nested: Any = value
    for step in reversed(key.split(".")):
        nested = {step: nested}
    try:
        Settings.model_validate(nested)
    except ValidationError as error:
        return problems_of(error, Settings)
    return []


Data = MutableMapping[str, Any]


def set_value(file: Path, key: str, text: str, *, as_text: bool = False) -> Scalar:
    """Write one setting; make the file if there is none. Returns what the text was taken for.

    Other mistakes in the file do not matter: whoever has made two mends one at a time.
    """
    value, way = meant(key, text, as_text=as_text), key.split(".")
    if file.exists():
        read_source(file, code=CODE, what=WHAT)
    before = _text_of(file)
    source = _parsed(before, file)
    if not isinstance(source.data or {}, MutableMapping):
        raise ConfigError(CODE, WHAT, _problems(source))
    quoted = json.dumps(value, ensure_ascii=False)
    spellings = [value, quoted] if isinstance(value, str) else [quoted]  # without quotes, if it then still is this text
    drafts = [with_entry(before, source.document.root, way, spelled) for spelled in spellings]
    after = _changed(source, before, lambda data: _put(data, way, value), drafts)
    _check_not_worse(source, _parsed(after, file))
    write_settings(file, after)
    return value


def unset_value(file: Path, key: str) -> bool:
    """Remove one setting; whether it was there. Works on a file with mistakes: that is how to be rid of one."""
    if not file.exists():
        return False
    way = key.split(".")
    read_source(file, code=CODE, what=WHAT)
    before = _text_of(file)
    source = _parsed(before, file)
    if not _holds(source.data, way):
        return False
    drafts = [without_entry(before, source.document.root, way)]
    write_settings(file, _changed(source, before, lambda data: _remove(data, way), drafts))
    return True


def _check_not_worse(before: Source, after: Source) -> None:
    known = {(problem.path, problem.message) for problem in _problems(before)}
    added = [problem for problem in _problems(after) if (problem.path, problem.message) not in known]
    if added:
        raise ConfigError(CODE, WHAT, added)


def _problems(source: Source) -> list[Problem]:
    found = [] if source.data is None else source.problems_as(Settings)
    return found if isinstance(found, list) else []


def _text_of(file: Path) -> str:
    """Lines end in `\\n` only; writing gives them back the ends that they had."""
    return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n") if file.exists() else ""


def _parsed(text: str, file: Path) -> Source:
    return parse_source(text, code=CODE, what=WHAT, file=file)


def _changed(source: Source, text: str, change: Callable[[Data], None], drafts: Sequence[str | None]) -> str:
    """The first draft that says exactly what is wanted; if none does, the file is written anew from its data."""
    assert source.file is not None
    if _is_json(source.file, text):
        return _rewritten_json(source.file, text, change)
    wanted = copy.deepcopy(source.data or {})
    change(wanted)
    for draft in drafts:
        if draft is not None and _says(draft, wanted):
            return draft
    return _rewritten_yaml(text, change)


def _says(text: str, wanted: Data) -> bool:
    try:
        return (parse_source(text, code=CODE, what=WHAT).data or {}) == wanted
    except ConfigError:
        return False


def _is_json(file: Path, text: str) -> bool:
    return file.suffix.lower() == ".json" or text.lstrip().startswith("{")


def _rewritten_json(file: Path, text: str, change: Callable[[Data], None]) -> str:
    try:
        root = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        problem = Problem("", f"is not JSON: {error.msg}", None, error.lineno, error.colno, file)
        raise ConfigError(CODE, WHAT, [problem], hint="Mend this by hand, then try again.") from None
    change(root)
    indent = re.search(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    return json.dumps(root, indent=indent.group() if indent else 2, ensure_ascii=False) + "\n"


def _rewritten_yaml(text: str, change: Callable[[Data], None]) -> str:
    """Comments and order are kept; blanks and indents may come out otherwise."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000  # never fold a line that was not folded
    root = yaml.load(text) or {}
    change(root)
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _put(data: Data, way: Sequence[str], value: Scalar) -> None:
    *groups, last = way
    for step in groups:
        if not isinstance(data.get(step), MutableMapping):
            data[step] = {}
        data = data[step]
    data[last] = value


def _holds(data: Any, way: Sequence[str]) -> bool:
    for step in way:
        if not isinstance(data, MutableMapping) or step not in data:
            return False
        data = data[step]
    return True


def _remove(data: Data, way: Sequence[str]) -> None:
    """And the groups that are empty without it."""
    step, *rest = way
    if rest:
        _remove(data[step], rest)
    if not rest or not data[step]:
        del data[step]
