"""What one answer has said of itself so far: the part of a meter that differs from API to API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from youbencha.gateway.metering.metered import Metered
from youbencha.log.tokens import Tokens


class Reader(ABC):
    """Takes whatever comes, and never raises: a number that cannot be read is unknown."""

    skim: ClassVar[bytes] = b""
    """How those events of a stream begin of which only the size matters."""
    around_text: ClassVar[int] = 0
    """What in each of those is no text, in bytes."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.error: str | None = None
        self.output_bytes = 0
        self.ended = False
        """The answer said that this was all."""

    @abstractmethod
    def event(self, name: bytes, data: bytes) -> None:
        """The next event of a stream."""

    @abstractmethod
    def body(self, document: Any) -> None:
        """An answer in one piece, read_json."""

    @abstractmethod
    def tokens(self) -> Tokens: ...

    def cache_creation_1h(self) -> int:
        return 0

    def metered(self, *, unread_bytes: int = 0) -> Metered:
        """`unread_bytes` came, and were not looked into: all of them may be output."""
        tokens = self.tokens()
        return Metered(
            tokens=tokens,
            model=self.model,
            complete=self.ended and None not in (tokens.input, tokens.output),
            cache_creation_1h=self.cache_creation_1h(),
            output_bytes=self.output_bytes + unread_bytes,
            error=self.error,
        )
