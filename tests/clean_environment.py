"""The environment of every test: the same on every machine, whoever runs it. A test that wants another one sets it."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from claude_bench import GIT_BASH
from youbencha.user_dirs import TOOLBOX_VARIABLE, toolbox_dir

if sys.platform != "win32":
    import resource

_KEPT = {
    "PATH",
    # What chooses the tests, and the parts that they use.
    "YOUBENCHA_REQUIRE_REAL_CLI",
    "YOUBENCHA_REQUIRE_DOCKER",
    "YOUBENCHA_REQUIRE_TMUX",
    "YOUBENCHA_REQUIRE_STACKS",
    "YOUBENCHA_TEST_IMAGE",
    "YOUBENCHA_ORIGINALS",
    "DOCKER_HOST",
    GIT_BASH,
    # Without these, nothing runs on Windows.
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "PROGRAMFILES", "PROGRAMDATA"),
    *("APPDATA", "LOCALAPPDATA", "PYTHONUTF8", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
    # Certificates for the tests that download, which are few; proxies are not supported.
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
}
_KEPT_PREFIXES = ("PIP_", "NPM_CONFIG_", "PYTEST_", "COV_", "COVERAGE_")
_SET = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "TZ": "UTC"}
_UMASK = 0o022
_OPEN_FILES = 4096
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 4 << 30
_MAX_TMPDIR_BYTES = 16


def clean_environment() -> Callable[[], None]:
    """Give this process, and so whatever it starts, the environment of the tests.

    Return a function that removes its home.
    """
    toolbox = str(toolbox_dir())  # of the user: agent CLIs are large, and downloaded once
    temporary = _temporary_directory()
    home = tempfile.mkdtemp(prefix="home ", dir=temporary)
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    own = {"PATH": _path(), "HOME": home, "USERPROFILE": home, TOOLBOX_VARIABLE: toolbox}
    own |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary)
    os.environ.clear()
    os.environ.update(kept | _SET | own)
    tempfile.tempdir = temporary
    if hasattr(time, "tzset"):
        time.tzset()
    os.umask(_UMASK)
    if sys.platform != "win32":  # an ordinary user usually has 1,024, and may have more
        files, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files < _OPEN_FILES and (allowed >= _OPEN_FILES or allowed == resource.RLIM_INFINITY):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, allowed))
    # A runner that starts the tests in the background makes them ignore SIGINT, and nohup makes them ignore SIGHUP.
    # Whatever the tests start would inherit that, and some of them send these signals.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    return lambda: shutil.rmtree(home, ignore_errors=True)


def _path() -> str:
    """Return PATH, with the directory of this Python first if `python3` is a script.

    That of pyenv starts 40 programs, which takes 0.2 s of the processor, before it starts Python.
    """
    path = os.environ.get("PATH", os.defpath)
    python = shutil.which("python3")
    if python is None or not Path(python).read_bytes().startswith(b"#!"):
        return path
    return f"{Path(sys.base_prefix, 'bin')}{os.pathsep}{path}"


def _temporary_directory() -> str:
    """Create a directory with a space and a letter beyond ASCII in its name: unquoted paths fail at once."""
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    # A short path, because that of a socket is limited to 107 bytes, of which a test's own directory takes most.
    if len(os.fsencode(tempfile.gettempdir())) > _MAX_TMPDIR_BYTES and os.access("/tmp", os.W_OK | os.X_OK):
        tempfile.tempdir = "/tmp"
    directory = Path(_MEMORY if _has_memory_disk() else tempfile.gettempdir(), f"é {user}")
    directory.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and directory.lstat().st_uid != user:
        raise RuntimeError(f"{directory} belongs to another user")
    return str(directory)


def _has_memory_disk() -> bool:
    """Return whether to keep files in memory: the tests create and remove very many, which is slow on a disk.

    TMPDIR overrides it. Files below /dev cannot be shared with containers.
    """
    if os.environ.get("TMPDIR") or os.environ.get("DOCKER_HOST") or Path("/var/run/docker.sock").is_socket():
        return False
    if not hasattr(os, "statvfs") or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return False
    disk = os.statvfs(_MEMORY)
    return disk.f_bavail * disk.f_frsize >= _MEMORY_BYTES and not disk.f_flag & os.ST_NOEXEC
