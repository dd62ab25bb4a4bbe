"""The prebuilt first program of containers: it belongs to its source, and can be executed however it was installed."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from systems import linux_only, posix_only
from youbencha.errors import YouBenchaError
from youbencha.sandbox.docker import channel
from youbencha.sandbox.docker.channel import init_program

ROOT = Path(__file__).parents[2]
INIT = Path(channel.__file__).parent / "init"
SCRIPT = ROOT / "scripts" / "build-init"
MACHINES = {"x86_64": 62, "aarch64": 183}
"""As ELF numbers them."""
NEEDS_DYNAMIC_LINKER = 3
NOT_PROCESS_1 = 125


def test_binaries_and_sources_match_the_recorded_checksums() -> None:
    """Without a compiler. That the sources give these binaries, `scripts/build-init --check` finds out."""
    compiler, *lines = (INIT / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    script = Path(os.path.relpath(SCRIPT, INIT)).as_posix()
    assert set(sums) == {"init.c", script, *(f"init-{name}" for name in MACHINES)}
    for name, digest in sums.items():
        found = hashlib.sha256((INIT / name).read_bytes()).hexdigest()
        assert found == digest, f"{name} has changed: run scripts/build-init and commit what it builds"
    assert f'COMPILER = "{compiler.removeprefix("# ")}"\n' in SCRIPT.read_text(encoding="utf-8")


@pytest.mark.full
@linux_only("one check is enough")
@pytest.mark.timeout(1200)  # the first time, a compiler is fetched and the C library compiled
def test_the_binaries_are_what_the_source_compiles_to() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("architecture", MACHINES)
def test_a_binary_needs_nothing_from_the_image(architecture: str) -> None:
    data = (INIT / f"init-{architecture}").read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<H", data, 18) == (MACHINES[architecture],)
    table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    kinds = {struct.unpack_from("<I", data, table + i * size)[0] for i in range(count)}
    assert kinds
    assert NEEDS_DYNAMIC_LINKER not in kinds


@pytest.mark.skipif(shutil.which("cc") is None or platform.system() != "Linux", reason="needs a C compiler on Linux")
def test_another_compiler_has_no_warnings(tmp_path: Path) -> None:
    command = ["cc", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O2", "-o", str(tmp_path / "init"), "init.c"]
    done = subprocess.run(command, cwd=INIT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@posix_only("there are no permissions to execute")
class TestCopyInTheCache:
    def test_the_copy_can_be_executed_by_any_user(self, tmp_path: Path) -> None:
        copy = init_program("x86_64", cache_dir=tmp_path)
        assert copy.read_bytes() == (INIT / "init-x86_64").read_bytes()
        assert copy.stat().st_mode & 0o777 == 0o755

    def test_architecture_aliases(self, tmp_path: Path) -> None:
        for name, alias in (("x86_64", "amd64"), ("aarch64", "arm64")):
            assert init_program(name, cache_dir=tmp_path) == init_program(alias, cache_dir=tmp_path)
        assert len(list((tmp_path / "init").iterdir())) == 2

    def test_concurrent_calls_leave_one_copy(self, tmp_path: Path) -> None:
        with ThreadPoolExecutor(8) as threads:
            copies = set(threads.map(lambda _: init_program("x86_64", cache_dir=tmp_path), range(32)))
        assert list((tmp_path / "init").iterdir()) == list(copies)

    def test_a_valid_copy_is_kept(self, tmp_path: Path) -> None:
        before = init_program("x86_64", cache_dir=tmp_path).stat()
        assert init_program("x86_64", cache_dir=tmp_path).stat() == before

    def test_a_damaged_copy_is_replaced(self, tmp_path: Path) -> None:
        good = (INIT / "init-x86_64").read_bytes()
        copy = init_program("x86_64", cache_dir=tmp_path)
        copy.write_bytes(b"cut off")
        assert init_program("x86_64", cache_dir=tmp_path).read_bytes() == good
        copy.chmod(0o600)
        assert init_program("x86_64", cache_dir=tmp_path).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("architecture", "named"), [("riscv64", "riscv64"), ("../x86_64", "../x86_64"), ("", "unknown")]
)
def test_an_architecture_without_a_binary(tmp_path: Path, architecture: str, named: str) -> None:
    with pytest.raises(YouBenchaError) as refused:
        init_program(architecture, cache_dir=tmp_path)
    assert refused.value.code == "SANDBOX_ARCHITECTURE_UNSUPPORTED"
    assert f"({named})" in refused.value.message
    assert "x86_64 and aarch64" in (refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


@linux_only("the program is Linux's")
def test_the_init_program_refuses_to_run_outside_a_container(tmp_path: Path) -> None:
    """There, `kill everything` would be more than a container."""
    program = init_program(platform.machine(), cache_dir=tmp_path)
    done = subprocess.run([program, "/nowhere"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (NOT_PROCESS_1, "This is the first program of a youBencha container.\n")


@pytest.mark.full
def test_wheel_and_sdist_have_the_binaries(tmp_path: Path) -> None:
    backend, dist = tmp_path / "hatchling", tmp_path / "dist"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-input", f"--target={backend}")
    subprocess.run([*pip, "hatchling>=1.25"], check=True, capture_output=True)
    build = (sys.executable, "-m", "hatchling", "build", "-d", str(dist))
    subprocess.run(build, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(backend)}, check=True, capture_output=True)
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel, tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        prefix = sdist.getnames()[0].split("/")[0]
        for name in ("SHA256SUMS", "LICENSES", "init.c", *(f"init-{name}" for name in MACHINES)):
            committed = (INIT / name).read_bytes()
            place = f"youbencha/sandbox/docker/init/{name}"
            assert wheel.read(place) == committed
            packed = sdist.extractfile(f"{prefix}/src/{place}")
            assert packed is not None
            assert packed.read() == committed


@linux_only("containers")
def test_a_socket_directory_that_cannot_be_filled_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:  # a short path
        monkeypatch.setattr(channel, "socket_dir_parents", lambda: [parent])
        monkeypatch.setattr(channel, "SOCKET_DIR_OWNER", "no-such-directory/owner")
        with pytest.raises(OSError, match="no-such-directory"):
            channel.SocketDir()
        assert os.listdir(parent) == []
