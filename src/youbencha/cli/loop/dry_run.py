"""Describe what a loop would do (`ralph run --dry-run`)."""

from __future__ import annotations

from collections.abc import Iterator

from youbencha.loop.backends import Backend
from youbencha.loop.plan import LoopPlan
from youbencha.text import duration, plural, usd


def describe(plan: LoopPlan) -> Iterator[tuple[str, str]]:
    """A label and a text for each decision."""
    spec, loop = plan.spec, plan.spec.event_loop
    yield "Directory", str(plan.directory)
    options = plan.options
    parts = [*([f"hats of {options.hats}"] if options.hats else []), *options.settings]
    yield "Configuration", ", ".join([str(plan.config_file or "none: the defaults"), *parts])
    yield "Prompt", f"{plan.prompt_file or 'given'} ({plural(len(plan.objective), 'character')})"
    yield "Backend", f"{_backend(plan.backend)}{', the first that is installed' if plan.detected else ''}"
    yield "Model calls", _gateway(plan.backend)
    yield "Sandbox", plan.sandbox.type
    yield "Limits", ", ".join(_limits(plan))
    yield "Done when", ", ".join(_completion(plan))
    for name, hat in spec.hats.items():
        own = f", {_backend(plan.hat_backends[name])}" if name in plan.hat_backends else ""
        yield f"Hat {name}", f"{', '.join(hat.triggers) or 'never'} → {', '.join(hat.publishes) or 'nothing'}{own}"
    if loop.escalation:
        steps = [_backend(each) if each else "a person" for each in plan.escalation]
        yield "Escalation", f"after {plural(loop.retry.attempts, 'failure')}: {', then '.join(steps)}"
    if plan.warnings:
        yield "Warnings", "; ".join(map(str, plan.warnings))


def _backend(backend: Backend) -> str:
    return f"{backend.title} ({backend.name}{f', {backend.model}' if backend.model else ''})"


def _gateway(backend: Backend) -> str:
    return "directly, with the agent's own login or key" if backend.gateway is None else "through the gateway"


def _limits(plan: LoopPlan) -> Iterator[str]:
    loop = plan.spec.event_loop
    yield plural(loop.max_iterations, "iteration")
    yield duration(loop.max_runtime_seconds * 1000)
    if loop.max_cost_usd is not None:
        yield usd(loop.max_cost_usd)
    yield plural(loop.max_consecutive_failures, "failure") + " in a row"


def _completion(plan: LoopPlan) -> Iterator[str]:
    loop = plan.spec.event_loop
    if not loop.complete_by_gates:
        yield f"the agent says {loop.completion_promise}"
    if loop.required_events:
        yield f"these events were published: {', '.join(loop.required_events)}"
    if plan.spec.gates:
        yield f"these gates pass: {', '.join(gate.name for gate in plan.spec.gates)}"
