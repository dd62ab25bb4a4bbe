"""Check the options of adapters, evaluators and hooks, which the models cannot, and warn about unusual ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from youbencha.adapters import get_adapter
from youbencha.adapters.cli_agent.config import TOOLS_IGNORED
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators import get_evaluator
from youbencha.hooks.run import hook_problems
from youbencha.spec.agent_files import AgentFiles
from youbencha.spec.loader import CaseParts, LoadedCase, LocatedEvaluator
from youbencha.spec.testcase import EvalConfig, TestCase
from youbencha.trial.agent_files import files_problems

_AGENT_KEYS = ("agent_name", "version")
"""Keys next to `config` that the adapter gets as part of its configuration."""

MIN_PROMPT_CHARS = 20


def check_parts(parts: CaseParts, env: Mapping[str, str] | None = None) -> list[Problem]:
    """Every problem of the agent's and the evaluators' own options.

    `env` is the environment that youBencha runs in; without it, references to its variables are not checked.
    """
    problems = [] if parts.agent is None else _agent_problems(parts, parts.agent)
    kind = parts.agent.get("type") if parts.agent else None
    for evaluator in parts.evaluators:
        problems += evaluator_problems(evaluator, kind if isinstance(kind, str) else None, env)
    return [*problems, *_missing_reference(parts), *_hook_problems(parts)]


def adapter_config(agent: Mapping[str, Any]) -> dict[str, Any]:
    """The adapter's configuration: `config`, and the adapter's keys next to it."""
    config = agent.get("config")
    outside = {name: agent[name] for name in _AGENT_KEYS if agent.get(name) is not None}
    return {**(config if isinstance(config, Mapping) else {}), **outside}


def _agent_problems(parts: CaseParts, agent: Mapping[str, Any]) -> list[Problem]:
    kind = agent.get("type")
    if not isinstance(kind, str):
        return []  # the model reports this
    try:
        adapter = get_adapter(kind.strip())
    except YouBenchaError as error:
        return [parts.document.problem(("agent", "type"), error.message, error.hint)]
    problems = list(_conflicts(parts, agent))
    config_problems = adapter.check_config(adapter_config(agent), parts.directory)
    problems += [_in_agent(parts, agent, problem) for problem in config_problems]
    if AgentFiles.model_fields.keys() & agent.keys():
        for problem in files_problems(agent, adapter, parts.directory):
            problems.append(parts.document.problem(("agent", *problem.keys), problem.message, problem.hint))
    return problems


def _conflicts(parts: CaseParts, agent: Mapping[str, Any]) -> Iterator[Problem]:
    config = agent.get("config")
    for name in (*_AGENT_KEYS, "model"):
        if isinstance(config, Mapping) and agent.get(name) is not None and config.get(name) not in (None, agent[name]):
            message = f"conflicts with agent.{name}"
            yield parts.document.problem(("agent", "config", name), message, "remove one of the two", at_key=True)


def _in_agent(parts: CaseParts, agent: Mapping[str, Any], problem: Problem) -> Problem:
    keys = problem.keys
    is_outside = bool(keys) and keys[0] in _AGENT_KEYS and agent.get(str(keys[0])) is not None
    path = ("agent", *keys) if is_outside else ("agent", "config", *keys)
    return parts.document.problem(path, problem.message, problem.hint, kind=problem.kind)


def evaluator_problems(
    evaluator: LocatedEvaluator, agent_type: str | None, env: Mapping[str, str] | None
) -> Sequence[Problem]:
    """Every problem of an evaluator's options. Without `env`, references to its variables are not checked."""
    try:
        instance = get_evaluator(evaluator.name)
        problems = list(instance.check_config(evaluator.config, evaluator.config_dir, agent_type=agent_type))
        if env is not None:
            problems += instance.check_environment(evaluator.config, env)
        return [
            evaluator.problem(problem.message, problem.hint, key=("config", *problem.keys), kind=problem.kind)
            for problem in problems
        ]
    except YouBenchaError as error:
        return [evaluator.problem(error.message, error.hint, key=("name",))]
    except (Exception, SystemExit) as error:  # noqa: BLE001 (the package of an evaluator may contain anything)
        message = f"{evaluator.name} cannot check its options: {type(error).__name__}: {error}"
        return [evaluator.problem(message, "contact the author of the package", key=("name",))]


def _missing_reference(parts: CaseParts) -> Iterator[Problem]:
    data = parts.document.data if isinstance(parts.document.data, Mapping) else {}
    needed = "expected_directory" if "directory" in data else "expected"
    for evaluator in parts.evaluators if not data.get(needed) else ():
        with suppress(YouBenchaError):  # it cannot be loaded, which is reported already
            if get_evaluator(evaluator.name).needs_expected:
                yield evaluator.problem(
                    f"{evaluator.name} has nothing to compare with", f"add `{needed}`", key=("name",)
                )


def _hook_problems(parts: CaseParts) -> Iterator[Problem]:
    """Yield problems of the hooks after the evaluation. The programs of the others may be in the repository."""
    data = parts.document.data
    hooks = data.get("post_evaluation") if isinstance(data, Mapping) else None
    for problem in hook_problems(hooks, parts.directory) if isinstance(hooks, list) else ():
        yield parts.document.problem(("post_evaluation", *problem.keys), problem.message, problem.hint)


def lint_case(loaded: LoadedCase[TestCase] | LoadedCase[EvalConfig], *, strict: bool = False) -> list[Problem]:
    """Warnings about a valid configuration. `strict` adds warnings about what may be intended."""
    return [*_lint(loaded), *(_lint_strictly(loaded) if strict else ())]


def _lint(loaded: LoadedCase[TestCase] | LoadedCase[EvalConfig]) -> Iterator[Problem]:
    if loaded.case.name is None:
        yield Problem("name", f"is missing; the file's name is used: {loaded.name}", file=loaded.file)
    if isinstance(loaded.case, TestCase) and loaded.case.agent.config.get("tools"):
        yield loaded.document.problem(("agent", "config", "tools"), *TOOLS_IGNORED, at_key=True)
    counts = Counter(evaluator.name for evaluator in loaded.evaluators)
    for evaluator in loaded.evaluators:
        name, times = evaluator.name, counts[evaluator.name]
        if times > 1:
            hint = f"call them {name}-ONE and {name}-TWO" if get_evaluator(name).takes_label else None
            yield evaluator.problem(f"{name} is listed {times} times", hint, key=("name",))


def _lint_strictly(loaded: LoadedCase[TestCase] | LoadedCase[EvalConfig]) -> Iterator[Problem]:
    yield from loaded.unknown_variables
    if not loaded.case.description:
        yield Problem("description", "is missing; the report will have no description", file=loaded.file)
    prompt = loaded.case.agent.config.get("prompt") if isinstance(loaded.case, TestCase) else None
    if isinstance(prompt, str) and len(prompt.strip()) < MIN_PROMPT_CHARS:
        message = f"is very short ({len(prompt.strip())} characters)"
        yield loaded.document.problem(("agent", "config", "prompt"), message, "describe the whole task")
