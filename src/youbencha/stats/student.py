"""The quantile of Student's t distribution, for any number of degrees of freedom, whole or not.

With n degrees of freedom, the probability that |T| is greater than t is the regularised incomplete beta function
I_x(n/2, 1/2) at x = n / (n + t²) (Abramowitz and Stegun 26.7.1 and 26.5.27). It is solved for y = log(t² / n). The
density of log(T² / n) is log-concave, so the logarithms of P(|T| > t) and of P(|T| < t) are concave functions of y.
That is why Newton's method needs no safeguard: wherever it starts, after its first step it approaches the solution from
one side.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_MANY_DEGREES = 1000
"""From here on, the expansion around the normal quantile is exact to twelve digits, and needs no iteration."""
_TERMS = 50
"""Pairs of terms of the continued fraction. Up to 1,000 degrees of freedom, 48 are exact but for the last digit."""
_SMALL_STEP = 1e-7
"""Newton's method squares its error in each step: after a step of this size, nothing is left to correct."""
_MAX_STEPS = 50
"""No more than 8 were needed, for 0.01 to 1,000 degrees of freedom."""
_LOG_MAX = 709
"""The logarithm of the largest float, rounded down."""


def student_quantile(probability: float, degrees: float) -> float:
    """Return the t for which P(T < t) is `probability`. The degrees of freedom may be infinite.

    It is exact to 12 digits for 0.3 degrees of freedom or more, and probabilities down to 5e-7 and up to 1 - 5e-7.
    """
    if not (0 < probability < 1 and degrees > 0):
        raise ValueError(f"no quantile for the probability {probability} with {degrees} degrees of freedom")
    tail = min(probability, 1 - probability)
    if tail == 0.5:
        return 0.0
    normal = -NormalDist().inv_cdf(tail)
    size = _near_normal(normal, degrees) if degrees >= _MANY_DEGREES else _solve(tail, degrees, normal)
    return size if probability > 0.5 else -size


def _near_normal(normal: float, degrees: float) -> float:
    """Expand the quantile around the normal one, in powers of 1 / degrees (Abramowitz and Stegun 26.7.5)."""
    square = normal * normal
    terms = (
        1.0,
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    # Scores that differ only by rounding errors can have 1e66 degrees of freedom, whose powers would overflow.
    return normal * math.fsum(term * (1 / degrees) ** power for power, term in enumerate(terms))


def _solve(tail: float, degrees: float, start: float) -> float:
    """Return the t that T exceeds with the probability `tail`, which is less than 0.5. Search from `start`.

    It works with the logarithms of probabilities, because the smallest ones underflow.
    """
    half = degrees / 2
    log_beta = math.lgamma(half) + math.lgamma(0.5) - math.lgamma(half + 0.5)
    y = math.log(start * start / degrees)
    for _ in range(_MAX_STEPS):
        log_x, log_rest = -_log_one_plus_exp(y), -_log_one_plus_exp(-y)
        # The density of y is x^(n/2) (1 - x)^(1/2) / B(n/2, 1/2), by which the continued fractions are multiplied.
        log_density = half * log_x + log_rest / 2 - log_beta
        # Each continued fraction converges fast on its own side of this point.
        if math.exp(log_x) < (half + 1) / (half + 2.5):
            log_outside = log_density + math.log(_beta_fraction(half, 0.5, math.exp(log_x)))
            log_inside = math.log1p(-math.exp(log_outside))
        else:
            log_inside = log_density + math.log(_beta_fraction(0.5, half, math.exp(log_rest)))
            log_outside = math.log1p(-math.exp(log_inside))
        # Of P(|T| > t) and P(|T| < t), the smaller one says more exactly where t is.
        if tail < 0.25:
            step = (log_outside - math.log(2 * tail)) * math.exp(log_outside - log_density)
        else:
            step = (math.log1p(-2 * tail) - log_inside) * math.exp(log_inside - log_density)
        y += step
        if abs(step) < _SMALL_STEP:
            break
    log_t = (y + math.log(degrees)) / 2
    return math.exp(log_t) if log_t < _LOG_MAX else math.inf


def _log_one_plus_exp(y: float) -> float:
    return max(y, 0.0) + math.log1p(math.exp(-abs(y)))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return I_x(a, b) divided by x^a (1 - x)^b / B(a, b): a continued fraction (DLMF 8.17.22), from its end."""
    value = 1.0
    for m in range(_TERMS, 0, -1):
        value = 1 + m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m) * value)
        value = 1 - (a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1) * value)
    return 1 / (a * value)
