"""Which of the harness's own environment variables an agent gets to see.

A list of what passes, not of what is held back: the next secret in somebody's shell is then held back too. It also
keeps a harness that itself runs inside an agent (CLAUDECODE, CODEX_SANDBOX …) from changing a trial.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from youbencha.gateway.access import GatewayAccess
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.local.tools import TOOL_VARIABLES

_SYSTEM = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TEMP", "TMP",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "YOUBENCHA_TOOLBOX",
}  # fmt: skip
_WINDOWS = {
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
    "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}  # fmt: skip
_NETWORK = {
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}  # fmt: skip
_PASSES = frozenset(_SYSTEM | _WINDOWS | _NETWORK | TOOL_VARIABLES)


def passed_on(harness: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """The part of the harness's environment that this agent gets: what all get, and the variables that are its own."""
    return {
        name: value
        for name, value in harness.items()
        if (upper := name.upper()) in _PASSES or upper in own or name.startswith("LC_")
    }


def started_from(sandbox: Sandbox, harness: Mapping[str, str], own: Collection[str] = ()) -> dict[str, str]:
    """What an agent's environment begins with. A container lets in nothing of the harness's but what it says itself."""
    base = sandbox.environment(harness)
    return base if sandbox.is_boundary else passed_on(base, own)


def secrets_of(access: GatewayAccess | None) -> dict[str, str]:
    """For whoever masks secrets: the key of a gateway is one, though good for one trial only."""
    return {"GATEWAY_KEY": access.key} if access else {}
