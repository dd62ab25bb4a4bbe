"""Put the trials of a run that ended when it was decided into the rounds in which they were judged.

Which trials a round has follows from the rounds before it, so nothing but the trials' scores is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from youbencha.stats.sequence import PairedSequence


def replay_rounds(sequence: PairedSequence, pairs: Mapping[str, Sequence[float | None]]) -> int:
    """Add every whole round until the verdict, and return how many there were.

    `pairs` has, for each task, the differences of the first, second, … trials of both; None if one of them is not
    valid. It ends before the first pair that is not finished.
    """
    rest = {task: iter(differences) for task, differences in pairs.items()}
    rounds = 0
    while sequence.verdict == "undecided":
        wanted = sequence.next_round()
        found = {task: list(islice(rest[task], pairs)) for task, pairs in wanted.items()}
        if not wanted or any(len(found[task]) < pairs for task, pairs in wanted.items()):
            break
        sequence.add_round({task: [each for each in found[task] if each is not None] for task in found})
        rounds += 1
    return rounds
