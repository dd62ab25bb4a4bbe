"""A file that a person wrote: its data, and where each part of it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from youbencha.errors import ConfigError, Problem
from youbencha.spec.document import Document, Unreadable, read_document

if TYPE_CHECKING:
    from youbencha.spec.shape import Step

MAX_BYTES = 1024 * 1024

Model = TypeVar("Model", bound=BaseModel)


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
        from youbencha.spec.problems import Spot, dotted

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
            from youbencha.spec.problems import problems_of

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
