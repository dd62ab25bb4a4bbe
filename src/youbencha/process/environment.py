"""Groups of environment variables that a program may inherit.

Allowlists, so that a new secret in a user's shell is not passed on. Names are in upper case; Windows ignores the case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

PROGRAM = frozenset({"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT"})
"""Without these, programs are not found, and those of Windows do not start."""

HOME = frozenset({"HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"})
TEMPORARY = frozenset({"TMPDIR", "TEMP", "TMP"})
LOCALE = frozenset({"LANG", "LANGUAGE", "TZ"})
USER = frozenset({"USER", "LOGNAME", "SHELL", "TERM", "USERNAME", "HOMEDRIVE", "HOMEPATH"})
XDG = frozenset({"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"})
WINDOWS = frozenset({"PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "WINDIR"})

SYSTEM = PROGRAM | HOME | TEMPORARY | LOCALE | USER | XDG | WINDOWS
"""The variables that an ordinary program expects."""

PROXY = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"})
"""May hold a password: see `has_password`."""

CERTIFICATES = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"})

TOOLS = frozenset({
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "UV_CACHE_DIR", "PIP_CACHE_DIR", "NVM_DIR", "NODE_PATH", "PNPM_HOME",
    "NPM_CONFIG_CACHE", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOTOOLCHAIN", "CARGO_HOME", "RUSTUP_HOME",
    "JAVA_HOME", "MAVEN_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "DOTNET_ROOT", "RBENV_ROOT", "GEM_HOME", "GEM_PATH",
})  # fmt: skip
"""Directories of build tools and language runtimes, and of their caches."""


_SHELL_VARIABLES = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})
"""Variables that a shell sets for itself."""


def withheld(env: Mapping[str, str], harness: Mapping[str, str]) -> list[str]:
    """Return the names of the harness's variables that a program with this environment did not get."""
    given = {name.upper() for name in env} | _SHELL_VARIABLES
    return sorted(name for name in harness if name.upper() not in given)


def select(env: Mapping[str, str], names: Collection[str], *, locale: bool = False) -> dict[str, str]:
    """Return the variables of `env` with these names in any case; with `locale`, all `LC_*` as well."""
    return {name: value for name, value in env.items() if name.upper() in names or (locale and name.startswith("LC_"))}


def has_password(name: str, value: str) -> bool:
    """Return whether a variable of `PROXY` or `CERTIFICATES` holds an address with credentials."""
    return "@" in value and name.upper() in PROXY | CERTIFICATES
