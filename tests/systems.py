"""Which systems a test can run on, always with the reason."""

from __future__ import annotations

import os
import sys

import pytest

ON_WINDOWS = sys.platform == "win32"
ON_LINUX = sys.platform == "linux"
PLAIN_PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
"""The interpreter outside this project's environment, for programs that need only the standard library.

The path of the environment may contain spaces, which the first line of a script (`#!`) must not.
"""


def posix_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(ON_WINDOWS, reason=f"not on Windows: {reason}")


def linux_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not ON_LINUX, reason=f"only on Linux: {reason}")


def windows_only(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not ON_WINDOWS, reason=f"only on Windows: {reason}")
