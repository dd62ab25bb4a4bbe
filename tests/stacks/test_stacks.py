"""Verdicts about honest and dishonest work, for each language and test runner: tables of pieces of work, through the door."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiled_stacks import COMPILED
from node_stacks import NODE
from python_stacks import PYTHON
from shell_stacks import SHELL
from stack_bench import Stack, StackBench, Work, problem, verdict

STACKS = (*PYTHON, *NODE, *COMPILED, *SHELL)
NOTHING = "nothing"

every_stack = pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)


def check(stack: Stack, directory: Path, chosen: dict[str, Work]) -> None:
    bench = StackBench(stack, directory)
    metas = bench.run({NOTHING: Work(kind="wrong"), **chosen})
    _, floor = verdict(metas[NOTHING])
    assert floor is not None, metas[NOTHING]["reason"]
    found = {name: problem(work, metas[name], floor) for name, work in chosen.items()}
    problems = {name: said for name, said in found.items() if said}
    assert not problems, "\n".join(f"{name}: {said}\n{bench.log(name)}" for name, said in problems.items())


@every_stack
def test_verdicts(stack: Stack, tmp_path: Path) -> None:
    check(stack, tmp_path, stack.chosen(full=False))


@pytest.mark.full
@every_stack
def test_more_verdicts(stack: Stack, tmp_path: Path) -> None:
    check(stack, tmp_path, stack.chosen(full=True))


def test_there_are_enough_designs_of_cheats() -> None:
    assert len({name for stack in STACKS for name, work in stack.work.items() if work.kind == "cheat"}) >= 14
