"""Invocation: one run of a CLI agent, with its inputs and directories."""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from youbencha.adapters.base import AgentExecutionContext
from youbencha.adapters.cli_agent.config import AgentConfig
from youbencha.adapters.cli_agent.kind import AgentKind
from youbencha.adapters.cli_agent.locate import AgentCli
from youbencha.errors import Problem, YouBenchaError
from youbencha.process import Command
from youbencha.text import iso_time

C = TypeVar("C", bound=AgentConfig)


class Invocation(NamedTuple, Generic[C]):
    """One run of a CLI. Paths are the host's."""

    context: AgentExecutionContext
    config: C
    """With the model of the test case, if it names one."""
    cli: AgentCli
    prompt: str
    scratch: Path
    """An empty directory outside the workspace, for files of this run such as the prompt; removed afterwards."""
    env: Mapping[str, str]
    """The agent's environment. Behind a gateway, it does not have all of `context.env`."""
    ends_at: float | None = None
    """The deadline, by the monotonic clock; None: the whole timeout is left."""

    @property
    def time_left_s(self) -> float | None:
        return self.context.timeout_s if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    @property
    def workspace(self) -> Path:
        return self.context.workspace_dir.absolute()

    @property
    def config_dir(self) -> Path | None:
        """The directory of the file that the configuration comes from."""
        return self.context.config_dir.absolute() if self.context.config_dir else None

    def inside(self, path: Path) -> str:
        """The agent's path of a file of the host, for its arguments, its environment and its settings."""
        return self.context.sandbox.inside(path)

    def outside(self, path: Path | None) -> Path | None:
        """The host's path for a path of the agent; None if the host does not have it."""
        return None if path is None else self.context.sandbox.outside(str(path))

    def session_id(self, choosing_flags: Collection[str]) -> str | None:
        """A unique id for the session; None if the user chooses one by a flag."""
        if any(argument.partition("=")[0] in choosing_flags for argument in self.config.extra_args):
            return None
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.scratch.as_uri()))


def check_context(kind: AgentKind, context: AgentExecutionContext) -> None:
    """Raise one ConfigError with every problem that makes the context unusable."""
    if problems := [*_timeout(context.timeout), *_environment(context), *_workspace(context)]:
        raise kind.invalid_config(problems)


def _timeout(timeout: object) -> Iterator[Problem]:
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        yield Problem("timeout", "must be a whole number of milliseconds", "0 means none")
    elif timeout < 0:
        yield Problem("timeout", "must be at least 0", "0 means none")


def _environment(context: AgentExecutionContext) -> Iterator[Problem]:
    for name, value in context.env.items():
        where = ("env", name)
        if not isinstance(name, str) or not name or set(name) & {"=", "\0"}:
            yield Problem(where, "is not a valid name of an environment variable")
        elif not isinstance(value, str):
            yield Problem(where, "must be text", "put it in quotes")
        elif "\0" in value:
            yield Problem(where, "contains a NUL character, which an environment cannot hold")


def _workspace(context: AgentExecutionContext) -> Iterator[Problem]:
    if not context.workspace_dir.is_dir():
        yield Problem("workspace_dir", f"there is no directory {context.workspace_dir}")


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """Create a directory for the files of one run that are not in the workspace.

    In `parent`, which is removed even after a kill; else in the system's temporary directory.
    """
    path = Path(tempfile.mkdtemp(prefix="youbencha-", dir=parent)).absolute()
    with removed_afterwards(path):
        yield path


@contextlib.contextmanager
def removed_afterwards(path: Path) -> Iterator[None]:
    """Remove the directory at the end, whatever the agent left there.

    Python's own TemporaryDirectory would follow links (3.11.7).
    """
    try:
        yield
    finally:
        from youbencha.workspace.trees import remove_tree

        with contextlib.suppress(YouBenchaError):
            remove_tree(path)


def in_terminal(config: AgentConfig, command: Command) -> Command:
    """The command in a terminal, if that is configured: a dumb one, so that there are few escape sequences."""
    return command._replace(terminal=True, env={"TERM": "dumb", **command.env}) if config.pty == "always" else command


def new_log_file(artifacts: Path, logs: str) -> Path:
    """A new `<logs>/terminal-output-<time>.log`. Windows allows no colons in names."""
    stamp = iso_time(time.time()).replace(":", "-").replace(".", "-")
    directory = artifacts / logs
    names = (f"terminal-output-{stamp}{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())
