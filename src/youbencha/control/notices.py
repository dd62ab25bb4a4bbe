"""Warnings, and not without end: a client that sends nothing but rubbish does not fill the log with it."""

from __future__ import annotations

from youbencha.control.actions import Action, Warn

MALFORMED = "CONTROL_MALFORMED_MESSAGE"
NO_HANDSHAKE = "CONTROL_NO_HANDSHAKE"
UNKNOWN_REQUEST = "CONTROL_UNKNOWN_REQUEST"
REPEATED_REQUEST = "CONTROL_REPEATED_REQUEST"
LEFT_RUNNING = "CONTROL_BACKGROUND_LEFT_RUNNING"

_MOST = 20


class Notices:
    def __init__(self) -> None:
        self._given = 0

    def __call__(self, code: str, words: str) -> list[Action]:
        self._given += 1
        if self._given < _MOST:
            return [Warn(code, words)]
        return [Warn(code, f"{words} (no more warnings follow)")] if self._given == _MOST else []
