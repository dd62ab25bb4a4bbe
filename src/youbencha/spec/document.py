"""Read YAML and JSON files into plain data with positions, and validate them against a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.constructor import ConstructorError, DuplicateKeyError, RoundTripConstructor, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node

from youbencha.errors import ConfigError, KeyPath, Problem, ProblemKind, Step
from youbencha.spec.compat import Translation
from youbencha.spec.problems import Position, list_unlocated

MAX_BYTES = 1024 * 1024
MAX_VALUES = 250_000
"""With every alias expanded. A test case has hundreds."""
_NO_TAGS = "YAML tags cannot be used here"
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Document:
    """The content of a file, and where each part of it is written."""

    data: Any
    file: Path | None
    code: str
    """The code of errors about this file."""
    what: str
    """How errors name the file: "The test case"."""
    root: Any = None
    """The data as ruamel built them, with positions; None if they were not read from text."""
    parts: Mapping[KeyPath, Document] = field(default_factory=dict)
    """Other documents that parts of the data were taken from, by the paths of these parts, which are the same there."""
    moved: Mapping[KeyPath, KeyPath] = field(default_factory=dict)
    """Where parts of the data are written that a translation moved, by their paths in the data."""

    def line(self, path: KeyPath) -> int:
        """The line in which a part of the data begins."""
        source = self._source(path)
        return source._locate(source._written_path(path)).line

    def _source(self, path: KeyPath) -> Document:
        """Return the document that a part of the data was taken from: this one, unless it is in `parts`."""
        return next((self.parts[prefix] for prefix in _prefixes(path) if prefix in self.parts), self)

    def _written_path(self, path: KeyPath) -> KeyPath:
        """Return the path under which the user wrote a part of the data."""
        for prefix in _prefixes(path):
            if prefix in self.moved:
                return (*self.moved[prefix], *path[len(prefix) :])
        return path

    def _locate(self, path: KeyPath, at_key: bool = False) -> Position:
        """The position of a value, or of its key; of the innermost part around it if there is no such path."""
        here = self.root
        position = Position(here.lc.line + 1, here.lc.col + 1) if isinstance(here, CommentedBase) else Position(1, 1)
        for index, step in enumerate(path):
            marks = _marks(here, step)
            if marks is None:
                return position
            line, column = marks[:2] if at_key and index == len(path) - 1 else marks[-2:]
            position, here = Position(line + 1, column + 1), here[step]
        return position

    def problem(
        self,
        path: Sequence[Step],
        message: str,
        hint: str | None = None,
        *,
        kind: ProblemKind = "invalid",
        at_key: bool = False,
    ) -> Problem:
        """A problem that the model does not find, at the position of a value, or with `at_key` of its key.

        `path` leads through the data; the problem names the path that the user wrote.
        """
        source = self._source(tuple(path))
        if source is not self:
            return source.problem(path, message, hint, kind=kind, at_key=at_key)
        written = self._written_path(tuple(path))
        if self.root is None:
            return Problem(written, message, hint, file=self.file, kind=kind)
        position = self._locate(written, at_key or kind == "unknown_key")
        return Problem(written, message, hint, position.line, position.column, self.file, kind)

    def translated(self, translate: Callable[[Any], Translation]) -> tuple[Document, list[Problem], list[Problem]]:
        """The document in our own spelling, warnings and errors."""
        result = translate(self.data)
        document = replace(self, data=result.data, moved={**self.moved, **result.moved})
        warnings, errors = (
            [document.problem(p.keys, p.message, p.hint, kind=p.kind, at_key=True) for p in problems]
            for problems in (result.notices, result.refusals)
        )
        return document, warnings, errors

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        far = float("inf")
        ordered = sorted(problems, key=lambda p: (str(p.file or ""), p.line or far, p.column or far))
        return ConfigError(self.code, self.what, ordered)

    def validate(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model | list[Problem]:
        """The model, or all problems."""
        if self.data is None:
            return [Problem((), "is empty", file=self.file)]
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            found = list_unlocated(error, model, self.data)
        return [self.problem(p.keys, p.message, p.hint, kind=p.kind, at_key=at_key) for p, at_key in found]

    def validate_or_raise(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model:
        result = self.validate(model, context=context)
        if isinstance(result, list):
            raise self.error(result)
        return result


def _prefixes(path: KeyPath) -> Iterator[KeyPath]:
    """Yield the path and each path around it, the longest first."""
    return (path[:end] for end in range(len(path), 0, -1))


def _marks(collection: Any, step: Step) -> Sequence[int] | None:
    """Return line and column of a key and of its value, which may be merged into the mapping (`<<`)."""
    if not isinstance(collection, CommentedBase):
        return None
    marks: Sequence[int] | None = (collection.lc.data or {}).get(step)
    if marks is not None:
        return marks
    return next((marks for source in getattr(collection, "merge", ()) if (marks := _marks(source, step))), None)


def load_yaml_model(
    path: Path, model: type[Model], *, code: str, what: str, context: Mapping[str, Any] | None = None
) -> Model:
    """Read a YAML or JSON file into a model. All problems are one ConfigError with file, line and column."""
    return read_document(path, code=code, what=what).validate_or_raise(model, context=context)


def parse_yaml_model(
    text: str,
    model: type[Model],
    *,
    code: str,
    what: str,
    file: Path | None = None,
    context: Mapping[str, Any] | None = None,
) -> Model:
    """Read text into a model; `file` is only named in problems, and its suffix distinguishes JSON from YAML.

    `context` is passed to the model's validators.
    """
    return parse_document(text, code=code, what=what, file=file).validate_or_raise(model, context=context)


def read_document(path: Path | str, *, code: str, what: str) -> Document:
    """Read a YAML or JSON file. A file that cannot be read is a ConfigError with file, line and column."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            message = f"is larger than {MAX_BYTES // 1024 // 1024} MiB"
        else:
            return parse_document(raw.decode("utf-8-sig"), code=code, what=what, file=path)
    except FileNotFoundError:
        message = "there is no such file"
    except IsADirectoryError:
        message = "is a directory, not a file"
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 text (line {line})"
    raise ConfigError(code, what, [Problem((), message, file=path)])


def parse_document(text: str, *, code: str, what: str, file: Path | None = None) -> Document:
    """Read text; `file` is only named in problems, and its suffix distinguishes JSON from YAML."""
    if file is not None and file.suffix.lower() == ".json":
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML not; a JSON string has no bare tab
    yaml = YAML(typ="safe", pure=True)  # for its scanner, which is faster than the one that keeps comments
    yaml.Constructor = _Constructor
    try:
        root = yaml.load(text)
        return Document(_to_plain(root), file, code, what, root)
    except MarkedYAMLError as error:
        problem = _syntax_problem(error, text)
    except YAMLError as error:
        problem = Problem((), f"is not valid YAML: {str(error).splitlines()[0]}")
    except (KeyError, ValueError):  # `!!int x`
        problem = Problem((), "is not valid YAML: a value does not fit its tag")
    except RecursionError:
        problem = Problem((), "is nested too deeply")
    except _TooLarge:
        problem = Problem((), f"has more than {MAX_VALUES:,} values with its aliases expanded")
    raise ConfigError(code, what, [replace(problem, file=file)])


def _syntax_problem(error: MarkedYAMLError, text: str) -> Problem:
    """Return ruamel's message, unless that could quote a value, which may be a secret."""
    mark = error.problem_mark or error.context_mark
    message, hint = f"is not valid YAML: {error.problem or error.context or 'it cannot be read'}", None
    if isinstance(error, DuplicateKeyError):
        name = re.match(r"[\"']?([\w.-]+)", text[mark.index :]) if mark else None
        message = f"the key `{name[1]}` is given twice" if name else "the key is given twice"
    elif error.problem == _NO_TAGS:
        message, hint = _NO_TAGS, "write a plain value"
    elif isinstance(error, ComposerError):
        is_second_document = error.context is not None
        message = (
            "contains more than one document" if is_second_document else "is not valid YAML: the alias has no anchor"
        )
    elif mark and text[mark.index : mark.index + 1] == "\t":
        message, hint = "is not valid YAML: a tab cannot be used here", "use spaces"
    return Problem((), message, hint, *((mark.line + 1, mark.column + 1) if mark else (None, None)))


class _Constructor(RoundTripConstructor):
    """Ruamel's round trip, which records positions, with plain scalars and without tags."""

    def construct_text(self, node: Node) -> str:
        return _join_surrogates(str(self.construct_scalar(node)))

    def refuse_tag(self, node: Node) -> Any:
        raise ConstructorError(problem=_NO_TAGS, problem_mark=node.start_mark)


_CONSTRUCTORS: Mapping[str, Any] = {
    "map": RoundTripConstructor.construct_yaml_map,
    "seq": RoundTripConstructor.construct_yaml_seq,
    "null": SafeConstructor.construct_yaml_null,
    "bool": SafeConstructor.construct_yaml_bool,
    "int": SafeConstructor.construct_yaml_int,
    "float": SafeConstructor.construct_yaml_float,
    "str": _Constructor.construct_text,
    "timestamp": _Constructor.construct_text,  # a model that wants a date can parse one
    "value": _Constructor.construct_text,  # a bare `=`
}
_Constructor.yaml_constructors = {
    None: _Constructor.refuse_tag,
    **{f"tag:yaml.org,2002:{name}": construct for name, construct in _CONSTRUCTORS.items()},
}


class _TooLarge(Exception):
    """The data has too many values."""


def _to_plain(root: Any) -> Any:
    """Copy ruamel's collections to plain ones, with every alias expanded."""
    values = 0

    def copy(value: Any) -> Any:
        nonlocal values
        values += 1
        if values > MAX_VALUES:
            raise _TooLarge
        if isinstance(value, dict):
            return {key: copy(item) for key, item in value.items()}
        if isinstance(value, list):
            return [copy(item) for item in value]
        return value

    return copy(root)


def _join_surrogates(text: str) -> str:
    """Join surrogates: JSON writes a character beyond U+FFFF as two escapes, which YAML reads as two characters."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
