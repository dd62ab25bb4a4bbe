"""Run and check hooks: before the agent one after the other, after the evaluation in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from youbencha.errors import Problem
from youbencha.hooks.context import HookContext, HookOutcome, result_of
from youbencha.hooks.script import NO_PROGRAM_HINT, is_file, is_path, is_shell_line, run_script
from youbencha.hooks.webhook import RetryPolicy
from youbencha.spec.testcase import DatabaseHook, PostHook, ScriptHook
from youbencha.store.bundle import HookResult, ResultsBundle


async def run_pre_execution(hooks: Sequence[ScriptHook], context: HookContext) -> tuple[HookResult, ...]:
    """Run hooks one after the other, until one fails. The agent must not be started if the last result is a failure."""
    results: list[HookResult] = []
    for number, hook in enumerate(hooks, 1):
        label = f"before the agent, script {number} of {len(hooks)}"
        context.on_note(label)
        work = run_script(hook.config, context.for_hook(hook.config.env), f"pre-{number}-script.log")
        result = await result_of("script", work, context.redactor)
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
        result = await result_of(hook.name, work, context.redactor)
        context.on_note(f"after the evaluation, {hook.name} {number} of {len(hooks)}: {result.message}")
        return result

    return tuple(await asyncio.gather(*(one(number, hook) for number, hook in enumerate(hooks, 1))))


async def _post_hook(
    number: int, hook: PostHook, bundle: ResultsBundle, context: HookContext, retries: RetryPolicy
) -> HookOutcome:
    if isinstance(hook, ScriptHook):
        return await run_script(hook.config, context.for_hook(hook.config.env), f"post-{number}-script.log")
    if isinstance(hook, DatabaseHook):
        from youbencha.hooks.database import export

        return await export(hook.config, context, bundle)
    from youbencha.hooks.webhook import send

    return await send(hook.config, context, bundle, retries)


def hook_problems(hooks: Sequence[Any], config_dir: Path) -> list[Problem]:
    """Return every problem that can be found before anything runs. Keys start at the list: `0.config.command`.

    Takes models or plain data; values of the wrong type are ignored, because the models report them. A `${NAME}` that
    the settings do not define is known only later.
    """
    found: list[Problem] = []
    for index, hook in enumerate(hooks):
        written = hook.model_dump(exclude_unset=True) if isinstance(hook, BaseModel) else hook
        name = written.get("name") if isinstance(written, Mapping) else None
        config = written.get("config") if isinstance(written, Mapping) else None
        if isinstance(name, str) and isinstance(config, Mapping) and name in _CHECKS:
            problems = _CHECKS[name](config, config_dir)
            found += [Problem((index, "config", *each.keys), each.message, each.hint) for each in problems]
    return found


def _script_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    command, starts = config.get("command"), (config_dir, Path.cwd())
    if not isinstance(command, str) or config.get("shell") or "${" in command or not is_path(command.strip()):
        return
    may_be_line = "shell" not in config and is_shell_line(command.strip(), starts)
    if not may_be_line and not any(is_file(start, command) for start in starts):
        yield Problem("command", f"there is no file {command.strip()}", NO_PROGRAM_HINT)


def _webhook_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    from youbencha.hooks.webhook import holds_credentials, may_become_an_address

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
