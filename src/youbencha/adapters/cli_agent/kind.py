"""Describe a kind of agent: its names, its error codes, and its error records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.adapters.base import FilePlaces
from youbencha.adapters.cli_agent import codes
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.log.model import ErrorRecord
from youbencha.process import OUTPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from youbencha.adapters.cli_agent.versions import SupportedVersions


class AgentKind(NamedTuple):
    name: str
    """As in `agent.type`: `copilot-cli`."""
    title: str
    """For messages: `Copilot CLI`."""
    prefix: str
    """Of its error codes: `COPILOT`."""
    command: str
    """The program's name on PATH."""
    logs: str
    """The directory of its terminal output in the artifacts."""
    provider: str = "unknown"
    """The provider of its models, if that is always the same."""
    how_to_authenticate: str = "Log in as its documentation says, or set its API key in agent.env."
    hints: Mapping[str, str] = MappingProxyType({})
    """Hints for errors and warnings of this agent that replace the common ones, by code."""

    versions: SupportedVersions | None = None
    """None: any version will do."""
    places: FilePlaces = FilePlaces()
    """Where it reads instructions, skills and plugins."""

    def code(self, suffix: str) -> str:
        return f"{self.prefix}_{suffix}"

    def hint(self, suffix: str, otherwise: str) -> str:
        return self.hints.get(suffix, otherwise)

    def error(self, suffix: str, message: str, hint: str | None = None) -> YouBenchaError:
        return YouBenchaError(self.code(suffix), message, hint=hint)

    def auth_failed(self, reason: str) -> YouBenchaError:
        message = f"{self.title} has no valid authentication: {reason}"
        return self.error(codes.AUTH_FAILED, message, self.how_to_authenticate)

    def is_too_old(self, version: str) -> bool:
        return self.versions is not None and self.versions.is_too_old(version)

    def too_old(self, version: str, where: str = "") -> YouBenchaError:
        """The error for a version that is too old. `where` says which one is meant, if that is not clear."""
        assert self.versions is not None
        message = f"{self.title} {version}{where} is too old: youBencha works with {self.versions.oldest} and later."
        return self.error(codes.VERSION_TOO_OLD, message, f"Install a newer one: `yb agents install {self.name}`.")

    def no_gateway(self) -> YouBenchaError:
        message = f"{self.title} cannot reach its model through a gateway."
        return self.error(codes.NO_GATEWAY, message, "Write `gateway: none`, and give the agent its own key.")

    def invalid_config(self, problems: Sequence[Problem]) -> ConfigError:
        return ConfigError(self.code(codes.INVALID_CONFIG), f"The {self.title} configuration", problems)

    def one_problem(self, path: str, message: str, hint: str | None = None) -> ConfigError:
        return self.invalid_config([Problem(path, message, hint)])


def error_record(code: str, message: str, at: str, hint: str | None = None, **context: Any) -> ErrorRecord:
    return ErrorRecord(code=code, message=message, timestamp=at, hint=hint, context=context or None)


def truncated(kind: AgentKind, at: str) -> ErrorRecord:
    return error_record(
        kind.code(codes.OUTPUT_TRUNCATED),
        f"The output was truncated: only its first 10MB ({OUTPUT_LIMIT_BYTES} bytes) were kept.",
        at,
        "The run itself was not affected. Tokens, cost, result, messages and tool calls were read from the whole "
        "stream; the log holds up to 10 MiB of their text. Of plain text, it also holds the last lines.",
        limit_bytes=OUTPUT_LIMIT_BYTES,
    )


def malformed(kind: AgentKind, count: int, example: str | None, at: str) -> ErrorRecord:
    lines = "1 line of the output was" if count == 1 else f"{count} lines of the output were"
    return error_record(
        kind.code(codes.MALFORMED_LINE),
        f"{lines} not a stream-json event and left out.",
        at,
        "Usually a hook, a wrapper script or a debug setting that prints to stdout; the raw log has every line.",
        lines=count,
        example=example,
    )
