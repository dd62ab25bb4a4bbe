"""The directories of a user: the same as before, with the variables of the XDG specification on Linux."""

from pathlib import Path

import pytest

from systems import linux_only
from youbencha.user_dirs import default_cache_dir, toolbox_dir


@linux_only("other systems have other directories")
@pytest.mark.parametrize(
    ("env", "cache", "toolbox"),
    [
        ({}, "/home/me/.cache/youbencha", "/home/me/.local/share/youbencha/toolbox"),
        ({"XDG_CACHE_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c/youbencha", "/d/youbencha/toolbox"),
        (
            {"XDG_CACHE_HOME": "relative", "XDG_DATA_HOME": "relative"},
            "/home/me/.cache/youbencha",
            "/home/me/.local/share/youbencha/toolbox",
        ),
        ({"XDG_DATA_HOME": "/d", "YOUBENCHA_TOOLBOX": "/tools"}, "/home/me/.cache/youbencha", "/tools"),
    ],
)
def test_directories_on_linux(env: dict[str, str], cache: str, toolbox: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "YOUBENCHA_TOOLBOX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **env}.items():
        monkeypatch.setenv(name, value)
    assert default_cache_dir() == Path(cache)
    assert toolbox_dir() == Path(toolbox)


def test_another_environment_may_name_the_toolbox() -> None:
    assert toolbox_dir({"YOUBENCHA_TOOLBOX": "/tools"}) == Path("/tools").absolute()
