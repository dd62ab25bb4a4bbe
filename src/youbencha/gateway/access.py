"""What an agent is told of the gateway: where it is, and a key that is good for one trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _nobody_knows() -> bool:
    return False


class GatewayAccess(NamedTuple):
    url: str
    """Without a path: `http://127.0.0.1:41234`. Some clients want `/v1` behind it."""
    key: str
    """A virtual key. The real one never leaves the gateway."""
    is_busy: Callable[[], bool] = _nobody_knows
    """Whether a request with this key is under way."""

    def __repr__(self) -> str:
        return f"GatewayAccess(url={self.url!r}, key=…)"
