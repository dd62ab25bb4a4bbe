"""Which variables of the harness an agent inherits."""

from __future__ import annotations

import pytest

from youbencha.adapters.claude_code import ClaudeCodeAdapter


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "XDG_CONFIG_HOME",
        "XDG_STATE_HOME", "HTTPS_PROXY", "https_proxy", "no_proxy", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE",
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "AWS_REGION", "AWS_ACCESS_KEY_ID",
        "SystemRoot", "Path", "USERPROFILE",
    ],
)  # fmt: skip
def test_inherited_variables(name: str) -> None:
    assert ClaudeCodeAdapter({name: "value"}).environment({})[name] == "value"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "NPM_TOKEN", "DATABASE_URL", "SSH_AUTH_SOCK", "MY_SECRET",
        "ANTHROPIC_ADMIN_KEY", "ANTHROPIC_MODEL", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT",
        "PYTHONPATH", "LD_PRELOAD", "NODE_OPTIONS", "GIT_DIR", "VIRTUAL_ENV", "XLC_ALL", "PATHS", "YOUBENCHA_OTHER",
    ],
)  # fmt: skip
def test_withheld_variables(name: str) -> None:
    assert name not in ClaudeCodeAdapter({name: "value"}).environment({})


def test_the_test_cases_environment_wins() -> None:
    harness = {"PATH": "/usr/bin", "ANTHROPIC_API_KEY": "mine", "OTHER": "x"}
    given = {"ANTHROPIC_API_KEY": "theirs", "OTHER": "y", "DISABLE_AUTOUPDATER": "0", "CLAUDECODE": "1"}
    env = ClaudeCodeAdapter(harness).environment(given)
    assert env == {
        "PATH": "/usr/bin",
        "ANTHROPIC_API_KEY": "theirs",
        "OTHER": "y",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "0",
    }


def test_the_harness_cannot_turn_updates_on_by_accident() -> None:
    assert ClaudeCodeAdapter({"DISABLE_AUTOUPDATER": "0"}).environment({})["DISABLE_AUTOUPDATER"] == "1"


def test_the_inputs_are_not_changed() -> None:
    harness, given = {"PATH": "/usr/bin"}, {"A": "b"}
    ClaudeCodeAdapter(harness).environment(given)["C"] = "d"
    assert (harness, given) == ({"PATH": "/usr/bin"}, {"A": "b"})
