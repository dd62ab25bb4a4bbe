"""Whether a stream came to its end. Pure.

One that was cut off says nothing of what the model would have answered, so it is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LAST = frozenset({"message_stop", "response.completed", "response.incomplete"})
_BEGUN = ("message_", "content_block_", "response.")
_FAILED = frozenset({"error", "response.failed"})


def is_whole(events: Sequence[Any]) -> bool:
    objects = [each for each in events if isinstance(each, dict)]
    kinds = [str(each.get("type", "")) for each in objects]
    if any(kind in _FAILED for kind in kinds) or any("error" in each and each["error"] for each in objects):
        return False
    if any(kind.startswith(_BEGUN) for kind in kinds):
        return any(kind in _LAST for kind in kinds)
    if any("choices" in each or "candidates" in each for each in objects):
        return "[DONE]" in events or any(map(_finished, objects))
    return bool(events)


def _finished(chunk: dict[str, Any]) -> bool:
    choices = [*(chunk.get("choices") or ()), *(chunk.get("candidates") or ())]
    return any(each.get("finish_reason") or each.get("finishReason") for each in choices if isinstance(each, dict))
