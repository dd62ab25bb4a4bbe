"""Loops need processes that end with their harness, which Windows does not give."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from youbencha.errors import YouBenchaError
from youbencha.loop.run import run_loop


async def test_a_loop_on_windows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    unused: Any = None
    with monkeypatch.context() as windows:
        windows.setattr(sys, "platform", "win32")
        with pytest.raises(YouBenchaError) as caught:
            await run_loop(unused, unused, unused, unused, directory=unused, history=unused)
    assert caught.value.code == "NOT_ON_WINDOWS"
