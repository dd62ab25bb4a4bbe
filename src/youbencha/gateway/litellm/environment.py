"""The world that LiteLLM runs in: what the system and a company's network need, the keys it is given, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_KEPT = frozenset({
    "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "TMP", "TEMP",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT", "COMSPEC", "PROGRAMDATA", "NUMBER_OF_PROCESSORS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
})  # fmt: skip
_OF_THE_USER = frozenset({"HOME", "USER", "LOGNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME"})
"""Where cloud credentials lie, which a configuration of the user's may rely on; ours does not."""
_LOOPBACK = "127.0.0.1,localhost,::1"

QUIET: Mapping[str, str] = MappingProxyType(
    {
        # Its lists as they came with it: no request leaves this computer but the agent's. (Without a network, the
        # first of these also saves the six seconds that it tries for.)
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
        "LITELLM_LOCAL_BLOG_POSTS": "True",
        "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
        "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
        # No `.env` that lies about is read.
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "WARNING",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }
)


def litellm_environment(
    env: Mapping[str, str], given: Mapping[str, str], *, home: Path, as_user: bool
) -> dict[str, str]:
    """`given` are the keys; `as_user` leaves it the user's own home directory."""
    wanted = _KEPT | _OF_THE_USER if as_user else _KEPT
    kept = {name: value for name, value in env.items() if name.upper() in wanted}
    homes = {} if as_user else dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home))
    return {**kept, **homes, **_past_the_proxy(kept), **QUIET, **given}


def _past_the_proxy(kept: Mapping[str, str]) -> dict[str, str]:
    """What is on this computer is never asked for through a proxy."""
    if not any(name.upper().endswith("_PROXY") for name in kept):
        return {}
    said = next((kept[name] for name in ("no_proxy", "NO_PROXY") if kept.get(name)), "")
    exceptions = f"{said},{_LOOPBACK}" if said else _LOOPBACK
    return {"NO_PROXY": exceptions, "no_proxy": exceptions}
