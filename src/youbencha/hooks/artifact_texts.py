"""The texts of a run's artifacts, as far as they can travel in one request."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path

from youbencha.log import ArtifactManifest

MIB = 1024 * 1024
LARGEST = MIB
LARGEST_IN_ALL = 10 * MIB


@dataclass
class ArtifactTexts:
    contents: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Which were not taken, and why: nobody should take a missing one for an empty one."""


def read_artifacts(manifest: ArtifactManifest, artifacts_dir: Path) -> ArtifactTexts:
    """What people read first comes first: should there be too much, the rest is left out."""
    texts, room = ArtifactTexts(), LARGEST_IN_ALL
    single = [path for path in (manifest.diff, manifest.agent_log) if path]
    for path in dict.fromkeys((*manifest.reports, *single, *manifest.evaluator_artifacts)):
        try:
            raw = _read(path, artifacts_dir.resolve(), min(LARGEST, room))
            texts.contents[path] = raw.decode("utf-8")
            room -= len(raw)
        except _LeftOut as reason:
            texts.left_out[path] = str(reason)
        except UnicodeDecodeError:
            texts.left_out[path] = "is not text"
        except OSError as error:
            texts.left_out[path] = error.strerror or str(error)
    return texts


class _LeftOut(Exception):
    pass


def _read(path: str, root: Path, room: int) -> bytes:
    file = (root / path).resolve()
    if not file.is_relative_to(root):  # a link, or `..`: only what lies in the artifacts is meant to leave the machine
        raise _LeftOut("lies outside of the artifacts")
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):  # reading a pipe would wait for ever
        raise _LeftOut("is not a file")
    if found.st_size > room:
        whole = "it alone is larger than 1 MiB" if found.st_size > LARGEST else "there is no room left in 10 MiB"
        raise _LeftOut(whole)
    with file.open("rb") as opened:
        return opened.read(room)
