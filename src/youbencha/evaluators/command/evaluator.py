"""The command evaluator: a program runs on what the agent left behind, and its end is the verdict."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.base import EvaluationContext
from youbencha.evaluators.command.config import CommandConfig
from youbencha.evaluators.command.contradictions import contradictions
from youbencha.evaluators.command.copying import copy_tree
from youbencha.evaluators.command.environment import command_environment
from youbencha.evaluators.command.junit import junit_metrics, reports
from youbencha.evaluators.command.output import metrics_in, tail
from youbencha.evaluators.command.program import NotThere, arguments, arguments_inside, working_directory
from youbencha.evaluators.command.verdict import assertion_results, process_metrics, summary
from youbencha.evaluators.config import config_problems, read_config
from youbencha.evaluators.result import artifact, finished
from youbencha.evaluators.threads import in_thread
from youbencha.log import EvaluationResult
from youbencha.process import Command, Limits, ProcessResult, ProcessStartError, Redactor
from youbencha.sandbox.base import Sandbox
from youbencha.sandbox.here import HERE
from youbencha.workspace.removal import remove_tree


class CommandEvaluator:
    name = "command"
    description = "Runs a program on the result, such as its tests: exit code, timeout, JUnit and regex metrics."

    def check_config(
        self, config: Mapping[str, Any], config_dir: Path, *, agent_type: str | None = None
    ) -> Sequence[Problem]:
        return config_problems(CommandConfig, config, contradictions)

    async def evaluate(self, context: EvaluationContext) -> EvaluationResult:
        started = time.monotonic()
        config = read_config(CommandConfig, context.config, context.name, contradictions)
        redactor = Redactor.for_env(os.environ, command_environment({}, config.env, os.environ))
        log = _log_file(context.artifacts_dir)
        try:
            async with _own_tree(context, config) as tree, _place(context, config, tree) as sandbox:
                env = command_environment(sandbox.environment(os.environ), config.env, os.environ)
                if sandbox is HERE:
                    env.setdefault("YOUBENCHA_CONFIG_DIR", str(context.config_dir))
                metrics = await _measured(config, tree, sandbox, env, redactor, log)
        except NotThere as missing:
            return finished(context, started, "failed", redactor.text(f"{_called(config)} cannot run: {missing}."))
        results = assertion_results(config, metrics)
        failures = [result.message for result in results if not result.passed]
        return finished(
            context,
            started,
            "failed" if failures else "passed",
            redactor.text(_message(config, metrics, failures)),
            metrics=metrics,
            assertions=results,
            artifacts=[artifact(context, "log", log, "What the command printed")] if log.is_file() else [],
        )


@asynccontextmanager
async def _own_tree(context: EvaluationContext, config: CommandConfig) -> AsyncIterator[Path]:
    """A copy, which is gone afterwards. In `yb eval` always: the directory may be where somebody works."""
    in_somebodys_tree = context.log is None
    if not config.in_copy and not in_somebodys_tree:
        yield context.directory
        return
    place = Path(mkdtemp(prefix="command-", dir=context.scratch_dir))
    try:
        copy = place / "tree"
        await in_thread(lambda wanted: copy_tree(context.directory, copy, wanted, context.left_out))
        yield copy
    finally:
        with suppress(YouBenchaError):  # what a container of another user wrote, say: it is no part of the verdict
            await in_thread(lambda _: remove_tree(place))


@asynccontextmanager
async def _place(context: EvaluationContext, config: CommandConfig, tree: Path) -> AsyncIterator[Sandbox]:
    if context.open_sandbox is None or not config.sandbox:
        yield HERE
        return
    async with context.open_sandbox(tree) as place:
        yield place.sandbox


async def _measured(
    config: CommandConfig, tree: Path, sandbox: Sandbox, env: Mapping[str, str], redactor: Redactor, log: Path
) -> dict[str, Any]:
    before = await in_thread(lambda _: reports(tree, config.junit)) if config.junit else {}
    result = await _run(config, tree, sandbox, env, redactor, log)
    metrics = {**process_metrics(result, tail(result.output)), **metrics_in(result.output, config.metrics)}
    if config.junit:
        metrics |= await in_thread(lambda _: junit_metrics(tree, config.junit, before))
    return metrics


async def _run(
    config: CommandConfig, tree: Path, sandbox: Sandbox, env: Mapping[str, str], redactor: Redactor, log: Path
) -> ProcessResult:
    directory = working_directory(config, tree)
    argv = arguments(config, directory, env) if sandbox is HERE else arguments_inside(config, directory, sandbox)
    try:
        return await sandbox.run(
            Command(argv=argv, cwd=directory, env=env),
            limits=Limits(timeout_s=config.timeout / 1000),
            redactor=redactor,
            log_file=log,
        )
    except ProcessStartError as error:
        if Path(argv[0]).is_relative_to(tree.resolve()):
            raise NotThere(error.message) from error
        raise YouBenchaError("COMMAND_NOT_STARTED", error.message, hint=error.hint, context=error.context) from error


def _message(config: CommandConfig, metrics: Mapping[str, Any], failures: Sequence[str]) -> str:
    happened = f"{_called(config)} {summary(metrics)}"
    return f"{happened}; but {'; '.join(failures)}." if failures else f"{happened}."


def _called(config: CommandConfig) -> str:
    """The person's name for it, or the beginning of the command."""
    if config.label:
        return config.label
    line = config.command if isinstance(config.command, str) else " ".join(config.command)
    first = line.strip().splitlines()[0]
    return f"`{first[:80]}{'…' if len(first) > 80 or first != line.strip() else ''}`"


def _log_file(directory: Path) -> Path:
    names = (f"output{'' if number == 1 else f'-{number}'}.log" for number in count(1))
    return next(path for path in map(directory.joinpath, names) if not path.exists())
