"""What pip and npm say when they fail -> what went wrong and what to do, as a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from youbencha.errors import YouBenchaError

VERSION_NOT_FOUND = "AGENT_VERSION_NOT_FOUND"
STORAGE = "TOOLBOX_STORAGE"


@dataclass(frozen=True, slots=True)
class Failure:
    pattern: str
    code: str
    hint: str


# The order matters: offline, pip first tells of the network and then says that there is no matching distribution.
FAILURES: tuple[Failure, ...] = (
    Failure(
        r"No module named pip\b",
        "PIP_NOT_FOUND",
        "Give this Python a pip: `python -m ensurepip`, or in an environment of uv `uv pip install pip`.",
    ),
    Failure(
        r"No space left|ENOSPC|Disk quota|EDQUOT|File too large|EFBIG",
        STORAGE,
        "Free some space, or set YOUBENCHA_TOOLBOX to a directory on a larger disk.",
    ),
    Failure(
        r"name resolution|getaddrinfo|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ProxyError|timed out"
        r"|Failed to establish a new connection|NewConnectionError|CERTIFICATE_VERIFY_FAILED"
        r"|SELF_SIGNED_CERT|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)|CERT_HAS_EXPIRED|ERR_SOCKET_TIMEOUT|network timeout",
        "TOOLBOX_NETWORK",
        "The package registry cannot be reached. Check the network, the proxy, and your pip or npm configuration.",
    ),
    Failure(
        r"npm (error|ERR!) code EBADENGINE",
        "NODE_TOO_OLD",
        "Install a newer Node.js.",
    ),
    Failure(
        r"No matching distribution|ETARGET|E404|No match(ing version)? found",
        VERSION_NOT_FOUND,
        "Check the version number; without one, the newest is installed.",
    ),
)
_UNKNOWN = Failure("", "TOOLBOX_INSTALL_FAILED", "Run the same with pip or npm by hand to see all that it says.")

_ERROR_LINE = re.compile(r"^(?:ERROR:|npm (?:error|ERR!))\s*(?:notarget |404 )?(.*\S)", re.MULTILINE)
_NOISE = re.compile(r"code [A-Z0-9_]+$|errno |syscall |A complete log|Ignored the following")
_LONGEST = 300
_TAIL = 4_000


def explain(tool: str, package: str, output: str) -> YouBenchaError:
    """The error for a package manager that failed with this output."""
    failure = next((row for row in FAILURES if re.search(row.pattern, output, re.DOTALL)), _UNKNOWN)
    return YouBenchaError(
        failure.code,
        f"{tool} could not fetch {package}: {_reason(tool, output)}",
        hint=failure.hint,
        context={"package": package, "output": output[-_TAIL:]},
    )


def _reason(tool: str, output: str) -> str:
    """The one line that says it. npm names the cause first, pip last."""
    lines = [line for line in _ERROR_LINE.findall(output) if not _NOISE.match(line)]
    lines = lines or [line.strip() for line in output.splitlines() if line.strip()][-1:] or ["no output"]
    return (lines[0] if tool == "npm" else lines[-1])[:_LONGEST]
