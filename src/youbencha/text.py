"""Text for people: which word was meant."""

from __future__ import annotations

from collections.abc import Iterable

NEAR_ENOUGH = 65


def did_you_mean(written: str, choices: Iterable[str]) -> str | None:
    from rapidfuzz import fuzz, process  # only once somebody made a mistake: it takes 20 ms to load

    choices = list(choices)
    best = process.extractOne(written, choices, scorer=fuzz.ratio, processor=_fold, score_cutoff=NEAR_ENOUGH)
    near = best[0] if best else _begun(_fold(written), choices)
    return f"did you mean '{near}'?" if near else None


def _begun(written: str, choices: Iterable[str]) -> str | None:
    """The word that was only begun (`input` for `input_tokens`), which no measure of likeness finds near."""
    return next((c for c in choices if len(written) > 2 and _fold(c).startswith(written)), None)


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")
