"""Each agent: where it is, which version, and whether it may talk to a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from youbencha.adapters import adapter_names, get_adapter
from youbencha.doctor.finding import Finding
from youbencha.errors import YouBenchaError
from youbencha.process import ProcessStartError, find_executable
from youbencha.sandbox.toolbox import Toolbox, ask_version, default_root, parse_request

_ANY_PROGRAM = "command"
"""It runs whatever the test case names, so there is nothing to look for."""
_KEPT = ("PATH", "HOME", "SYSTEMROOT", "PATHEXT", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA")


def examined_agents() -> list[str]:
    return [name for name in adapter_names() if name != _ANY_PROGRAM]


async def check_agent(name: str, env: Mapping[str, str]) -> Finding:
    """Not to be there is no fault: nobody has all of them. To be there and of no use is one."""
    where = await _where(name, env)
    try:
        available = await get_adapter(name).check_availability()
    except YouBenchaError as error:
        detail = f"{where}: {error.message}" if where else error.message
        return Finding(
            group="agents", name=name, state="failed", detail=" ".join(detail.split()), fix=error.hint or None
        )
    if not available:
        fix = f"To use it: yb agents install {name}" if _can_be_installed(name) else None
        return Finding(group="agents", name=name, state="note", detail="not installed", fix=fix)
    return Finding(group="agents", name=name, state="ok", detail=where or "ready")


async def _where(name: str, env: Mapping[str, str]) -> str:
    """On PATH first, as adapters look for it; then all that is in the toolbox."""
    if not _can_be_installed(name):
        return ""
    found = []
    program = find_executable(parse_request(name).agent.command, env)
    if program is not None:
        found.append(f"{await _version(program, env) or 'unknown version'} on PATH ({program})")
    kept = [have.version for have in Toolbox(default_root(env)).installed(name)]
    if kept:
        found.append(f"{', '.join(kept)} in the toolbox")
    return "; ".join(found)


async def _version(program: Path, env: Mapping[str, str]) -> str | None:
    kept = {key: env[key] for key in _KEPT if key in env} | {"DISABLE_AUTOUPDATER": "1"}
    try:
        return (await ask_version((str(program),), cwd=Path(tempfile.gettempdir()), env=kept)).version
    except ProcessStartError:
        return None


def _can_be_installed(name: str) -> bool:
    try:
        parse_request(name)
    except YouBenchaError:
        return False
    return True
