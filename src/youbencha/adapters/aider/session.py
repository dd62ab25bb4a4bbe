"""A run that is over -> what is known of it, from the files that it left."""

from __future__ import annotations

from pydantic import Field

from youbencha.adapters.aider.command import Files
from youbencha.adapters.aider.records import Calls, Told, read_analytics, read_calls, read_text
from youbencha.adapters.aider.words import NOT_GUARDED, OwnWords, answers_in, read_own_words
from youbencha.adapters.cli_agent import SessionFacts
from youbencha.adapters.cli_agent.terminal_text import clean_text
from youbencha.process import ProcessResult, Redactor

EDIT = "edit"
"""How a log calls what Aider does with an answer. It has no tools that the model could call."""


class AiderFacts(SessionFacts):
    """With what is in files that are gone when the log is made."""

    answers: list[str] = Field(default_factory=list)
    edited: list[str] = Field(default_factory=list)
    """As often as each was."""


def read_session(files: Files, done: ProcessResult, redactor: Redactor) -> AiderFacts:
    told, calls = read_analytics(files.analytics), read_calls(files.calls)
    answers = [redactor.text(clean_text(answer)) for answer in answers_in(read_text(files.conversation))]
    own = read_own_words(clean_text(done.output), answers)
    if told.launched and not files.guarded.exists():
        own = own._replace(limit=NOT_GUARDED)
    return _facts(told, calls, own, answers, cut_off=done.timed_out or done.stopped or not told.finished)


def _facts(told: Told, calls: Calls, own: OwnWords, answers: list[str], *, cut_off: bool) -> AiderFacts:
    failed = told.unanswered and not cut_off
    failure = own.failure if failed else None
    text = failure.said if failure else told.exception or ""
    return AiderFacts(
        stream_seen=told.launched,
        model=calls.model,
        usage=calls.usage(told.cost_usd, cut_off=cut_off),
        turns=told.answered or None,
        # Its exit code is 0 whatever happened: what counts is that it asked, and was answered to the end.
        results=1 if told.finished and told.answered and not failed else 0,
        result_is_error=own.limit is not None,
        result_subtype=own.limit,
        failed=failed,
        failure_kind=failure.kind if failure else None,
        failure_status=failure.status if failure else None,
        failure_text=text,
        retries=own.retries,
        tools_used={EDIT: len(own.edited)} if own.edited else {},
        answers=answers,
        edited=list(own.edited),
    )
