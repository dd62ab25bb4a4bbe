"""Hooks in their order: before the agent one after the other, after the evaluation all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from youbencha.hooks.places import PostHookPlaces, PreHookPlaces
from youbencha.hooks.result import Done, Stopwatch
from youbencha.hooks.scope import Scope
from youbencha.hooks.script import ScriptPlace, run_script
from youbencha.hooks.webhook_policy import RetryPolicy
from youbencha.log import HookResult, ResultsBundle
from youbencha.process import Redactor
from youbencha.spec import DatabaseHook, PostHook, ScriptHook

OnNote = Callable[[str], None]
"""Told in a few words what is going on, for whoever is watching."""


async def run_pre_execution(
    hooks: Sequence[ScriptHook], where: PreHookPlaces, *, env: Mapping[str, str], on_note: OnNote | None = None
) -> tuple[HookResult, ...]:
    """One after the other, until one fails: then that one is the last, and the agent must not be started."""
    results: list[HookResult] = []
    for number, hook in enumerate(hooks, 1):
        _note(on_note, f"before the agent, script {number} of {len(hooks)}")
        scope = Scope.of(where.variables(), env, where.config_dir, env=hook.config.env)
        place = ScriptPlace(where.working_dir, where.artifacts_dir, f"pre-{number}-script.log")
        result = await _told("script", run_script(hook.config, scope, place), env)
        results.append(result)
        if result.status == "failed":
            _note(on_note, f"before the agent, script {number} of {len(hooks)}: {result.message}")
            break
    return tuple(results)


async def run_post_evaluation(
    hooks: Sequence[PostHook],
    bundle: ResultsBundle,
    where: PostHookPlaces,
    *,
    env: Mapping[str, str],
    on_note: OnNote | None = None,
    retries: RetryPolicy | None = None,
) -> tuple[HookResult, ...]:
    """All at once; the results are in the order in which the hooks were written. Never raises for a hook's failure."""

    async def one(number: int, hook: PostHook) -> HookResult:
        work = _post_hook(number, hook, bundle, where, env, retries or RetryPolicy())
        result = await _told(hook.name, work, env)
        _note(on_note, f"after the evaluation, {hook.name} {number} of {len(hooks)}: {result.message}")
        return result

    return tuple(await asyncio.gather(*(one(number, hook) for number, hook in enumerate(hooks, 1))))


async def _post_hook(
    number: int,
    hook: PostHook,
    bundle: ResultsBundle,
    where: PostHookPlaces,
    env: Mapping[str, str],
    retries: RetryPolicy,
) -> Done:
    own = where.variables(bundle)
    if isinstance(hook, ScriptHook):
        scope = Scope.of(own, env, where.config_dir, env=hook.config.env)
        place = ScriptPlace(where.working_dir, where.artifacts_dir, f"post-{number}-script.log")
        return await run_script(hook.config, scope, place)
    scope = Scope.of(own, env, where.config_dir)
    if isinstance(hook, DatabaseHook):
        from youbencha.hooks.database import export

        return await export(hook.config, scope, bundle)
    from youbencha.hooks.webhook import send

    return await send(hook.config, scope, bundle, where.artifacts_dir, retries)


async def _told(name: str, work: Awaitable[Done], env: Mapping[str, str]) -> HookResult:
    """Whatever goes wrong in a hook is its result."""
    stopwatch = Stopwatch(name)
    try:
        return stopwatch.success(await work)
    except Exception as error:  # noqa: BLE001 - a fault in one hook must cost neither the run nor the others
        return stopwatch.failure(error, Redactor.for_env(env))


def _note(on_note: OnNote | None, text: str) -> None:
    if on_note:
        on_note(text)
