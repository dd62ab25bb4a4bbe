"""A sandbox in which everything has another name than outside, and where only what was shared has one.

No container: names inside are links. But an adapter that tells its agent a path of the host is found out, and one that
forgets to share something fails as it would in a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from youbencha.sandbox.local import HostSandbox


class RenamedSandbox(HostSandbox):
    kind = "renamed"
    is_boundary = True

    def __init__(self, top: Path, workspace: Path, *, brings_agent: bool = False) -> None:
        self.brings_agent = brings_agent  # type: ignore[misc]
        self.top = top
        self.top.mkdir()
        self.home = top / "home"
        self.home.mkdir()
        self.shared: dict[Path, bool] = {}
        self._names: dict[Path, Path] = {}
        self._name(workspace.absolute(), "workspace")

    def environment(self, harness: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "IN_THERE": "yes"}

    def share(self, path: Path, *, writable: bool = False) -> None:
        assert path.is_absolute()
        assert path.exists()
        self.shared[path] = writable
        if path not in self._names:
            self._name(path, f"{len(self._names)}-{path.name}")

    def inside(self, path: Path) -> str:
        for outer, inner in self._names.items():
            if path.is_relative_to(outer):
                return str(inner / path.relative_to(outer))
        raise ValueError(f"{path} is not shared")

    def outside(self, path: str) -> Path | None:
        for outer, inner in self._names.items():
            if Path(path).is_relative_to(inner):
                return outer / Path(path).relative_to(inner)
        return Path(path) if Path(path).is_relative_to(self.top) else None

    def _name(self, path: Path, name: str) -> None:
        inner = self.top / name
        inner.symlink_to(path)
        self._names[path] = inner
