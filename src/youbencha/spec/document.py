"""A YAML or JSON file: its data, where each part of it is, and the model that it is checked against.

The text is only composed into nodes, which carry positions; the data are built here from the nodes. So no tag
can make an object, and duplicate keys, cycles and alias bombs are seen before anything is expanded.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from youbencha.errors import ConfigError, Problem
from youbencha.spec.problems import KeyPath, Position, Spot, Step, dotted, problems_of

MAX_BYTES = 1024 * 1024

Model = TypeVar("Model", bound=BaseModel)


MAX_NODES = 250_000
"""With every alias written out. A test case has hundreds; what has more is a bomb or no configuration."""

_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_PREFIX + name for name in ("map", "seq", "str", "null", "bool", "int", "float", "timestamp"))
_MERGE = _PREFIX + "merge"


class Unreadable(Exception):
    """The text is no document at all, or not one that is safe to expand."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


class Document(NamedTuple):
    data: Any
    root: Node | None

    def locate(self, path: KeyPath, spot: Spot) -> Position | None:
        """The position of a key or value; of the nearest thing around it if the path leads nowhere."""
        node = self.root
        if node is None:
            return Position(1, 1)
        at = node
        for index, step in enumerate(path):
            entry = _entry(node, step)
            if entry is None:
                return _position(node)
            key, node = entry
            at = key if spot is Spot.KEY and index == len(path) - 1 and key is not None else node
        return _position(at)


def read_document(text: str) -> Document:
    try:
        root = YAML(typ="safe", pure=True).compose(io.StringIO(text))
        if root is None:
            return Document(None, None)
        _check_size(root)
        _check_nodes(root)
        return Document(_Builder().value(root), root)
    except MarkedYAMLError as error:
        raise Unreadable(_syntax_problem(error)) from None
    except YAMLError as error:
        raise Unreadable(Problem("", f"is not YAML: {str(error).splitlines()[0]}")) from None
    except RecursionError:
        raise Unreadable(Problem("", "is nested too deeply")) from None


def _syntax_problem(error: MarkedYAMLError) -> Problem:
    problem = error.problem or error.context or "it cannot be read"
    mark = error.problem_mark or error.context_mark
    message = f"is not YAML: {problem}"
    hint = None
    if "another document" in problem:
        message = "holds more than one document"
    elif "'\\t'" in problem:
        message, hint = "is not YAML: a tab cannot be used to indent", "use spaces"
    elif "undefined alias" in problem:
        message = "is not YAML: the alias has no anchor"
    return Problem("", message, hint, *((mark.line + 1, mark.column + 1) if mark else (None, None)))


def _check_size(root: Node) -> None:
    """Refuse cycles and alias bombs. Each node is visited once, however often it is referred to."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Node) -> int:
        if id(node) in open_nodes:
            raise Unreadable(_at(node, "", "contains itself through an alias"))
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            open_nodes.remove(id(node))
        return sizes[id(node)]

    if size(root) > MAX_NODES:
        raise Unreadable(Problem("", f"has more than {MAX_NODES:,} values once its aliases are written out"))


def _check_nodes(root: Node) -> None:
    """Refuse tags, keys that are not scalars, and keys given twice: all of them at once."""
    problems: list[Problem] = []
    seen: set[int] = set()
    todo: list[tuple[KeyPath, Node]] = [((), root)]
    while todo:
        path, node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            problems.append(_at(node, dotted(path), "YAML tags cannot be used here", "write a plain value"))
        if isinstance(node, MappingNode):
            problems += _key_problems(path, node)
            todo += [((*path, str(key.value)), value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            todo += [((*path, index), item) for index, item in enumerate(node.value)]
    if problems:
        raise Unreadable(*sorted(problems, key=lambda p: (p.line or 0, p.column or 0)))


def _key_problems(path: KeyPath, node: MappingNode) -> Iterator[Problem]:
    first: dict[Any, Node] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            if not all(isinstance(source, MappingNode) for source in _merged(value)):
                yield _at(value, dotted(path), "'<<' takes a mapping or a list of mappings")
            continue
        if not isinstance(key, ScalarNode):
            yield _at(key, dotted(path), "a key must be text")
            continue
        name = _scalar(key)
        if name in first:
            line = first[name].start_mark.line + 1
            yield _at(key, dotted((*path, name)), f"the key is given twice, first in line {line}")
        first.setdefault(name, key)


class _Builder:
    """Plain data from nodes. A node that is referred to twice becomes one shared object."""

    def __init__(self) -> None:
        self._built: dict[int, Any] = {}

    def value(self, node: Node) -> Any:
        if id(node) not in self._built:
            self._built[id(node)] = self._build(node)
        return self._built[id(node)]

    def _build(self, node: Node) -> Any:
        if isinstance(node, MappingNode):
            return {_scalar(key): self.value(value) for key, value in _entries(node)}
        if isinstance(node, SequenceNode):
            return [self.value(item) for item in node.value]
        return _scalar(node)


def _scalar(node: Node) -> Any:
    """Dates stay text: what wants a date can read one, and what wants text must not be given a date."""
    convert = _converters().get(node.tag or "")
    if convert is None:
        return _join_surrogates(node.value)
    try:
        return convert(node)
    except (ValueError, KeyError):
        raise Unreadable(_at(node, "", "is not a value of the kind that its tag says")) from None


@cache
def _converters() -> dict[str, Callable[[Node], Any]]:
    safe = YAML(typ="safe", pure=True).constructor
    return {
        _PREFIX + "null": safe.construct_yaml_null,
        _PREFIX + "bool": safe.construct_yaml_bool,
        _PREFIX + "int": safe.construct_yaml_int,
        _PREFIX + "float": safe.construct_yaml_float,
    }


def _join_surrogates(text: str) -> str:
    """JSON writes a character beyond U+FFFF as two escapes, which YAML takes for two characters."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _entries(node: MappingNode) -> list[tuple[Node, Node]]:
    """The entries with those that `<<` brings in; the mapping's own win, then the earlier ones."""
    entries: dict[Any, tuple[Node, Node]] = {}
    for key, value in node.value:
        if key.tag != _MERGE:
            entries[_scalar(key)] = (key, value)
    for key, value in node.value:
        if key.tag == _MERGE:
            for source in _merged(value):
                for inner_key, inner_value in _entries(source):
                    entries.setdefault(_scalar(inner_key), (inner_key, inner_value))
    return list(entries.values())


def _merged(value: Node) -> list[Any]:
    return list(value.value) if isinstance(value, SequenceNode) else [value]


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
        yield from node.value


def _entry(node: Node, step: Step) -> tuple[Node | None, Node] | None:
    if isinstance(node, MappingNode):
        return next(((key, value) for key, value in _entries(node) if _scalar(key) == step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        return None, node.value[step]
    return None


def _position(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _at(node: Node, path: str, message: str, hint: str | None = None) -> Problem:
    where = _position(node)
    return Problem(path, message, hint, where.line, where.column)


class Source(NamedTuple):
    """`code` and `what` are how an error names it."""

    document: Document
    file: Path | None
    code: str
    what: str

    @property
    def data(self) -> Any:
        return self.document.data

    def problem(self, path: Sequence[Step], message: str, hint: str | None = None, *, at_key: bool = False) -> Problem:
        """Something that is wrong at a place, found by whoever knows more than the model."""
        at = self.document.locate(tuple(path), Spot.KEY if at_key else Spot.VALUE)
        line, column = (at.line, at.column) if at else (None, None)
        return Problem(dotted(tuple(path)), message, hint, line, column, self.file)

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        far = float("inf")
        ordered = sorted(problems, key=lambda p: (str(p.file or ""), p.line or far, p.column or far))
        return ConfigError(self.code, self.what, ordered)

    def with_data(self, data: Any) -> Source:
        """The same places, another content (variables substituted, say)."""
        return self._replace(document=self.document._replace(data=data))

    def problems_as(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model | list[Problem]:
        """The model, or everything that is wrong."""
        if self.data is None:
            return [Problem("", "is empty", file=self.file)]
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            found = problems_of(error, model, locate=self.document.locate)
            return [replace(problem, file=self.file) for problem in found]

    def validated(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model:
        found = self.problems_as(model, context=context)
        if isinstance(found, list):
            raise ConfigError(self.code, self.what, found)
        return found


def read_source(path: Path, *, code: str, what: str) -> Source:
    """Read a YAML or JSON file. Whatever is wrong is a ConfigError that names file, line and column."""
    try:
        text = _read(path)
    except _Refused as refused:
        raise ConfigError(code, what, [Problem("", str(refused), file=path)]) from None
    return parse_source(text, code=code, what=what, file=path)


def parse_source(text: str, *, code: str, what: str, file: Path | None = None) -> Source:
    """The same from text; `file` is only named in the problems, and its ending tells JSON from YAML."""
    try:
        document = read_document(_tabs_to_spaces(text) if _is_json(file) else text)
    except Unreadable as unreadable:
        problems = [replace(problem, file=file) for problem in unreadable.problems]
        raise ConfigError(code, what, problems) from None
    return Source(document, file, code, what)


class _Refused(Exception):
    pass


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _Refused("there is no such file") from None
    except IsADirectoryError:
        raise _Refused("is a directory, not a file") from None
    except OSError as error:
        raise _Refused(f"cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise _Refused(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _Refused(f"is not UTF-8 text (line {line})") from None


def _is_json(file: Path | None) -> bool:
    return file is not None and file.suffix.lower() == ".json"


def _tabs_to_spaces(text: str) -> str:
    """JSON may have tabs anywhere, YAML not. No JSON string holds a bare tab, so this is exact."""
    return text.replace("\t", " ")


def load_yaml_model(
    path: Path, model: type[Model], *, code: str, what: str, context: Mapping[str, Any] | None = None
) -> Model:
    """Read a YAML or JSON file. Whatever is wrong is a ConfigError that names file, line and column."""
    return read_source(path, code=code, what=what).validated(model, context=context)


def parse_yaml_model(
    text: str,
    model: type[Model],
    *,
    code: str,
    what: str,
    file: Path | None = None,
    context: Mapping[str, Any] | None = None,
) -> Model:
    """The same from text; `file` is only named in the problems, and its ending tells JSON from YAML.

    `context` is handed to the model's validators, for what can only be checked with outside knowledge.
    """
    return parse_source(text, code=code, what=what, file=file).validated(model, context=context)
