"""Tiny packages, real package managers: pip reads wheels from a directory, npm talks to a registry on loopback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from toolbox_packages import Lines, Registry, WheelHouse

from youbencha.sandbox.toolbox import sources
from youbencha.sandbox.toolbox.sources import PartialInstall, Release
from youbencha.sandbox.toolbox.toolbox import Toolbox


@pytest.fixture
def toolbox(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path / "toolbox")


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelHouse:
    """All that pip can see."""
    house = WheelHouse(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", house.directory.as_uri())  # pip splits it at spaces
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return house


@pytest.fixture
def copied_wheels(wheels: WheelHouse, monkeypatch: pytest.MonkeyPatch) -> WheelHouse:
    """The same wheels, copied instead of downloaded by pip, which takes a second: for tests of what follows that."""

    async def copied(release: Release, partial: PartialInstall) -> Path:
        name, _, version = release.package.partition("==")
        (wheel,) = wheels.directory.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        return Path(shutil.copy(wheel, partial.work))

    monkeypatch.setattr(sources, "download_wheel", copied)
    return wheels


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """All that npm can see."""
    with Registry() as served:
        monkeypatch.setenv("npm_config_registry", served.url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
        monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
        # How often is the toolbox's choice; how long in between, ours.
        monkeypatch.setenv("npm_config_fetch_retry_mintimeout", "10")
        monkeypatch.setenv("npm_config_fetch_retry_maxtimeout", "10")
        yield served


@pytest.fixture
def only_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a shell and nothing else; link more into it."""
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(directory))
    return directory
