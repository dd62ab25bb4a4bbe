"""expected-diff on one changed file, beside `git diff` on the same two files; and on a tree of 5,000."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure, median_of, ms
from youbencha.evaluators.expected_diff import compare_trees
from youbencha.evaluators.globs import PathFilter

_GOALS_MS = {30_000: 20, 1_000_000: 1_000}
_TREE = 5_000
_TREE_GOAL_MS = 2_000
_WORDS = ("alpha", "beta", "gamma", "delta", "if", "return", "for", "self", "value", "None", "in", "item")


def measure() -> Iterator[Figure]:
    for size, goal in _GOALS_MS.items():
        for what, ours, expected in _pairs(size):
            yield _figure(f"expected-diff, {size // 1000:,} KB, {what}", ours, expected, goal)
    yield _tree_figure()


def _pairs(size: int) -> Iterator[tuple[str, str, str]]:
    """A few changes and many changes; for the large size also the worst case: one line with little in common."""
    rng = random.Random(7)
    text = _code(rng, size)
    yield "a few lines changed", _edited(rng, text, every=200), text
    yield "every third line changed", _edited(rng, text, every=3), text
    if size == max(_GOALS_MS):
        yield "one line, rewritten", _minified(rng, size), _minified(rng, size)


def _minified(rng: random.Random, size: int) -> str:
    return "".join(rng.choices("abc{}();,=", k=size))


def _figure(what: str, ours: str, expected: str, goal: int) -> Figure:
    with tempfile.TemporaryDirectory() as root:
        one, other = Path(root) / "ours", Path(root) / "expected"
        for tree, text in ((one, ours), (other, expected)):
            tree.mkdir()
            (tree / "file.py").write_text(text)
        taken = median_of(5, lambda: compare_trees(one, other, PathFilter(), _no_deadline))
        bare = median_of(5, lambda: _git_diff(one / "file.py", other / "file.py"))
    return Figure(what, ms(taken), f"git diff {ms(bare)}", f"≤ {goal} ms", taken * 1000 <= goal)


def _tree_figure() -> Figure:
    with tempfile.TemporaryDirectory() as root:
        rng = random.Random(8)
        one, other = Path(root) / "ours", Path(root) / "expected"
        for number in range(_TREE):
            text = _code(rng, 2_000)
            for tree, content in ((one, text), (other, text if number % 10 else _edited(rng, text, every=5))):
                path = tree / f"d{number % 100}" / f"f{number}.py"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        taken = median_of(3, lambda: compare_trees(one, other, PathFilter(), _no_deadline))
        bare = median_of(3, lambda: _git_diff(one, other))
    what = f"expected-diff, {_TREE:,} files, a tenth changed"
    return Figure(what, ms(taken), f"git diff {ms(bare)}", f"≤ {_TREE_GOAL_MS} ms", taken * 1000 <= _TREE_GOAL_MS)


def _git_diff(one: Path, other: Path) -> None:
    subprocess.run(["git", "diff", "--no-index", "--stat", one, other], check=False, stdout=subprocess.DEVNULL)


def _code(rng: random.Random, size: int) -> str:
    lines, length = [], 0
    while length < size:
        line = "    " * rng.randrange(4) + " ".join(rng.choices(_WORDS, k=rng.randrange(9))) + "\n"
        lines.append(line)
        length += len(line)
    return "".join(lines)


def _edited(rng: random.Random, text: str, *, every: int) -> str:
    lines = text.splitlines(keepends=True)
    for number in range(0, len(lines), every):
        lines[number] = " ".join(rng.choices(_WORDS, k=6)) + "\n"
    return "".join(lines)


def _no_deadline() -> None:
    pass
