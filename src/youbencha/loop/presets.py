"""The built-in presets: `ralph init --preset` writes one as a file, and `ralph run -H builtin:NAME` uses its hats."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.spec.document import Document, parse_document, read_document
from youbencha.spec.loop_loader import CODE, WHAT
from youbencha.text import did_you_mean

PRESETS = {
    "plain": "an agent works until it says that it is done",
    "tests": "the tests must pass before the work is done",
    "pair": "two roles: one builds, one reviews",
    "code-assist": "plan, build test-first, review each step, decide whether all is done",
    "debug": "find the cause of a bug by tested hypotheses, fix it, verify the fix",
    "research": "answer a question about the code, with evidence; nothing is changed",
    "review": "review code in sections, in depth; nothing is changed",
    "pdd-to-code-assist": "from a rough idea to a design, a plan, reviewed code and a commit",
    "autoresearch": "try ideas one by one, measure each, keep what improves the result",
}
"""Names and descriptions. Each is a file in `scaffold/loops/`. The last six are Ralph's, with our own instructions."""
BUILTIN = "builtin:"
_WITHOUT_HATS = ("plain", "tests")


def preset_text(name: str, backend: str = "auto") -> str:
    """Return the ralph.yml of a preset."""
    if name not in PRESETS:
        raise _unknown_preset(name, tuple(PRESETS))
    program = "\n  command: my-agent            # your program; it gets the prompt as its last argument"
    text = (files("youbencha") / f"scaffold/loops/{name}.yml").read_text(encoding="utf-8")
    return text.replace("@BACKEND@", f"custom{program}" if backend == "custom" else backend)


def read_hats(source: str, directory: Path) -> Document:
    """Read a collection of hats: `builtin:NAME`, or a file."""
    if source.startswith(BUILTIN):
        name = source.removeprefix(BUILTIN)
        collections = tuple(name for name in PRESETS if name not in _WITHOUT_HATS)
        if name not in collections:
            raise _unknown_preset(name, collections)
        return parse_document(preset_text(name), code=CODE, what=WHAT, file=Path(source))
    if source in PRESETS and not (directory / source).exists():
        message = f"There is no file {source}."
        raise YouBenchaError("HATS_NOT_FOUND", message, hint=f"Did you mean {BUILTIN}{source}?")
    return read_document(directory / source, code=CODE, what=WHAT)


def _unknown_preset(name: str, names: tuple[str, ...]) -> YouBenchaError:
    hint = did_you_mean(name, names) or f"Presets: {', '.join(names)}."
    return YouBenchaError("PRESET_UNKNOWN", f"There is no preset called {name!r}.", hint=hint)
