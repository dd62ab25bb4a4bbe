"""Read and keep files that an agent or a repository wrote: only regular files below a directory, up to a size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from youbencha.files import PathNotAllowed, open_nofollow, read_file, read_within, replace_atomically
from youbencha.json_lines import Record, as_mapping
from youbencha.process import OUTPUT_LIMIT_BYTES, Redactor
from youbencha.user_dirs import home_dir

_MAX_LINE_BYTES = 32 * 1024 * 1024
_MAX_FILE_BYTES = 256 * 1024 * 1024
_MAX_DEFINITION_BYTES = 1024 * 1024


def directory_from(env: Mapping[str, str], variable: str, default: str = "") -> Path | None:
    """Return the directory that a variable names, or else `default` below the home; None if there is no home."""
    if directory := env.get(variable):
        return Path(directory)
    home = home_dir(env)
    return home / default if home else None


def matching_records(path: Path, top: Path, wanted: Sequence[bytes]) -> Iterator[Record]:
    """Yield the records of a JSON lines file whose lines contain one of `wanted`. Other lines are not parsed.

    Yields nothing if it is not a regular file below `top`. A line that is not JSON is skipped: the last one may be
    truncated if the process was killed.
    """
    for line in read_lines(top, str(path.relative_to(top))):
        if any(mark in line for mark in wanted):
            yield from parse_record(line)


def read_lines(root: Path, name: str) -> Iterator[bytes]:
    """Yield the lines of a file below `root`, up to 256 MiB; none if it is not a regular file, or behind a link."""
    try:
        with open_nofollow(root, name) as file:
            while (line := file.readline(_MAX_LINE_BYTES)) and file.tell() <= _MAX_FILE_BYTES:
                yield line
    except OSError:
        return


def parse_record(line: bytes | str) -> Iterator[Record]:
    """Yield the record in a line, if there is one."""
    try:
        yield as_mapping(orjson.loads(line))
    except orjson.JSONDecodeError:
        return


def read_beginning(root: Path, name: str) -> bytes:
    """Return the first 10 MiB of a file below `root`; empty if it is not a regular file, or behind a link."""
    try:
        with open_nofollow(root, name) as file:
            return file.read(OUTPUT_LIMIT_BYTES) or b""
    except OSError:
        return b""


def read_definition(path: Path, *, below: Path | None = None) -> bytes | None:
    """Read a file that may define a custom agent: the user's own, or one of an untrusted repository (`below`).

    None if it cannot be read, is not a regular file, or is a link out of `below`.
    """
    try:
        if below is None:
            return read_file(path, _MAX_DEFINITION_BYTES)
        return read_within(below, str(path.relative_to(below)), _MAX_DEFINITION_BYTES)
    except (OSError, PathNotAllowed):
        return None


def keep_logs(root: Path, paths: Iterable[Path], kept: Path, redactor: Redactor) -> None:
    """Copy an agent's own logs below `root` to `kept`, with secrets masked. Errors are ignored."""
    for path in paths:
        stream = redactor.stream()
        masked = stream.feed(read_beginning(root, str(path.relative_to(root)))) + stream.finish()
        if masked:
            try:
                kept.mkdir(parents=True, exist_ok=True)
                replace_atomically(kept / path.name, masked)
            except OSError:
                return
