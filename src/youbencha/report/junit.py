"""Render JUnit XML for CI systems: the agent and each evaluator are one test case.

There is no single standard. This uses only what all accept: correct counts, times in seconds, at most one of failure,
error and skipped in a test case, and no attribute that the stricter schemas do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from youbencha.report.findings import explanation
from youbencha.store.arena import arena_run_started_at
from youbencha.store.bundle import AgentRun, EvaluationResult, ResultsBundle
from youbencha.text import one_line, visible

Result = Literal["passed", "failure", "error", "skipped"]
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MAX_DETAIL = 20_000


@dataclass(frozen=True)
class JunitCase:
    name: str
    duration_ms: int
    result: Result = "passed"
    kind: str = ""
    message: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class JunitSuite:
    name: str
    started_at: str | None
    """None if unknown; the timestamp is then omitted."""
    duration_ms: int
    properties: Sequence[tuple[str, str]]
    cases: Sequence[JunitCase]


def render_junit(bundle: ResultsBundle) -> str:
    suite = JunitSuite(
        name=f"youbencha.{bundle.test_case.name}",
        started_at=bundle.execution.started_at,
        duration_ms=bundle.execution.duration_ms,
        properties=list(_properties(bundle).items()),
        cases=_cases(bundle),
    )
    return junit_xml([suite])


def suite_start_time(times: Iterable[str | None], runs: Iterable[str]) -> str | None:
    """Return the earliest of the times; if none is known, the earliest one in the names of the runs of the arena."""
    known = [time for time in times if time]
    known = known or [started.isoformat() for name in runs if (started := arena_run_started_at(name))]
    return min(known, default=None)


def junit_xml(suites: Sequence[JunitSuite]) -> str:
    whole = _counts([case for suite in suites for case in suite.cases])
    whole["time"] = _seconds(sum(suite.duration_ms for suite in suites))
    root = ElementTree.Element("testsuites", {"name": "youbencha", **whole})
    del root.attrib["skipped"]  # Jenkins' schema allows it only below
    for suite in suites:
        counts = _counts(suite.cases) | {"time": _seconds(suite.duration_ms)}
        element = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite.name), **counts})
        if suite.started_at is not None:
            element.set("timestamp", suite.started_at[:19])  # strict schemas allow no fractions and no zone
        properties = ElementTree.SubElement(element, "properties")
        for name, value in suite.properties:
            ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})
        for case in suite.cases:
            _add(element, case, class_name=suite.name)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _cases(bundle: ResultsBundle) -> list[JunitCase]:
    cases = [_agent(bundle, bundle.agent)] if bundle.agent is not None else []
    cases += map(_evaluator, bundle.evaluators)
    execution, verdict = bundle.execution, bundle.summary.overall_status
    any_failed = any(case.result in ("failure", "error") for case in cases)
    if execution.interrupted or not execution.complete:
        state = "interrupted" if execution.interrupted else "incomplete"
        cases.append(JunitCase("run", 0, "error", state, f"The run is {state}: these are its results up to then."))
    elif verdict != "passed" and not any_failed:  # CI must not show as passed what `yb run` does not
        reason = bundle.outcome.reason if bundle.outcome else f"The verdict is {verdict}."
        cases.append(JunitCase("run", 0, "error", "verdict", reason))
    return cases


def _agent(bundle: ResultsBundle, agent: AgentRun) -> JunitCase:
    name, spent = f"agent {agent.type}", agent.duration_ms or 0
    detail = "\n".join(f"{error.code or 'error'}: {error.message}" for error in agent.errors)
    if bundle.outcome is not None and not bundle.outcome.valid:
        return JunitCase(name, spent, "error", bundle.outcome.name, bundle.outcome.reason, detail)
    if agent.status is None:
        return JunitCase(name, spent, "skipped", message="The agent was not run to completion.")
    if agent.status == "success":
        return JunitCase(name, spent)
    return JunitCase(name, spent, "failure", agent.status, f"The agent ended with {agent.status}.", detail)


def _evaluator(result: EvaluationResult) -> JunitCase:
    name, spent, error = result.evaluator, result.duration_ms, result.error
    said = (error.message, error.hint, error.stack_trace) if error else (result.message,)
    reasons, output = explanation(result, most=200)
    detail = "\n".join(filter(None, (*said, *reasons, *output)))
    if result.status == "passed":
        return JunitCase(name, spent)
    if result.advisory:
        return JunitCase(name, spent, "skipped", message=f"Advisory: {result.message}")
    if result.status == "failed":
        return JunitCase(name, spent, "failure", "assertion", result.message, detail)
    if error is None:
        return JunitCase(name, spent, "skipped", message=result.message)
    return JunitCase(name, spent, "error", error.code or "evaluator", result.message, detail)


def _properties(bundle: ResultsBundle) -> dict[str, str]:
    """Properties of the suite, with unformatted numbers; unknown values are left out."""
    agent, outcome = bundle.agent, bundle.outcome
    usage = agent.usage if agent else None
    values: dict[str, object] = {
        "overall_status": bundle.summary.overall_status,
        "outcome": outcome.name if outcome else None,
        "valid": str(outcome.valid).lower() if outcome else None,
        "run_id": bundle.identity.run_id,
        "youbencha_version": bundle.execution.youbencha_version,
        "repo": bundle.test_case.repo,
        "commit": bundle.test_case.commit,
        "agent": agent.type if agent else None,
        "agent_version": agent.version if agent else None,
        "model": agent.model if agent else None,
        "turns": agent.turns if agent else None,
        "tool_calls": agent.tool_calls if agent else None,
        **(usage.model_dump(exclude={"total_tokens", "partial"}) if usage else {}),
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _add(suite: Element, case: JunitCase, *, class_name: str) -> None:
    attributes = {"classname": _clean(class_name), "name": _clean(case.name), "time": _seconds(case.duration_ms)}
    element = SubElement(suite, "testcase", attributes)
    if case.result == "passed":
        return
    result = SubElement(element, case.result, {"message": _clean(one_line(case.message, 500))})
    if case.result != "skipped":
        result.set("type", _clean(case.kind))
        result.text = _clean(visible(case.detail or case.message)[:_MAX_DETAIL])


def _counts(cases: Sequence[JunitCase]) -> dict[str, str]:
    results = [case.result for case in cases]
    named = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": str(len(cases)), **{key: str(results.count(result)) for key, result in named.items()}}  # type: ignore[arg-type]


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"


def _clean(text: str) -> str:
    return _NOT_XML.sub("", visible(text))
