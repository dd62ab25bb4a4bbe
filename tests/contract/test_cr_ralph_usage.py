"""Seed 004, usage accumulation: the sums are exactly what the model said, the cache's included."""

from __future__ import annotations

from claude_lab import ClaudeLab, bash, says, script


def tokens(given: int, made: int, read: int, created: int) -> dict[str, int]:
    return {
        "input_tokens": given,
        "output_tokens": made,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": created,
    }


async def test_usage_is_the_sum_over_all_turns(lab: ClaudeLab) -> None:
    turns = (
        {**bash("echo one"), "text": "First.", "usage": tokens(1_001, 11, 0, 5_000)},
        {**bash("echo two"), "text": "Second.", "usage": tokens(1_020, 22, 5_000, 300)},
        says("Third.", usage=tokens(1_300, 33, 5_300, 70)),
    )
    # Calls beside the work (older versions ask a small model about commands) are metered too: here, with nothing.
    session = await lab.run(script(*turns, side={"text": "ok", "usage": tokens(0, 0, 0, 0)}))
    assert session.result.status == "success", session.result.errors
    usage = session.log.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3_321, 66, 3_387)
    assert (usage.cache_read_tokens, usage.cache_creation_tokens) == (10_300, 5_370)
    assert (usage.cost_source, usage.partial) == ("agent", False)
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0
