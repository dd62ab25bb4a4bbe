"""Why a program in a container did not start or did not end as it should, in words that help."""

from __future__ import annotations

from typing import Any

from youbencha.errors import YouBenchaError
from youbencha.process import Command
from youbencha.process.errors import start_error
from youbencha.sandbox.docker.channel import StartFailure

_OF_THE_PROGRAM = {"exec", "cwd"}
_LIBRARIES = {"ld-linux": "glibc", "ld-musl": "musl"}
"""The dynamic linkers of C libraries."""
_WITH = {"glibc": "Debian, Ubuntu or Fedora", "musl": "Alpine"}
_HINTS = {
    "alone": (
        "SANDBOX_NOT_ISOLATED",
        "The container is not cut off from the network: {text}",
        "This engine gives containers a network that they did not ask for. "
        "If that is acceptable, say so: `sandbox: {{type: docker, network: open}}`.",
    ),
    "gateway": (
        "SANDBOX_GATEWAY_SILENT",
        "The gateway does not answer from inside the container: {text}",
        "The harness's gateway must listen before an agent starts. Run again with --debug to see more.",
    ),
    "relay": (
        "SANDBOX_PORT_TAKEN",
        "A port of the container's own loopback could not be opened: {text}",
        "Another program in the image seems to use it.",
    ),
}


def explain(failure: StartFailure, command: Command) -> YouBenchaError:
    """The error for a step of the first program that failed."""
    if failure.step == "loader":
        reason, hint = without_loader(command.argv[0], failure.text)
        return start_error(command, reason, failure.number, hint=hint)
    if failure.step in _OF_THE_PROGRAM:
        return start_error(command, failure.text, failure.number)
    code, message, hint = _HINTS.get(
        failure.step,
        ("SANDBOX_FAILED", f"The container could not be set up ({failure.step}): {{text}}", "Please report this."),
    )
    return YouBenchaError(code, message.format(text=failure.text), hint=hint.format())


def without_loader(program: str, loader: str) -> tuple[str, str]:
    """The program is there, but not what has to load it. Which that is, its name tells."""
    for words, library in _LIBRARIES.items():
        if words in loader:
            return (
                f"the image has no {library} (the loader {loader} of {program} is not in it)",
                f"Use an image with {library}, such as one that is made from {_WITH[library]}.",
            )
    return (
        f"its interpreter {loader} is not in the image",
        f"Use an image that has {loader}, or change the program's first line.",
    )


def died_at_once(state: dict[str, Any] | None) -> YouBenchaError:
    """The container ended before its first program called. `state`: what the engine says of it, if it still does."""
    told = state or {}
    reason = told.get("Error") or f"exit code {told.get('ExitCode', 'unknown')}"
    return YouBenchaError(
        "SANDBOX_FAILED",
        f"The container ended before anything could be started in it: {reason}",
        hint="The image must be for this computer's architecture. More memory may help: `sandbox: {memory: 1g}`.",
    )


def in_words(size: int) -> str:
    for unit, bytes_ in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2)):
        if size >= bytes_:
            return f"{size / bytes_:.4g} {unit}"
    return f"{size} bytes"
