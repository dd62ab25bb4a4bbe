"""LocalSandbox: programs run here, as they would by hand, but at home in a directory of the trial's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.sandbox.here import Here
from youbencha.sandbox.local.home import at_home, make_home


class LocalSandbox(Here):
    """Nothing keeps a program in here from the rest of the computer; it only does not come upon it by itself."""

    has_fresh_home = True

    def __init__(self, home: Path) -> None:
        self.home = home

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return at_home(harness, self.home)


def open_local_sandbox(*, scratch: Path) -> LocalSandbox:
    """`scratch` is the trial's; whoever made it removes it when the trial is over."""
    home = scratch.absolute() / "home"
    make_home(home)
    return LocalSandbox(home)
