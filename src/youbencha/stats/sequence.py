"""A confidence sequence for the difference of two agents: valid at every look, so that trials may stop at any time.

It bets against each possible mean of the differences, which are from -1 to 1 (Waudby-Smith and Ramdas).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from youbencha.stats.comparison import MARGIN, DifferenceInterval, Verdict


class PairedSequence:
    """The mean difference of two agents over tasks, from pairs of trials that come in rounds.

    A round has at least one pair of trials on each task, more where results vary more. Only whole rounds count.
    """

    def __init__(self, tasks: Sequence[str], *, margin: float = MARGIN, confidence: float = 0.95) -> None:
        raise NotImplementedError

    def next_round(self) -> Mapping[str, int]:
        """Return how many pairs of trials to run next on each task, from what is known so far."""
        raise NotImplementedError

    def add_round(self, differences: Mapping[str, Sequence[float]]) -> None:
        """Add the differences of a round. A pair without two valid trials is missing in it."""
        raise NotImplementedError

    @property
    def interval(self) -> DifferenceInterval:
        raise NotImplementedError

    @property
    def verdict(self) -> Verdict:
        raise NotImplementedError
