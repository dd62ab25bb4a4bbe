"""What GitHub shows of a run: a summary on the workflow's page, and a mark for each evaluator that did not pass."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from youbencha.report.text import one_line, visible

if TYPE_CHECKING:
    from youbencha.log import EvaluationResult, ResultsBundle

_MOST_ANNOTATIONS = 10
"""GitHub shows no more of one step."""
_LONGEST_SUMMARY = 900_000
"""GitHub takes 1 MiB from a step, and drops all of it if it is more."""
_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def write_step_summary(bundle: ResultsBundle, env: Mapping[str, str] | None = None) -> bool:
    """Whether there is a summary now. A run does not fail because its summary cannot be shown."""
    target = (os.environ if env is None else env).get("GITHUB_STEP_SUMMARY")
    if not target:
        return False
    try:
        text = render_step_summary(bundle)
        if len(text.encode(errors="replace")) > _LONGEST_SUMMARY:
            return False
        with Path(target).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{text}\n")
    except OSError:
        return False
    return True


def render_step_summary(bundle: ResultsBundle) -> str:
    from youbencha.report.markdown import summary_table, title, verdict_table

    parts = [f"### {title(bundle)}", summary_table(bundle)]
    if bundle.evaluators:
        parts.append(verdict_table(bundle))
    return "\n\n".join(parts) + "\n"


def github_annotations(bundle: ResultsBundle, env: Mapping[str, str] | None = None) -> list[str]:
    """Lines to print, on stdout or stderr. None where nobody reads them."""
    if (os.environ if env is None else env).get("GITHUB_ACTIONS") != "true":
        return []
    return list(_annotations(bundle))[:_MOST_ANNOTATIONS]


def _annotations(bundle: ResultsBundle) -> Iterator[str]:
    name = bundle.test_case.name
    agent = bundle.agent
    if agent is not None and agent.status in ("failed", "timeout"):
        reason = agent.errors[0].message if agent.errors else f"The agent ended with {agent.status}."
        yield _command("error", f"{name}: agent", reason)
    for result in bundle.evaluators:
        if result.status == "failed":
            yield _command("error", f"{name}: {result.evaluator}", result.message)
        elif result.error is not None:
            yield _command("warning", f"{name}: {result.evaluator}", _why_skipped(result))


def _why_skipped(result: EvaluationResult) -> str:
    return result.error.message if result.error else result.message


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_replaced(one_line(title, 120), _IN_PROPERTIES)}::{_replaced(message[:4000], _IN_DATA)}"


def _replaced(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(sign, sign) for sign in visible(text))
