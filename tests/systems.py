"""Which systems a test can run on, always with the reason."""

from __future__ import annotations

import sys

import pytest

ON_WINDOWS = sys.platform == "win32"
ON_LINUX = sys.platform == "linux"


def posix_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(ON_WINDOWS, reason=f"not on Windows: {reason}")


def linux_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not ON_LINUX, reason=f"only on Linux: {reason}")


def windows_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not ON_WINDOWS, reason=f"only on Windows: {reason}")
