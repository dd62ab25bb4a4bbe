"""What a program gets to see that tests an agent's work. It runs the agent's code: nothing secret is for it.

A list of what passes, not of what is held back: the next secret in somebody's shell is then held back too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from youbencha.errors import Problem

_SYSTEM = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TEMP", "TMP",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
}  # fmt: skip
_WINDOWS = {
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "PATHEXT", "PROGRAMDATA",
    "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}  # fmt: skip
_TOOLS = {
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "UV_CACHE_DIR", "PIP_CACHE_DIR", "NVM_DIR", "NODE_PATH", "PNPM_HOME",
    "NPM_CONFIG_CACHE", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_HOME",
    "JAVA_HOME", "MAVEN_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "DOTNET_ROOT", "RBENV_ROOT", "GEM_HOME", "GEM_PATH",
}  # fmt: skip
_NETWORK = {
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}  # fmt: skip
_PASSES = _SYSTEM | _WINDOWS | _TOOLS | _NETWORK

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def command_environment(
    base: Mapping[str, str], given: Mapping[str, str], harness: Mapping[str, str]
) -> dict[str, str]:
    """What the program runs with: what may pass of `base`, and over it what the configuration gives.

    That may refer to variables of the harness; each was found to be set.
    """
    resolved = {name: _REFERENCE.sub(lambda match: harness[match[1]], value) for name, value in given.items()}
    return {**{name: value for name, value in base.items() if _passes(name, value)}, **resolved}


def missing_references(harness: Mapping[str, str], given: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in given.items():
        for reference in _REFERENCE.findall(value):
            if reference not in harness:
                hint = "set it before you start youBencha, or give it under `variables` of your settings"
                yield Problem(f"env.{name}", f"refers to {reference}, which is not set", hint)


def _passes(name: str, value: str) -> bool:
    if name.upper() in _NETWORK and "@" in value:
        return False  # a proxy with a password
    return name.upper() in _PASSES or name.startswith("LC_")
