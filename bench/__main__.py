"""`python -m bench [NAME ...]`: run all measurements, or those named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table

from bench import adapter, deadline, evaluators, gateway, normalizing, runs, sandbox, startup
from bench.measure import Figure

BENCHES: dict[str, Callable[[], Iterable[Figure]]] = {
    "startup": startup.measure,
    "overhead": adapter.measure_overhead,
    "memory": adapter.measure_memory,
    "endurance": adapter.measure_endurance,
    "normalizing": normalizing.measure,
    "deadline": deadline.measure,
    "run": runs.measure,
    "evaluators": evaluators.measure,
    "gateway": gateway.measure,
    "sandbox": sandbox.measure,
    "hostile": normalizing.measure_hostile,
}


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    table = Table("what", "measured", "yardstick", "goal", "", box=None, pad_edge=False)
    missed = 0
    for name in names or BENCHES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        for figure in BENCHES[name]():
            missed += not figure.met
            verdict = "[green]met[/green]" if figure.met else "[red]missed[/red]"
            table.add_row(figure.what, figure.measured, figure.yardstick, figure.goal, verdict)
    Console(width=150, highlight=False).print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
