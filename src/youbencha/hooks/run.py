"""Run and check hooks: before the agent one after the other, after the evaluation in parallel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from youbencha.errors import Problem, YouBenchaError
from youbencha.hooks.context import HookContext, HookOutcome
from youbencha.hooks.database import export
from youbencha.hooks.script import NO_PROGRAM_HINT, is_file, is_path, is_shell_line, run_script
from youbencha.hooks.webhook import RetryPolicy, holds_credentials, may_become_an_address, send
from youbencha.process import Redactor
from youbencha.spec.testcase import DatabaseHook, PostHook, ScriptHook
from youbencha.store.bundle import EvaluationError, HookResult, ResultsBundle
from youbencha.text import iso_time


async def run_pre_execution(hooks: Sequence[ScriptHook], context: HookContext) -> tuple[HookResult, ...]:
    """Run hooks one after the other, until one fails. The agent must not be started if the last result is a failure."""
    results: list[HookResult] = []
    for number, hook in enumerate(hooks, 1):
        label = f"before the agent, script {number} of {len(hooks)}"
        context.on_note(label)
        work = run_script(hook.config, context.for_hook(hook.config.env), f"pre-{number}-script.log")
        result = await _report("script", work, context.redactor)
        results.append(result)
        if result.status == "failed":
            context.on_note(f"{label}: {result.message}")
            break
    return tuple(results)


async def run_post_evaluation(
    hooks: Sequence[PostHook], bundle: ResultsBundle, context: HookContext, *, retries: RetryPolicy | None = None
) -> tuple[HookResult, ...]:
    """Run hooks in parallel, and return the results in their order. Does not raise if a hook fails."""

    async def one(number: int, hook: PostHook) -> HookResult:
        work = _post_hook(number, hook, bundle, context, retries or RetryPolicy())
        result = await _report(hook.name, work, context.redactor)
        context.on_note(f"after the evaluation, {hook.name} {number} of {len(hooks)}: {result.message}")
        return result

    return tuple(await asyncio.gather(*(one(number, hook) for number, hook in enumerate(hooks, 1))))


async def _post_hook(
    number: int, hook: PostHook, bundle: ResultsBundle, context: HookContext, retries: RetryPolicy
) -> HookOutcome:
    if isinstance(hook, ScriptHook):
        return await run_script(hook.config, context.for_hook(hook.config.env), f"post-{number}-script.log")
    if isinstance(hook, DatabaseHook):
        return await export(hook.config, context, bundle)
    return await send(hook.config, context, bundle, retries)


async def _report(hook: str, work: Awaitable[HookOutcome], redactor: Redactor) -> HookResult:
    """Turn the outcome of a hook, or any exception, into its result."""
    at, started = time.time(), time.monotonic()
    try:
        outcome = await work
    except Exception as raised:  # noqa: BLE001 - a failure must affect neither the run nor the other hooks
        error = raised if isinstance(raised, YouBenchaError) else _unexpected(raised)
        outcome = HookOutcome(message=error.message, error=error.code, hint=error.hint)
    message = redactor.text(outcome.message) if outcome.error else outcome.message
    return HookResult(
        hook=hook,
        status="failed" if outcome.error else "success",
        message=message,
        duration_ms=round((time.monotonic() - started) * 1000),
        timestamp=iso_time(at),
        metadata=dict(outcome.metadata),
        error=EvaluationError(message=message, code=outcome.error, hint=outcome.hint) if outcome.error else None,
    )


def _unexpected(error: Exception) -> YouBenchaError:
    reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    return YouBenchaError("HOOK_FAILED", " ".join(f"{type(error).__name__}: {reason}".split()))


def hook_problems(hooks: Sequence[Any], config_dir: Path) -> list[Problem]:
    """Return every problem that can be found before anything runs. Keys start at the list: `0.config.command`.

    Takes models or plain data; values of the wrong type are ignored, because the models report them. A `${NAME}` that
    the settings do not define is known only later.
    """
    all_problems: list[Problem] = []
    for index, hook in enumerate(hooks):
        written = hook.model_dump(exclude_unset=True) if isinstance(hook, BaseModel) else hook
        name = written.get("name") if isinstance(written, Mapping) else None
        config = written.get("config") if isinstance(written, Mapping) else None
        if isinstance(name, str) and isinstance(config, Mapping) and name in _CHECKS:
            problems = _CHECKS[name](config, config_dir)
            all_problems += [Problem((index, "config", *item.keys), item.message, item.hint) for item in problems]
    return all_problems


def _script_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    command, starts = config.get("command"), (config_dir, Path.cwd())
    if not isinstance(command, str) or config.get("shell") or "${" in command or not is_path(command.strip()):
        return
    may_be_line = "shell" not in config and is_shell_line(command.strip(), starts)
    if not may_be_line and not any(is_file(start, command) for start in starts):
        yield Problem("command", f"there is no file {command.strip()}", NO_PROGRAM_HINT)


def _webhook_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    url, headers = config.get("url"), config.get("headers")
    if not isinstance(url, str):
        return
    if not may_become_an_address(url):
        yield Problem("url", "must be an http or https address, with a host")
    names = [name for name in headers if isinstance(name, str)] if isinstance(headers, Mapping) else []
    if holds_credentials(url):
        for name in names:
            if name.strip().lower() == "authorization":
                message = "must not be combined with a user and password in `url`"
                yield Problem(("headers", name), message)


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Path], Iterator[Problem]]] = {
    "script": _script_problems,
    "webhook": _webhook_problems,
}
