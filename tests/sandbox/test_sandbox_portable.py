"""Which files a CLI needs in a container, and that they are enough to start it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.installed import InstalledAgent, file_sha256, write_manifest
from youbencha.sandbox.toolbox.portable import portable_cli, portable_file
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="CLIs of this computer run in containers on Linux only")


def install(root: Path, agent: str, version: str, executable: str, content: bytes | str) -> InstalledAgent:
    directory = root / agent / version
    path = directory / executable
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755)
    made = InstalledAgent(
        agent=agent,
        version=version,
        executable=path,
        sha256=file_sha256(path),
        source="npm",
        package=agent,
        size_bytes=1,
        installed_at="2026-01-01T00:00:00Z",
    )
    write_manifest(made, directory)
    found = Toolbox(root).find(agent, version)
    assert found is not None
    return found


def with_node(directory: Path, program: Path | None = None) -> dict[str, str]:
    """Something called node on PATH: a small program of this system that only needs glibc."""
    (directory / "bin").mkdir()
    (directory / "bin" / "node").symlink_to(program or "/bin/true")
    return {"PATH": f"{directory / 'bin'}:/usr/bin:/bin"}


async def test_a_native_binary_is_shared_with_its_installation(tmp_path: Path) -> None:
    codex = install(tmp_path, "codex", "1.2.3", "node_modules/x/bin/codex", b"\x7fELF")
    carried = await portable_cli(codex, {})
    assert carried == ((codex.executable,), (tmp_path / "codex" / "1.2.3",))


async def test_a_script_is_shared_with_a_copy_of_node(tmp_path: Path) -> None:
    env = with_node(tmp_path)
    script = "#!/usr/bin/env -S node --no-warnings --title=x\n"
    gemini = install(tmp_path / "box", "gemini-cli", "1.2.3", "node_modules/g/gemini.js", script)
    carried = await portable_cli(gemini, env)
    node, *rest = carried.command
    assert isinstance(node, Path)
    assert rest == ["--no-warnings", "--title=x", gemini.executable]
    assert carried.needs == (gemini.directory, node)
    assert node.is_relative_to(tmp_path / "box")  # not /usr/bin/node, which may be the image's own
    assert not node.is_symlink()
    assert subprocess.run([str(node)], check=False).returncode == 0
    before = node.stat().st_ino
    assert (await portable_cli(gemini, env)).command[0] == node
    assert node.stat().st_ino == before  # once is enough
    node.parent.rename(node.parent.with_name("0123456789abcdef"))  # its name is a hash, and may look like a version
    assert [have.agent for have in Toolbox(tmp_path / "box").installed()] == ["gemini-cli"]
    assert Toolbox(tmp_path / "box").damaged() == []


async def test_a_node_that_cannot_start_in_an_image(tmp_path: Path) -> None:
    git = Path("/usr/bin/git")
    if not git.exists():
        pytest.skip("no program here that needs more than glibc")
    gemini = install(tmp_path / "box", "gemini-cli", "1.2.3", "gemini.js", "#!/usr/bin/env node\n")
    with pytest.raises(YouBenchaError, match=r"libraries that an image may not have: .*libz") as caught:
        await portable_cli(gemini, with_node(tmp_path, git))
    assert caught.value.code == "NODE_NOT_PORTABLE"


# -- not from the toolbox ---------------------------------------------------------------------------------------------


async def test_a_local_binary_is_shared_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/bin/true")
    real = Path("/bin/true").resolve()
    assert await portable_file(tmp_path / "link", tmp_path, {}) == ((real,), (real,))


async def test_a_file_of_a_toolbox_is_recognised(tmp_path: Path) -> None:
    codex = install(tmp_path, "codex", "1.2.3", "bin/codex", "#!/bin/sh\n")
    assert await portable_file(codex.executable, tmp_path, {}) == await portable_cli(codex, {})


@pytest.mark.parametrize("name", ["@google/gemini-cli", "gemini"])
@pytest.mark.parametrize("place", ["dist", "node_modules/inner"])
async def test_an_npm_package_is_shared_completely(name: str, place: str, tmp_path: Path) -> None:
    env = with_node(tmp_path)
    package = tmp_path / "lib" / "node_modules" / name
    script = package / place / "main.js"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    for directory in (package, script.parent):
        (directory / "package.json").write_text("{}")
    (tmp_path / "link").symlink_to(script)
    carried = await portable_file(tmp_path / "link", tmp_path / "box", env)
    assert carried is not None
    assert carried.needs[0] == package
    assert carried.command[-1] == script


@pytest.mark.parametrize("content", ["#!/bin/sh\nexec other\n", "#!/usr/bin/python3\n", "", "#!/usr/bin/env node\n"])
async def test_a_script_with_unknown_dependencies(content: str, tmp_path: Path) -> None:
    (tmp_path / "agent").write_text(content)
    assert await portable_file(tmp_path / "agent", tmp_path, with_node(tmp_path)) is None


# -- a virtual environment ---------------------------------------------------------------------------------------------

SAYS = """
import json, ssl, sqlite3, ctypes, subprocess, sys, os
if sys.argv[1:] == ["--version"]:
    child = [sys.executable, "-c", "import sys; print(sys.prefix)"]
    print(json.dumps({
        "prefix": sys.prefix, "executable": sys.executable, "here": __file__,
        "child": subprocess.run(child, capture_output=True, text=True).stdout.strip(),
        "loads": os.environ.get("LD_LIBRARY_PATH"),
        "maps": [line[line.index("/"):].strip() for line in open("/proc/self/maps") if ".so" in line],
    }))
"""


@pytest.fixture(scope="module")
def aider(tmp_path_factory: pytest.TempPathFactory) -> InstalledAgent:
    """A package called aider, in an environment like Aider's."""
    root = tmp_path_factory.mktemp("box")
    installed = install(
        root, "aider", "1.2.3", "aider", '#!/bin/sh\nexec "$(dirname -- "$0")/venv/bin/python" -m aider\n'
    )
    venv = installed.directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "aider.py").write_text(SAYS)
    return installed


async def test_a_virtual_environment_is_shared_with_its_python(aider: InstalledAgent) -> None:
    carried = await portable_cli(aider, {})
    portable = aider.directory / "portable"
    assert carried.command == (portable / "python", "-s", "-P", "-m", "aider")
    assert carried.needs == (aider.directory,)
    done = subprocess.run(
        [*map(str, carried.command), "--version"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["prefix"], said["child"]) == (str(portable), str(portable))
    assert said["executable"] == str(portable / "python")
    assert Path(said["here"]).resolve() == next(aider.directory.glob("venv/lib/python*/site-packages/aider.py"))
    assert said["loads"] is None
    others = {Path(path).name for path in said["maps"] if not Path(path).is_relative_to(aider.directory)}
    # Only what belongs to the image's C library comes from outside.
    assert {name.partition(".")[0].partition("-")[0] for name in others} <= {
        "libc", "libm", "libdl", "libpthread", "libresolv", "librt", "libutil", "ld",
    }  # fmt: skip


async def test_the_portable_copy_is_made_once(aider: InstalledAgent) -> None:
    await portable_cli(aider, {})
    made = (aider.directory / "portable").stat().st_ino
    await portable_cli(aider, {})
    assert (aider.directory / "portable").stat().st_ino == made
    assert sorted(path.name for path in aider.directory.iterdir()) == ["aider", "manifest.json", "portable", "venv"]


async def test_a_virtual_environment_without_its_python(tmp_path: Path) -> None:
    installed = install(tmp_path, "aider", "1.2.3", "aider", "#!/bin/sh\n")
    python = installed.directory / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho it is broken\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(YouBenchaError, match="it is broken") as caught:
        await portable_cli(installed, {})
    assert caught.value.code == "AGENT_CANNOT_RUN"
