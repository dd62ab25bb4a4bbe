"""LocalSandbox: programs run here, as they would by hand, but at home in a directory of the trial's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.sandbox.here import Here
from youbencha.sandbox.local.home import at_home, make_home


class LocalSandbox(Here):
    """Nothing keeps a program in here from the rest of the computer; it only does not come upon it by itself."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        """None: the person's own."""

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return dict(harness) if self.home is None else at_home(harness, self.home)


def open_local_sandbox(*, scratch: Path, fresh_home: bool) -> LocalSandbox:
    """`scratch` is the trial's; whoever made it removes it when the trial is over."""
    if not fresh_home:
        return LocalSandbox(None)
    home = scratch.absolute() / "home"
    make_home(home)
    return LocalSandbox(home)
