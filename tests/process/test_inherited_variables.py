"""Which variables programs inherit: named groups, and the sets that callers make of them."""

from __future__ import annotations

from pathlib import Path

from youbencha.adapters.cli_agent.environment import inherited
from youbencha.evaluators.programs import command_environment
from youbencha.gateway.litellm.config import litellm_environment
from youbencha.process.environment import PROGRAM, has_password, select
from youbencha.sandbox.local import TOOL_VARIABLES

SYSTEM = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
]
NETWORK = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
]
TOOLS = [
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "NVM_DIR",
    "NODE_PATH",
    "PNPM_HOME",
    "NPM_CONFIG_CACHE",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "DOTNET_ROOT",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
]
LITELLM = [
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "PATHEXT",
    "COMSPEC",
    "PROGRAMDATA",
    "NUMBER_OF_PROCESSORS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
]
OTHERS = ["XDG_RUNTIME_DIR", "YOUBENCHA_TOOLBOX", "NUMBER_OF_PROCESSORS", "LC_ALL", "LC_TIME"]
SECRETS = ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "GITHUB_TOKEN", "SSH_AUTH_SOCK"]
ENV = dict.fromkeys([*SYSTEM, *NETWORK, *TOOLS, *TOOL_VARIABLES, *OTHERS, *SECRETS], "value")


def test_variables_of_an_agent() -> None:
    expected = {*SYSTEM, *NETWORK, *TOOL_VARIABLES, *OTHERS} - {"NUMBER_OF_PROCESSORS"}
    assert set(inherited(ENV)) == expected
    assert set(inherited(ENV, {"GITHUB_TOKEN"})) == expected | {"GITHUB_TOKEN"}


def test_variables_of_a_command_evaluator() -> None:
    expected = {*SYSTEM, *NETWORK, *TOOLS, *OTHERS} - {"XDG_RUNTIME_DIR", "YOUBENCHA_TOOLBOX"}
    assert set(command_environment(ENV, {}, {})) == expected


def test_variables_of_litellm(tmp_path: Path) -> None:
    env = litellm_environment(ENV, {}, home=tmp_path, as_user=False)
    assert {name for name, value in env.items() if value == "value"} == {*LITELLM} - {"NO_PROXY"}
    assert env["NO_PROXY"].startswith("value")


def test_names_are_selected_in_any_case() -> None:
    assert select({"Path": "1", "other": "2", "LC_TIME": "3"}, PROGRAM) == {"Path": "1"}
    assert select({"Path": "1", "LC_TIME": "3"}, PROGRAM, locale=True) == {"Path": "1", "LC_TIME": "3"}


def test_an_address_with_credentials_is_recognised() -> None:
    assert has_password("https_proxy", "http://user:secret@proxy:3128")
    assert not has_password("https_proxy", "http://proxy:3128")
    assert not has_password("EMAIL", "me@example.org")
