"""Run pip or npm into a partial installation, with progress; explain their failures."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from youbencha.errors import YouBenchaError
from youbencha.events import StepProgress
from youbencha.process import Command, Limits, ProcessResult, run
from youbencha.sandbox.toolbox.installed import directory_size

DOWNLOAD_S = 30 * 60.0
LOOK_UP_S = 5 * 60.0
VERSION_NOT_FOUND = "AGENT_VERSION_NOT_FOUND"
DEPENDENCY_NOT_FOUND = "AGENT_DEPENDENCY_NOT_FOUND"
PYTHON_UNSUPPORTED = "PYTHON_UNSUPPORTED"
STORAGE = "TOOLBOX_STORAGE"
_PARTIAL = ".partial-"
_PROGRESS_EVERY_S = 1.0
_MB = 1_000_000
_TAIL = 4_000
MAX_REASON_CHARS = 300
_NOTHING: Mapping[str, str] = MappingProxyType({})


def no_progress(_step: str, _detail: str = "", /) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class PartialInstall:
    """An unfinished installation: its two directories, on the same disk, and its progress callback."""

    tree: Path
    """Becomes `<root>/<agent>/<version>`."""
    work: Path
    """For downloads and temporary files; removed at the end."""
    progress: StepProgress = no_progress


@contextmanager
def partial_install(home: Path, progress: StepProgress = no_progress) -> Iterator[PartialInstall]:
    """Create a partial installation in the directory of an agent, and remove it at the end in any case."""
    directory = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=home))
    try:
        partial = PartialInstall(directory / "tree", directory / "work", progress)
        partial.tree.mkdir()
        partial.work.mkdir()
        yield partial
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def clear_leftovers(home: Path) -> None:
    """Remove what killed installers left. The caller must hold the lock."""
    for path in home.glob(f"{_PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class ToolRun:
    succeeded: bool
    output: str
    """Standard output and standard error, line by line in order."""
    stdout: str


async def run_watched(
    partial: PartialInstall,
    argv: Sequence[str],
    *,
    label: str,
    cwd: Path | None = None,
    env: Mapping[str, str] = _NOTHING,
    timeout_s: float = DOWNLOAD_S,
) -> ToolRun:
    """Run a package manager in the user's environment (proxies, PIP_*, npm_config_*) plus `env`.

    Report every second how long it has run and how much it has written.
    """
    temp = partial.work / "tmp"
    temp.mkdir(exist_ok=True)
    # Temporary files are beside the installation, on a disk with enough space, so that the progress includes them.
    variables = {**os.environ, **env, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temp))}
    command = Command(argv=tuple(argv), cwd=cwd or partial.work, env=variables)
    lines: list[bytes] = []
    partial.progress(label)
    running = asyncio.create_task(run(command, limits=Limits(timeout_s=timeout_s), on_line=lines.append))
    result = await _watch(running, label, (temp, partial.tree), partial.progress)
    if result.timed_out:
        raise _too_slow(label, timeout_s, result)
    return ToolRun(result.exit.code == 0, result.output, b"\n".join(lines).decode(errors="replace"))


async def _watch(
    running: asyncio.Task[ProcessResult], label: str, watched: Sequence[Path], progress: StepProgress
) -> ProcessResult:
    start = time.monotonic()
    try:
        while not (await asyncio.wait({running}, timeout=_PROGRESS_EVERY_S))[0]:
            size = await asyncio.to_thread(lambda: sum(map(directory_size, watched)))
            on_disk = f"{size / _MB:.0f} MB on disk, " if size >= _MB else ""
            progress(label, f"{on_disk}{time.monotonic() - start:.0f} s")
    finally:
        # On Ctrl-C, or if `progress` raises: it must not write into a directory that is about to be removed.
        running.cancel()
        await asyncio.wait({running})
    return running.result()


def _too_slow(label: str, timeout_s: float, result: ProcessResult) -> YouBenchaError:
    return YouBenchaError(
        "TOOLBOX_TIMEOUT",
        f"{label}: the installation did not finish within {timeout_s / 60:.0f} minutes",
        hint="Check the network, the proxy, and your pip or npm configuration.",
        context={"output": result.output[-_TAIL:]},
    )


_PYTHON_HINT = "Try another version, or install youBencha with a Python that it supports."


@dataclass(frozen=True, slots=True)
class PackageFailure:
    """A failure of a package manager, recognised by its output, and a hint."""

    pattern: str
    code: str
    hint: str


# The order matters: offline, pip first reports the network and then that there is no matching distribution.
FAILURES: tuple[PackageFailure, ...] = (
    PackageFailure(
        r"No module named pip\b",
        "PIP_NOT_FOUND",
        "Install pip for this Python: `python -m ensurepip`, or `uv pip install pip` in an environment of uv.",
    ),
    PackageFailure(
        r"No space left|ENOSPC|Disk quota|EDQUOT|File too large|EFBIG",
        STORAGE,
        "Free some space, or set YOUBENCHA_TOOLBOX to a directory on a larger disk.",
    ),
    PackageFailure(
        r"[Nn]ame ?[Rr]esolution|getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH"
        r"|EHOSTUNREACH|ProxyError|timed out|not a trusted or secure host|Failed to establish a new connection"
        r"|NewConnectionError|CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)"
        r"|CERT_HAS_EXPIRED|ERR_SOCKET_TIMEOUT|network timeout",
        "TOOLBOX_NETWORK",
        "The package registry cannot be reached. Check the network, the proxy, and your pip or npm configuration.",
    ),
    PackageFailure(r"npm (error|ERR!) code EBADENGINE", "NODE_TOO_OLD", "Install a newer Node.js."),
    PackageFailure(r"requires a different Python", PYTHON_UNSUPPORTED, _PYTHON_HINT),
    PackageFailure(
        r"No matching distribution|ETARGET|E404|No match(ing version)? found",
        VERSION_NOT_FOUND,
        "Check the version number; without one, the newest is installed.",
    ),
)

DEPENDENCY_HINT = (
    "The version exists, but cannot be installed, because something that it needs was deleted, was never published, or "
    "is not in your registry. Try another version."
)

_NOT_FOUND = re.compile(
    r"No matching distribution found for (\S+)|No matching version found for (\S+?)\.?$"
    r"|The requested resource '([^']+)' could not be found|'([^']+)' is not in this registry",
    re.MULTILINE,
)
"""What pip and npm say of the package that they did not find."""
_OTHER_PYTHON = re.compile(r"that require a different python version: (.*)")

_UNKNOWN = PackageFailure("", "TOOLBOX_INSTALL_FAILED", "Run pip or npm by hand to see its full output.")
_ERROR_LINE = re.compile(r"^(?:ERROR:|npm (?:error|ERR!))\s*(?:notarget |404 )?(.*\S)", re.MULTILINE)
_NOISE = re.compile(r"code [A-Z0-9_]+$|errno |syscall |A complete log|Ignored the following")


def explain(tool: str, package: str, output: str) -> YouBenchaError:
    """Return the error for a package manager that failed with this output. `package` may have a version."""
    failure = next((row for row in FAILURES if re.search(row.pattern, output, re.DOTALL)), _UNKNOWN)
    code, hint, reason = failure.code, failure.hint, _reason(tool, output)
    if code == VERSION_NOT_FOUND:
        if (needed := _not_found(output)) and _name(needed) != _name(package):
            code, hint, reason = DEPENDENCY_NOT_FOUND, DEPENDENCY_HINT, f"it needs {needed}, which cannot be found"
        elif other := _other_python(package, output):
            code, reason = PYTHON_UNSUPPORTED, f"it does not support Python {platform.python_version()} ({other})"
            hint = _PYTHON_HINT
    return YouBenchaError(
        code,
        f"{tool} could not fetch {package}: {reason}",
        hint=hint,
        context={"package": package, "output": output[-_TAIL:]},
    )


def _not_found(output: str) -> str | None:
    """The package that was not found, as it was required: `litellm==1.47.0`, `@github/copilot@^1.0.0`."""
    # `npm view` only looks for the package itself, and names it "undefined" here.
    match = None if "No match found for version" in output else _NOT_FOUND.search(output)
    return match[match.lastindex or 0] if match else None


def _name(requirement: str) -> str:
    """The name of a package, without its version or extras, in one spelling."""
    scope, name = ("@", requirement[1:]) if requirement.startswith("@") else ("", requirement)
    return scope + re.sub(r"[-_.]+", "-", re.split(r"[@=<>!~;\[\s]", name, maxsplit=1)[0]).lower()


def _other_python(package: str, output: str) -> str | None:
    """The Pythons that this version supports, if pip ignored it because of that."""
    version = package.partition("==")[2]
    ignored = _OTHER_PYTHON.search(output) if version else None
    versions = (version.strip().partition(" ") for version in ignored[1].split(";")) if ignored else ()
    return next((needs for number, _, needs in versions if number == version), None)


def _reason(tool: str, output: str) -> str:
    """The line with the cause: npm's first, pip's last."""
    lines = [line for line in _ERROR_LINE.findall(output) if not _NOISE.match(line)]
    lines = lines or [line.strip() for line in output.splitlines() if line.strip()][-1:] or ["no output"]
    return (lines[0] if tool == "npm" else lines[-1])[:MAX_REASON_CHARS]
