"""`python -m bench [NAME ...]`: run all benchmarks, or those named.

Every figure is printed as soon as it is measured. A benchmark that is not possible, or fails, affects no other.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench import compare, gateway, loop, runs, sandbox, screen, startup
from bench.measure import ComponentMissing, Figure

BENCHES: dict[str, Callable[[], Iterable[Figure]]] = {
    "startup": startup.measure,
    "run": runs.measure,
    "gateway": gateway.measure,
    "sandbox": sandbox.measure,
    "loop": loop.measure,
    "screen": screen.measure,
    "compare": compare.measure,
}
_VERDICTS = {True: ("met", "green"), False: ("missed", "red"), None: ("no goal", "")}
_MAX_WIDTH = 150


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    console = Console(highlight=False, markup=False)
    console.width = min(console.width, _MAX_WIDTH) if console.is_terminal else _MAX_WIDTH
    outcomes: Counter[str] = Counter()
    console.print(_row("what", "measured", "yardstick", "goal", Text(), style="bold"))
    try:
        for name in names or BENCHES:
            _run(name, console, outcomes)
        return 1 if outcomes["missed"] or outcomes["failed"] else 0
    except KeyboardInterrupt:
        console.print("  interrupted", style="red")
        return 130
    finally:
        console.print("\n" + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count))


def _run(name: str, console: Console, outcomes: Counter[str]) -> None:
    console.print(name, style="bold")
    try:
        for figure in BENCHES[name]():
            verdict, color = _VERDICTS[figure.met]
            outcomes[verdict] += 1
            console.print(_row(figure.what, figure.measured, figure.yardstick, figure.goal, Text(verdict, color)))
    except ComponentMissing as missing:
        outcomes["not measured"] += 1
        console.print(f"  not measured: {missing}", style="yellow", soft_wrap=True)
    except Exception as error:  # noqa: BLE001 (the other benchmarks still run)
        outcomes["failed"] += 1
        print(f"{name} failed:", file=sys.stderr)
        traceback.print_exception(error)
        first_line = "".join(traceback.format_exception_only(error)).splitlines()[0]
        console.print(f"  failed: {first_line}", style="red", soft_wrap=True)


def _row(what: str, measured: str, yardstick: str, goal: str, verdict: Text, *, style: str = "") -> Padding:
    """A row with fixed column widths, because it is printed before the next one is known."""
    row = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for ratio in (7, 6, 7, 4):
        row.add_column(ratio=ratio)
    row.add_column(width=max(len(word) for word, _ in _VERDICTS.values()))
    row.add_row(what, measured, yardstick, goal, verdict, style=style)
    return Padding(row, (0, 0, 0, 2))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
