"""What is not wrong in a test case, but probably not meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from youbencha.errors import Problem
from youbencha.spec import EvalConfig, Loaded, TestCase

_SHORT_PROMPT = 20


def advice_on(loaded: Loaded[TestCase] | Loaded[EvalConfig], *, thorough: bool = False) -> list[Problem]:
    """Everything worth a warning. `thorough` adds what is often meant as it is."""
    return [*_usual(loaded), *(_thorough(loaded) if thorough else ())]


def missing_here(loaded: Loaded[TestCase] | Loaded[EvalConfig]) -> Iterator[Problem]:
    """A repository on this machine that is not there: no fault of the file, which may be meant for another machine."""
    from youbencha.workspace.source import RemotePlace, read_source

    if isinstance(loaded.case, TestCase):
        place = read_source(loaded.case.repo, loaded.directory)
        if not isinstance(place, RemotePlace) and not place.is_dir():
            yield loaded.source.problem(("repo",), f"there is no directory {place}", "a run needs it")


def _usual(loaded: Loaded[TestCase] | Loaded[EvalConfig]) -> Iterator[Problem]:
    if loaded.case.name is None:
        yield Problem("name", f"is not given; the file's name is used: {loaded.name}", file=loaded.file)
    counts = Counter(evaluator.name for evaluator in loaded.evaluators)
    for evaluator in loaded.evaluators:
        name, times = evaluator.name, counts[evaluator.name]
        if times > 1:
            hint = f"{name}-ONE and {name}-TWO tell them apart" if _has_variants(name) else None
            yield evaluator.problem(f"{name} is there {times} times", hint, key=("name",))
        if name == "expected-diff" and not _has_reference(loaded.case):
            needed = "expected_directory" if isinstance(loaded.case, EvalConfig) else "expected"
            message = "expected-diff has no reference and will be skipped"
            yield evaluator.problem(message, f"add `{needed}`", key=("name",))


def _thorough(loaded: Loaded[TestCase] | Loaded[EvalConfig]) -> Iterator[Problem]:
    yield from loaded.unknown_variables
    if not loaded.case.description:
        yield Problem("description", "is not given: whoever reads the report will miss it", file=loaded.file)
    prompt = loaded.case.agent.config.get("prompt") if isinstance(loaded.case, TestCase) else None
    if isinstance(prompt, str) and len(prompt.strip()) < _SHORT_PROMPT:
        message = f"is very short ({len(prompt.strip())} characters)"
        yield loaded.source.problem(("agent", "config", "prompt"), message, "agents do better with the whole task")


def _has_variants(name: str) -> bool:
    return name in ("agentic-judge", "command")


def _has_reference(case: TestCase | EvalConfig) -> bool:
    return (case.expected_directory if isinstance(case, EvalConfig) else case.expected) is not None
