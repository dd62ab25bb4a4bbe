"""Pass rates of one task over several tries: pass@k, pass^k and flaky tasks."""

from __future__ import annotations

from math import comb


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
