"""Which of the harness's own environment variables an agent gets to see.

A list of what passes, not of what is held back: the next secret in somebody's shell is then held back too. It also
keeps a harness that itself runs inside Claude Code (CLAUDECODE, CLAUDE_CODE_ENTRYPOINT …) from changing a trial.
"""

from __future__ import annotations

from collections.abc import Mapping

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
_CLAUDE = {
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS", "CLAUDE_CODE_GIT_BASH_PATH", "IS_SANDBOX",
}  # fmt: skip
_PASSES = _SYSTEM | _WINDOWS | _NETWORK | _CLAUDE

_QUIET = {
    # Fewer connections that have nothing to do with the task, and no update in the middle of a trial.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


def agent_environment(harness: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What Claude Code runs with. What the test case gives wins over everything."""
    passed = {name: value for name, value in harness.items() if name.upper() in _PASSES or name.startswith("LC_")}
    return {**passed, **_QUIET, **given}
