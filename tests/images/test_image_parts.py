"""The contents of an image, without an engine."""

from __future__ import annotations

import io
import sys
import tarfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

from systems import ON_WINDOWS
from yb import yb
from youbencha.errors import YouBenchaError
from youbencha.sandbox.images.build import RECIPES, recipe_for
from youbencha.sandbox.images.context import ImageParts, ImagePython, closure, packages_for, write_context
from youbencha.sandbox.toolbox.portable import PortableCli


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.agent)
def test_each_recipe_has_its_files(recipe: object) -> None:
    found = recipe_for(recipe.agent)  # type: ignore[attr-defined]
    assert found.base == "node:20-bookworm"
    assert found.pinned_version[0].isdigit()
    assert found.dockerfile.endswith('CMD ["/bin/bash", "/adapter.sh"]\n')
    assert found.adapter.read_text(encoding="utf-8").startswith("#!")


def test_a_mistyped_name() -> None:
    with pytest.raises(YouBenchaError, match="clade-code") as caught:
        recipe_for("clade-code")
    assert "'claude-code'" in (caught.value.hint or "")


def context_of(parts: ImageParts) -> tarfile.TarFile:
    file = io.BytesIO()
    write_context(file, parts)
    return tarfile.open(fileobj=file)


@pytest.fixture
def parts(tmp_path: Path) -> ImageParts:
    """A CLI as private as a careful user's umask makes it."""
    tool = tmp_path / "1.2.3"
    (tool / "deep dir").mkdir(parents=True)
    (tool / "deep dir" / "tool").write_text("#!/bin/sh\n")
    (tool / "deep dir" / "tool").chmod(0o700)
    (tool / "data").write_text("data")
    (tool / "data").chmod(0o600)
    adapter = tmp_path / "adapter.sh"
    adapter.write_text("#!/bin/bash\n")
    carried = PortableCli((tool / "deep dir" / "tool", "-s"), (tool,))
    return ImageParts("FROM scratch\n", adapter, "tool", "/opt/tool", carried, {PurePosixPath("x/y.py"): adapter})


def test_the_agent_is_started_by_name(parts: ImageParts) -> None:
    with context_of(parts) as context:
        starter = context.extractfile("bin/tool")
        assert starter is not None
        assert starter.read() == b"#!/bin/sh\nexec '/opt/tool/0-1.2.3/deep dir/tool' -s \"$@\"\n"
        names = context.getnames()
    assert {"Dockerfile", "adapter.sh", "python/x/y.py", "python/youbencha/__init__.py"} <= set(names)
    assert "cli/0-1.2.3/deep dir/tool" in names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.skipif(ON_WINDOWS, reason="files have no modes there")
def test_all_files_are_readable_for_everyone(parts: ImageParts) -> None:
    with context_of(parts) as context:
        modes = {entry.name: entry.mode for entry in context if not entry.issym()}
        owners = {(entry.uid, entry.gid) for entry in context.getmembers()}
    assert modes["cli/0-1.2.3/deep dir/tool"] == modes["cli/0-1.2.3"] == modes["adapter.sh"] == 0o755
    assert modes["cli/0-1.2.3/data"] == 0o644
    assert set(modes.values()) == {0o755, 0o644}
    assert owners == {(0, 0)}


def test_packages_come_with_their_dependencies() -> None:
    names = {each.name.lower() for each in closure(["aiohttp"])}
    assert {"aiohttp", "multidict", "yarl", "idna"} <= names  # idna only because of yarl
    assert "brotli" not in names, "an extra that was not requested"


async def test_packages_of_a_compatible_python_are_copied_from_here(tmp_path: Path) -> None:
    import platform

    like = ImagePython((sys.version_info.major, sys.version_info.minor), platform.machine(), (2, 36))
    if not like.is_like_ours:
        pytest.skip("images are Linux")
    found = await packages_for(like, tmp_path, pytest.fail)
    assert found[PurePosixPath("aiohttp/__init__.py")].is_file()
    assert PurePosixPath(f"aiohttp-{metadata.version('aiohttp')}.dist-info/METADATA") in found
    assert not [name for name in found if ".." in name.parts]


def test_another_python_is_not_compatible() -> None:
    import platform

    assert not ImagePython((3, 10), platform.machine(), (2, 36)).is_like_ours
    assert not ImagePython((sys.version_info.major, sys.version_info.minor), "s390x", (2, 36)).is_like_ours
    platforms = ImagePython((3, 12), "aarch64", (2, 19)).platforms
    assert platforms[:3] == ["manylinux_2_19_aarch64", "manylinux_2_18_aarch64", "manylinux_2_17_aarch64"]


def test_options_for_one_agent_need_one_agent() -> None:
    done = yb("images", "build", "--tag", "mine:1")
    assert done.returncode == 2
    assert "IMAGE_AMBIGUOUS" in done.stderr


@pytest.mark.skipif(ON_WINDOWS, reason="there are no Unix sockets")
def test_without_an_engine_an_error_is_reported(tmp_path: Path) -> None:
    done = yb("images", "list", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 2
    assert "SANDBOX_NO_ENGINE" in done.stderr
    assert "DOCKER_HOST" in done.stderr
