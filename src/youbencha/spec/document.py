"""Read YAML and JSON files into plain data with positions, and validate them against a model.

Ruamel's round-trip constructor builds the data and records where each part of it is. Before it builds anything, the
composed nodes are checked, so that no tag makes an object and no alias bomb is expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from youbencha.errors import ConfigError, KeyPath, Problem, ProblemKind, Step
from youbencha.spec.problems import Position, problems_of

MAX_BYTES = 1024 * 1024
MAX_NODES = 250_000
"""With every alias expanded. A test case has hundreds; a file with this many is a bomb or not a configuration."""

_PREFIX = "tag:yaml.org,2002:"
_TEXT_TAGS = ("str", "timestamp", "value")
"""Dates stay text: a model that wants a date can parse one, and one that wants text must not get a date. `value` is the
tag of a bare `=`."""
_NUMBER_TAGS = ("bool", "int", "float")
_ALLOWED_TAGS = frozenset(_PREFIX + name for name in ("map", "seq", "null", *_TEXT_TAGS, *_NUMBER_TAGS))
_MERGE = _PREFIX + "merge"
_NO_TAGS = ("YAML tags cannot be used here", "write a plain value")
_START = Position(1, 1)
Model = TypeVar("Model", bound=BaseModel)


class Document(NamedTuple):
    """The content of a file, and where each part of it is."""

    data: Any
    file: Path | None
    code: str
    """Of the errors about this file."""
    what: str
    """How errors name the file: "The test case"."""
    root: Any = None
    """The data as ruamel built them, with positions."""
    start: Position = _START
    parts: Mapping[KeyPath, Document] = MappingProxyType({})
    """Other documents that parts of the data were taken from, by the paths of these parts, which are the same there."""

    def source_of(self, path: Sequence[Step]) -> Document:
        """Return the document that a part of the data was taken from: this one, unless it is in `parts`."""
        prefixes = (tuple(path[:end]) for end in range(len(path), 0, -1))
        return next((self.parts[prefix] for prefix in prefixes if prefix in self.parts), self)

    def locate(self, path: Sequence[Step], at_key: bool = False) -> Position:
        """The position of a value, or of its key; of the innermost part around it if there is no such path."""
        source = self.source_of(path)
        at, here = source.start, source.root
        for index, step in enumerate(path):
            marks = (here.lc.data or {}).get(step) if isinstance(here, CommentedBase) else None
            if marks is None:
                return at
            line, column = marks[:2] if at_key and index == len(path) - 1 else marks[-2:]
            at, here = Position(line + 1, column + 1), here[step]
        return at

    def problem(
        self,
        path: Sequence[Step],
        message: str,
        hint: str | None = None,
        *,
        kind: ProblemKind = "invalid",
        at_key: bool = False,
    ) -> Problem:
        """A problem that the model does not find, at the position of a value, or with `at_key` of its key."""
        source = self.source_of(path)
        if source.root is None:  # not read from text
            return Problem(tuple(path), message, hint, file=source.file, kind=kind)
        at = source.locate(path, at_key or kind == "unknown_key")
        return Problem(tuple(path), message, hint, at.line, at.column, source.file, kind)

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        far = float("inf")
        ordered = sorted(problems, key=lambda p: (str(p.file or ""), p.line or far, p.column or far))
        return ConfigError(self.code, self.what, ordered)

    def validate(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model | list[Problem]:
        """The model, or all problems."""
        if self.data is None:
            return [Problem("", "is empty", file=self.file)]
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            found = problems_of(error, model, locate=self.locate)
            return [self._at_source(problem) for problem in found]

    def _at_source(self, problem: Problem) -> Problem:
        """Return the problem with the file that it is in; without a position if the part is not from a file."""
        source = self.source_of(problem.keys)
        found = replace(problem, file=source.file)
        return found if source.root is not None else replace(found, line=None, column=None)

    def validate_or_raise(self, model: type[Model], *, context: Mapping[str, Any] | None = None) -> Model:
        found = self.validate(model, context=context)
        if isinstance(found, list):
            raise ConfigError(self.code, self.what, found)
        return found


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
        text = _read(path)
    except DocumentError as error:
        raise ConfigError(code, what, [replace(problem, file=path) for problem in error.problems]) from None
    return parse_document(text, code=code, what=what, file=path)


def parse_document(text: str, *, code: str, what: str, file: Path | None = None) -> Document:
    """Read text; `file` is only named in problems, and its suffix distinguishes JSON from YAML."""
    if file is not None and file.suffix.lower() == ".json":
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML not; a JSON string has no bare tab
    yaml = YAML(typ="safe", pure=True)  # for its scanner, which is faster than the one that keeps comments
    yaml.Constructor = _Constructor
    try:
        root = yaml.load(text)
        return Document(_plain(root), file, code, what, root, yaml.constructor.start)
    except DocumentError as error:
        problems = error.problems
    except MarkedYAMLError as error:
        problems = (_syntax_problem(error, text),)
    except YAMLError as error:
        problems = (Problem("", f"is not valid YAML: {str(error).splitlines()[0]}"),)
    except RecursionError:
        problems = (Problem("", "is nested too deeply"),)
    raise ConfigError(code, what, [replace(problem, file=file) for problem in problems])


class DocumentError(Exception):
    """The file cannot be read, or it is not a document that is safe to load."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise DocumentError(Problem("", "there is no such file")) from None
    except IsADirectoryError:
        raise DocumentError(Problem("", "is a directory, not a file")) from None
    except OSError as error:
        raise DocumentError(Problem("", f"cannot be read: {error.strerror or error}")) from None
    if len(raw) > MAX_BYTES:
        raise DocumentError(Problem("", f"is larger than {MAX_BYTES // 1024 // 1024} MiB"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DocumentError(Problem("", f"is not UTF-8 text (line {line})")) from None


def _syntax_problem(error: MarkedYAMLError, text: str) -> Problem:
    """Ruamel's message, except about an unknown alias: the name that it quotes may be a secret."""
    mark = error.problem_mark or error.context_mark
    message, hint = f"is not valid YAML: {error.problem or error.context or 'it cannot be read'}", None
    if isinstance(error, ComposerError):
        is_second_document = error.context is not None
        message = (
            "contains more than one document" if is_second_document else "is not valid YAML: the alias has no anchor"
        )
    elif mark and text[mark.index : mark.index + 1] == "\t":
        message, hint = "is not valid YAML: a tab cannot be used here", "use spaces"
    return Problem("", message, hint, *((mark.line + 1, mark.column + 1) if mark else (None, None)))


class _Constructor(RoundTripConstructor):
    """Ruamel's round trip with plain scalars, for safe documents only."""

    start = _START

    def construct_document(self, node: Node) -> Any:
        self.start = _position(node)
        _check_size(node)
        self._check_tags_and_keys(node)
        return super().construct_document(node)

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError):  # `!!int x`
            raise ConstructorError(None, None, "the value does not fit its tag", node.start_mark) from None

    def construct_scalar(self, node: Node) -> str:
        return _join_surrogates(str(super().construct_scalar(node)))

    def flatten_mapping(self, node: MappingNode) -> None:
        """Resolve `<<` here: merged entries keep their own positions. The mapping's own win, then the earlier ones."""
        own = [entry for entry in node.value if entry[0].tag != _MERGE]
        if len(own) == len(node.value):
            return
        entries = {self.construct_object(key): (key, value) for key, value in own}
        for source in (source for key, value in node.value if key.tag == _MERGE for source in _merged(value)):
            self.flatten_mapping(source)
            for key, value in source.value:
                entries.setdefault(self.construct_object(key), (key, value))
        node.value = list(entries.values())

    def _check_tags_and_keys(self, root: Node) -> None:
        """Refuse tags, keys that are not scalars, and keys given twice, in one error."""
        problems: list[Problem] = []
        seen: set[int] = set()
        todo: list[tuple[KeyPath, Node]] = [((), root)]
        while todo:
            path, node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.tag not in _ALLOWED_TAGS:
                problems.append(_at(node, path, *_NO_TAGS))
            if isinstance(node, MappingNode):
                problems += self._key_problems(path, node)
                todo += [((*path, str(key.value)), value) for key, value in node.value]
            elif isinstance(node, SequenceNode):
                todo += [((*path, index), item) for index, item in enumerate(node.value)]
        if problems:
            raise DocumentError(*sorted(problems, key=lambda p: (p.line or 0, p.column or 0)))

    def _key_problems(self, path: KeyPath, node: MappingNode) -> Iterator[Problem]:
        first: dict[Any, Node] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                if not all(isinstance(source, MappingNode) for source in _merged(value)):
                    yield _at(value, path, "'<<' takes a mapping or a list of mappings")
                continue
            if not isinstance(key, ScalarNode):
                yield _at(key, path, "a key must be text")
                continue
            if key.tag not in _ALLOWED_TAGS:
                yield _at(key, path, *_NO_TAGS)
                continue
            name = self.construct_object(key)
            if name in first:
                line = first[name].start_mark.line + 1
                yield _at(key, (*path, name), f"the key is given twice, first in line {line}")
            first.setdefault(name, key)


for _name in _TEXT_TAGS:
    _Constructor.add_constructor(_PREFIX + _name, _Constructor.construct_scalar)
for _name in _NUMBER_TAGS:
    _Constructor.add_constructor(_PREFIX + _name, getattr(SafeConstructor, f"construct_yaml_{_name}"))


def _check_size(root: Node) -> None:
    """Refuse cycles and alias bombs. Each node is visited once, however often it is referred to."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Node) -> int:
        if id(node) in open_nodes:
            raise DocumentError(_at(node, (), "contains itself through an alias"))
        if id(node) not in sizes:
            open_nodes.add(id(node))
            sizes[id(node)] = 1 + sum(size(child) for child in _children(node))
            open_nodes.remove(id(node))
        return sizes[id(node)]

    if size(root) > MAX_NODES:
        raise DocumentError(Problem("", f"has more than {MAX_NODES:,} values with its aliases expanded"))


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for entry in node.value:
            yield from entry
    elif isinstance(node, SequenceNode):
        yield from node.value


def _merged(value: Node) -> list[Any]:
    return list(value.value) if isinstance(value, SequenceNode) else [value]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _join_surrogates(text: str) -> str:
    """Join surrogates: JSON writes a character beyond U+FFFF as two escapes, which YAML reads as two characters."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _position(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _at(node: Node, path: Sequence[Step], message: str, hint: str | None = None) -> Problem:
    where = _position(node)
    return Problem(tuple(path), message, hint, where.line, where.column)
