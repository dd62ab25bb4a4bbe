"""Pass rates of one task over several tries: pass@k, pass^k and flaky tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOfK:
    """How many of the tasks would be solved in k trials, as a share."""

    k: int
    any: float
    """At least once: pass@k."""
    all: float
    """Every time: pass^k."""


def passes_of_k(tasks: Sequence[tuple[int, int]], most: int) -> tuple[PassOfK, ...]:
    """Return the means over tasks, for each k up to `most`. A task is its number of trials, and of those that passed.

    Each task must have at least `most` trials.
    """
    return tuple(
        PassOfK(
            k=k,
            any=fmean(pass_at_k(*task, k) for task in tasks),
            all=fmean(pass_hat_k(*task, k) for task in tasks),
        )
        for k in range(1, most + 1)
    )


def pass_at_k(trials: int, passed: int, k: int) -> float:
    """Return the probability that at least one of `k` trials passes. Unbiased (Chen et al. 2021, equation 1).

    There must be at least `k` trials.
    """
    return 1 - comb(trials - passed, k) / comb(trials, k)


def pass_hat_k(trials: int, passed: int, k: int) -> float:
    """Return the probability that all of `k` trials pass: pass^k. Unbiased (Yao et al. 2024, tau-bench).

    There must be at least `k` trials.
    """
    return comb(passed, k) / comb(trials, k)


def is_flaky(trials: int, passed: int) -> bool:
    """Whether some trials of the same agent on the same task passed, and others did not."""
    return 0 < passed < trials
